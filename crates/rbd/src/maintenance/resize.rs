//! Resizing as owner of the exclusive lock.

use crate::header::Header;
use crate::object_map::{self, ObjectMap, State};
use crate::steps::NamedSteps;
use crate::{Error, calls, watchers};
use rados::{Operation, Steps};
use types::Errno;
use wire::OsdOp;

/// Resizes as owner of the lock, for another client.
pub(crate) async fn resize_as_owner(
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

/// True if a shrink to that size reduces the overlap with the parent while snapshots keep theirs. Their share
/// must be copied up first, or a later flatten would miss it.
pub(crate) fn must_copy_up(header: &Header, size: u64) -> bool {
    let overlap = header.parent.as_ref().map_or(0, |parent| parent.overlap);
    size < overlap && !header.snap_context.snaps.is_empty()
}

/// Changes the size, after the data behind a smaller one was removed.
pub(crate) async fn resize_to(steps: &Steps, header: &Header, size: u64) -> Result<(), Error> {
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
    watchers::notify(steps, &header.place()).await
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

/// Refuses a shrink that the caller does not expect.
pub(crate) fn check_shrinking(header: &Header, may_shrink: bool) -> Result<(), Error> {
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
