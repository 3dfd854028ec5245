//! Opening of an image: its header, object map and details.

use super::children::name_of;
use crate::header::{self, Header, Info, Parent, ParentInfo};
use crate::snapshot::Snapshot;
use crate::steps::NamedSteps;
use crate::task::Task;
use crate::{Error, ImageSpec, ObjectMap, calls, snapshot_list};
use rados::Steps;

/// Reads the header for reading and writing an image.
pub fn open(spec: ImageSpec) -> Task<Header> {
    Task::new(async move |steps| {
        let header =
            header::with_ancestors(&steps, async || header::read(&steps, &spec).await).await?;
        header.features.check_readable(&spec.to_string())?;
        Ok(header)
    })
}

/// Reads the header for reading a snapshot of an image.
pub fn open_snapshot(spec: ImageSpec, name: String) -> Task<Header> {
    Task::new(async move |steps| {
        let header = header::with_ancestors(&steps, async || {
            at_snapshot(&steps, &spec, &name).await.map(|(header, _)| header)
        })
        .await?;
        header.features.check_readable(&spec.to_string())?;
        Ok(header)
    })
}

async fn at_snapshot(
    steps: &Steps,
    spec: &ImageSpec,
    name: &str,
) -> Result<(Header, Snapshot), Error> {
    let head = header::read(steps, spec).await?;
    let snapshot = snapshot_list::find(steps, &head, name).await?;
    Ok((header::read_at(steps, spec, head.id, snapshot.id).await?, snapshot))
}

/// Reads the object map of an image or of a snapshot, for [`crate::Image::use_map`]; `None` if there is no
/// valid one. It contains all writes that completed before the task began. Images with a parent get none: a
/// flatten creates objects and may remove the parent.
pub fn object_map(header: Header) -> Task<Option<ObjectMap>> {
    let shows_parent = header.parent.as_ref().is_some_and(|parent| parent.overlap > 0);
    Task::new(async move |steps| match header.has_map() && !shows_parent {
        true => Ok(crate::object_map::load(&steps, &header).await.ok()),
        false => Ok(None),
    })
}

/// Reads the header of an image, or of one of its snapshots, with details for display.
pub fn info(spec: ImageSpec, snapshot: Option<String>) -> Task<Info> {
    Task::new(async move |steps| {
        let (header, snapshot) = match &snapshot {
            None => (header::read(&steps, &spec).await?, None),
            Some(name) => at_snapshot(&steps, &spec, name)
                .await
                .map(|(header, found)| (header, Some(found)))?,
        };
        let ops = vec![calls::get_created()];
        let reply = steps.read_step("reading the time of creation", &header.place(), ops).await?;
        let created = calls::output(&reply, 0, "the time of creation")?;
        let parent = match &header.parent {
            Some(parent) => Some(parent_names(&steps, parent).await?),
            None => None,
        };
        Ok(Info { created, snapshot, parent, header })
    })
}

/// Names of the parent.
async fn parent_names(steps: &Steps, parent: &Parent) -> Result<ParentInfo, Error> {
    let pool = parent.pool();
    let image = name_of(steps, &pool, &parent.image).await?;
    let ops = vec![calls::get_snapshot(parent.snapshot)];
    let snapshot = match steps.read(&pool.header(&parent.image), ops).await {
        Ok(reply) => Some(snapshot_list::name(&reply)?),
        Err(_) => None,
    };
    Ok(ParentInfo { image, snapshot })
}
