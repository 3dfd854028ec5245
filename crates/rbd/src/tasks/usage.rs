//! Space usage of an image.

use crate::steps::NamedSteps;
use crate::task::Task;
use crate::{ImageSpec, header, object_map};
use rados::Operation;
use wire::OsdOp;

/// Sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Size of the image.
    pub size: u64,
    /// Size of all existing objects, each counted whole as far as it is within the image.
    pub used: u64,
}

/// With an object map this takes one request; without, one for each object.
pub fn usage(spec: ImageSpec) -> Task<Usage> {
    Task::new(async move |steps| {
        let header = header::read(&steps, &spec).await?;
        let map = match header.has_map() {
            true => object_map::load(&steps, &header).await.ok(),
            false => None,
        };
        let objects = match map {
            Some(map) => map.existing(header.objects()),
            None => {
                let stat =
                    |object| Some(Operation::new(header.data_place(object), vec![OsdOp::stat()]));
                steps.count_step("reading which objects exist", 0..header.objects(), stat).await?
            }
        };
        let used = (objects * header.layout.object_size()).min(header.size);
        Ok(Usage { size: header.size, used })
    })
}
