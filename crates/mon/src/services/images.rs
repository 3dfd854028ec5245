//! Background work on images. Tasks and schedules are stored, and traffic is counted with the reports of
//! OSDs, so the service has no state of its own.

use crate::commands::{image_perf, image_schedules, image_tasks};
use crate::service::{Catalog, Family, Service};

pub(super) const CATALOG: Catalog = Catalog {
    topics: &[],
    messages: &[],
    commands: &[
        Family(38, image_perf::COMMANDS),
        Family(39, image_schedules::COMMANDS),
        Family(40, image_schedules::MIRROR_COMMANDS),
        Family(41, image_schedules::TRASH_COMMANDS),
        Family(42, image_tasks::COMMANDS),
    ],
    checks: &[],
};

/// The service of tasks and schedules of images.
#[derive(Debug, Default)]
pub(crate) struct ImagesService;

impl Service for ImagesService {}
