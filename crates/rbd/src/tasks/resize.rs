//! Resizing of an image.

use super::clone::{copy_up_before_shrinking, must_copy_up};
use super::tell_watchers;
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::object_map::{self, ObjectMap, State};
use crate::steps::NamedSteps;
use crate::task::Task;
use crate::{Error, ImageSpec, calls};
use rados::{Operation, Steps};
use types::Errno;
use wire::OsdOp;

/// Resizes an image. A shrink, which loses data, needs `may_shrink`. Data goes before the size changes, since
/// a later growth must show zeros.
pub fn resize(spec: ImageSpec, size: u64, may_shrink: bool) -> Task<()> {
    Task::new(async move |steps| {
        let header = header::read(&steps, &spec).await?;
        header.features.check_writable(&spec.to_string())?;
        if size < header.size {
            check_shrinking(&header, may_shrink)?;
        }
        if size == header.size {
            return Ok(());
        }
        copy_up_before_shrinking(&steps, &spec, &header, size).await?;
        let is_copied_up = must_copy_up(&header, size);
        with_lock(&steps, header, async |steps, header| {
            if size < header.size {
                // The image may have grown while the lock was requested.
                check_shrinking(header, may_shrink)?;
            }
            if !is_copied_up && must_copy_up(header, size) {
                let text = format!("{spec} got a snapshot meanwhile; resize it again");
                return Err(Error::cluster(text, Errno::AGAIN));
            }
            resize_to(steps, header, size).await
        })
        .await
    })
}

/// Resizes as owner of the lock, for another client.
pub(super) async fn resize_as_owner(
    steps: &Steps,
    header: &Header,
    size: u64,
    may_shrink: bool,
) -> Result<(), Error> {
    if size < header.size {
        check_shrinking(header, may_shrink)?;
    }
    if must_copy_up(header, size) {
        let text = format!(
            "{} shows less of its parent then, and its snapshots do not: that is for the client that \
             asks, once this one has given up the lock",
            header.spec
        );
        return Err(Error::cluster(text, Errno::NOTSUPP));
    }
    resize_to(steps, header, size).await
}

pub(super) async fn resize_to(steps: &Steps, header: &Header, size: u64) -> Result<(), Error> {
    if size == header.size {
        return Ok(());
    }
    let (old, new) = (header.objects(), header.layout.objects(size));
    let mut map = object_map::open(steps, header).await?;
    if new > old {
        object_map::resize(steps, header, &mut map, new).await?;
    }
    if size < header.size {
        trim_with_map(steps, header, &mut map, size).await?;
    }
    steps.write_step("setting the size", &header.place(), vec![calls::set_size(size)]).await?;
    if new < old {
        object_map::resize(steps, header, &mut map, new).await?;
    }
    object_map::close(steps, header).await?;
    tell_watchers(steps, &header.place()).await
}

/// Trims with the object map: objects are marked pending before they are removed, and truncated ones as
/// written.
async fn trim_with_map(
    steps: &Steps,
    header: &Header,
    map: &mut Option<ObjectMap>,
    size: u64,
) -> Result<(), Error> {
    let gone = header.layout.objects(size)..header.objects();
    let cut = first_to_trim(header, size)..gone.start;
    let exists = Some(State::Exists);
    object_map::update_all(steps, header, map, cut, State::Exists, exists).await?;
    object_map::update_all(steps, header, map, gone.clone(), State::Pending, None).await?;
    trim(steps, header, map.as_ref(), size).await?;
    object_map::update_all(steps, header, map, gone, State::Nonexistent, Some(State::Pending)).await
}

/// With striping, all objects of the last set may reach over the end.
fn first_to_trim(header: &Header, size: u64) -> u64 {
    header.layout.objects(size).saturating_sub(header.layout.stripe_count())
}

fn check_shrinking(header: &Header, may_shrink: bool) -> Result<(), Error> {
    if !may_shrink {
        return Err(Error::refused(format!(
            "{} would become smaller and lose what is behind its new end; --allow-shrink says that \
             this is meant",
            header.spec
        )));
    }
    Ok(())
}

/// Removes objects behind the new end and truncates those that reach over it.
async fn trim(
    steps: &Steps,
    header: &Header,
    map: Option<&ObjectMap>,
    size: u64,
) -> Result<(), Error> {
    let layout = header.layout;
    let objects = first_to_trim(header, size)..header.objects();
    steps
        .for_each_step("removing data behind the new end", objects, |object| {
            if map.is_some_and(|map| !map.may_exist(object)) {
                return None;
            }
            let op = match layout.object_length(object, size) {
                0 => OsdOp::remove(),
                length => OsdOp::truncate(length),
            };
            let mut operation = Operation::write(header.data_place(object), vec![op]);
            operation.snap_context = header.snap_context.clone();
            Some(operation)
        })
        .await
}
