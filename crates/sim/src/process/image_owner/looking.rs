//! Read and check of a whole snapshot.

use super::{Expected, ImageOwner, Stage, difference};
use rbd::{
    ClusterRequest, ClusterRequestId, ClusterResponse, Header, Image, ImageSpec, Request,
    RequestSource, Task,
};

pub(super) enum Look {
    Opening(Box<Task<Header>>, Vec<u8>),
    Reading(Box<Image>, Vec<u8>),
}

impl Look {
    pub fn new(spec: ImageSpec, snapshot: String, contents: Vec<u8>) -> Self {
        Look::Opening(Box::new(rbd::open_snapshot(spec, snapshot)), contents)
    }

    /// The result of the check, once the snapshot has been read.
    pub fn poll_outcome(&mut self) -> Option<Result<(), String>> {
        match self {
            Look::Opening(task, contents) => {
                let header = match task.poll_outcome()? {
                    Ok(header) => header,
                    Err(error) => return Some(Err(error.to_string())),
                };
                let contents = std::mem::take(contents);
                if header.size != contents.len() as u64 {
                    return Some(Err(format!("has {} bytes", header.size)));
                }
                let mut image = match Image::new(header, false) {
                    Ok(image) => image,
                    Err(error) => return Some(Err(error.to_string())),
                };
                image.submit(Request::Read { offset: 0, length: contents.len() as u64 });
                *self = Look::Reading(Box::new(image), contents);
                self.poll_outcome()
            }
            Look::Reading(image, contents) => {
                let (_, outcome) = image.poll_completion()?;
                let expected = Expected::Contents(0, std::mem::take(contents));
                Some(difference(&expected, outcome).map_or(Ok(()), Err))
            }
        }
    }
}

impl RequestSource for Look {
    fn poll_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)> {
        match self {
            Look::Opening(task, _) => task.poll_request(),
            Look::Reading(image, _) => image.poll_request(),
        }
    }

    fn handle_response(&mut self, id: ClusterRequestId, answer: ClusterResponse) {
        match self {
            Look::Opening(task, _) => task.handle_response(id, answer),
            Look::Reading(image, _) => image.handle_response(id, answer),
        }
    }
}

impl ImageOwner {
    pub(super) fn end_look(&mut self, outcome: Result<(), String>) {
        let Some(Stage::Looking(image, _)) = self.stage.take() else { return };
        self.stage = Some(Stage::Open(image));
        if let Err(why) = outcome {
            self.failure.get_or_insert(format!("a snapshot: {why}"));
        }
    }
}
