//! The client that works with an image.

use super::{Body, World};
use crate::network::NodeId;
use crate::process::ImageUser;

impl World {
    /// Its user does the next thing, once it knows the pool.
    pub(super) fn think_of_image(&mut self, node: NodeId) {
        if let Body::Client(client) = &mut self.nodes[node].body {
            match client.knows_pool(crate::cluster::POOL) {
                true => client.think_of_image(),
                false => client.fetch_map(),
            }
        }
        self.touch(node);
    }

    pub fn image_user(&mut self) -> Option<&mut ImageUser> {
        let node = self.cast.image_user?;
        match &mut self.nodes[node].body {
            Body::Client(client) => client.image_user.as_mut(),
            _ => None,
        }
    }

    /// The whole image is read; false if there is none.
    pub fn look_at_image(&mut self) -> bool {
        let Some(node) = self.cast.image_user else { return false };
        let user = self.image_user().filter(|user| user.is_open());
        let is_open = user.map(ImageUser::look).is_some();
        self.touch(node);
        is_open
    }
}
