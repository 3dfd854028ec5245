//! Work on images in the background: tasks and schedules.
//!
//! Both are durable and done by workers, which learn of them by commands. The traffic of images stands in the
//! reports of OSDs, see [`crate::statistics`].

use crate::service::{Catalog, Service};

pub(super) const CATALOG: Catalog = Catalog { topics: &[], messages: &[] };

/// The service of tasks and schedules. It has no state of its own.
#[derive(Debug, Default)]
pub(crate) struct ImagesService;

impl Service for ImagesService {}
