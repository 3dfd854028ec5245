//! Expected results of reads, and the check of a whole snapshot.

use crate::process::image_user::bytes;
use rbd::{
    ClusterRequest, ClusterRequestId, ClusterResponse, Header, Image, ImageSpec, Outcome, Request,
    RequestSource, Task,
};
use std::ops::Range;

/// A snapshot that is opened and read.
pub(super) enum Look {
    Opening(Box<Task<Header>>, Vec<u8>),
    Reading(Box<Image>, Vec<u8>),
}

impl Look {
    /// Opens a snapshot with these contents.
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

/// Expected result of a request.
pub(super) enum Expected {
    Done,
    /// Expected bytes from this offset on.
    Contents(usize, Vec<u8>),
}

impl Expected {
    /// True if a concurrent write in the range may or may not be visible to it.
    pub fn reads(&self, range: &Range<usize>) -> bool {
        match self {
            Expected::Done => false,
            Expected::Contents(at, contents) => {
                *at < range.end && range.start < at + contents.len()
            }
        }
    }
}

/// The first difference between what was expected and what came.
pub(super) fn difference(
    expected: &Expected,
    outcome: Result<Outcome, rbd::Error>,
) -> Option<String> {
    match (expected, outcome) {
        (_, Err(error)) => Some(error.to_string()),
        (Expected::Contents(_, contents), Ok(Outcome::Data(pieces))) => {
            let read = bytes(&pieces);
            let at = contents.iter().zip(&read).position(|(wanted, is)| wanted != is);
            match at {
                Some(at) => {
                    Some(format!("byte {at} of a read is {}, not {}", read[at], contents[at]))
                }
                None if read.len() != contents.len() => Some("a read is too short".to_owned()),
                None => None,
            }
        }
        (Expected::Done, Ok(Outcome::Done)) => None,
        (_, Ok(outcome)) => Some(format!("unexpected {outcome:?}")),
    }
}
