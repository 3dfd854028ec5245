//! Clients that use an image.

use super::{Body, World};
use crate::network::NodeId;
use crate::process::ImageUser;

impl World {
    /// Lets the user of an image act, once it knows the pool.
    pub(super) fn think_of_image(&mut self, node: NodeId) {
        if let Body::Client(client) = &mut self.nodes[node].body {
            match client.knows_pool(crate::cluster::POOL) {
                true => client.think_of_image(),
                false => client.fetch_map(),
            }
        }
        self.touch(node);
    }

    /// Restarts a blocklisted client as a new one.
    pub(super) fn restart_if_shut_out(&mut self, node: NodeId) -> bool {
        let is_shut_out = self.nodes[node].body.image_user().is_some_and(ImageUser::is_shut_out);
        if is_shut_out {
            self.line(format_args!("node {node} was shut out"));
            self.crash(node, false);
            self.start(node);
        }
        is_shut_out
    }

    /// True if all users of images know the expected content; others are led to that state.
    pub fn image_users_are_ready(&mut self) -> bool {
        let mut are_ready = true;
        for node in self.cast.image_users.clone() {
            self.restart_if_shut_out(node);
            let Body::Client(client) = &self.nodes[node].body else { continue };
            let is_open = client.image_user.as_ref().is_some_and(|user| user.is_open());
            let is_idle = client.in_flight() == 0;
            are_ready &= is_open && is_idle;
            if is_idle && !is_open {
                self.think_of_image(node);
            }
        }
        are_ready
    }

    pub fn describe_image_users(&mut self) -> String {
        let mut text = String::new();
        for node in self.cast.image_users.clone() {
            let Body::Client(client) = &self.nodes[node].body else { continue };
            let (in_flight, user) = (client.in_flight(), client.image_user.as_ref());
            let user = user.map(|user| (user.failure(), user.is_open(), user.describe()));
            text += &format!("node {node}, {in_flight} in flight: {user:?}\n");
        }
        text
    }

    /// Each user reads its image or part.
    pub fn look_at_images(&mut self) {
        for node in self.cast.image_users.clone() {
            if let Body::Client(client) = &mut self.nodes[node].body {
                client.image_user.iter_mut().for_each(|user| user.look());
            }
            self.touch(node);
        }
    }
}
