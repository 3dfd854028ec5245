//! How much of an image is in use.

use crate::steps::Task;
use crate::{ImageSpec, header, object_map};
use rados::Operation;
use wire::OsdOp;

/// In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub size: u64,
    /// By objects, each counted as a whole as far as it is within the image.
    pub used: u64,
}

/// With an object map this is one question; without, one for each object.
pub fn usage(spec: ImageSpec) -> Task<Usage> {
    Task::new(move |steps| {
        let header = header::read(steps, &spec)?;
        let map = match header.has_map() {
            true => object_map::load(steps, &header)?.ok(),
            false => None,
        };
        let objects = match map {
            Some(map) => map.existing(header.objects()),
            None => steps.count("looking for objects", 0..header.objects(), |object| {
                Some(Operation::new(header.data_place(object), vec![OsdOp::stat()]))
            })?,
        };
        let used = (objects * header.layout.object_size()).min(header.size);
        Ok(Usage { size: header.size, used })
    })
}
