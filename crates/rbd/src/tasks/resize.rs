//! Another size for an image.

use super::clone::{copy_up_before_shrinking, must_copy_up};
use super::tell_watchers;
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::object_map::{self, ObjectMap, State};
use crate::steps::{Steps, Stop, Task, change};
use crate::{Error, ImageSpec, calls};
use types::Errno;
use wire::OsdOp;

/// A smaller image loses what is behind its end; that must be meant (`may_shrink`). The data goes
/// first: what a later growth shows must be zeros.
pub fn resize(spec: ImageSpec, size: u64, may_shrink: bool) -> Task<()> {
    Task::new(move |steps| {
        let header = header::read(steps, &spec)?;
        header.features.check_writable(&spec.to_string())?;
        if size < header.size {
            check_shrinking(&header, may_shrink)?;
        }
        if size == header.size {
            return Ok(());
        }
        copy_up_before_shrinking(steps, &spec, &header, size)?;
        let is_copied_up = must_copy_up(&header, size);
        with_lock(steps, header, |steps, header| {
            if size < header.size {
                // It may have grown since its lock was asked for.
                check_shrinking(header, may_shrink)?;
            }
            if !is_copied_up && must_copy_up(header, size) {
                let text = format!("{spec} got a snapshot meanwhile; resize it again");
                return Err(Error::cluster(text, Errno::AGAIN).into());
            }
            resize_to(steps, header, size)
        })
    })
}

/// By the owner of the lock, on another's behalf.
pub(super) fn resize_as_owner(
    steps: &mut Steps,
    header: &Header,
    size: u64,
    may_shrink: bool,
) -> Result<(), Stop> {
    if size < header.size {
        check_shrinking(header, may_shrink)?;
    }
    if must_copy_up(header, size) {
        let text = format!(
            "{} shows less of its parent then, and its snapshots do not: that is for the client that \
             asks, once this one has given up the lock",
            header.spec
        );
        return Err(Error::cluster(text, Errno::NOTSUPP).into());
    }
    resize_to(steps, header, size)
}

pub(super) fn resize_to(steps: &mut Steps, header: &Header, size: u64) -> Result<(), Stop> {
    if size == header.size {
        return Ok(());
    }
    let (old, new) = (header.objects(), header.layout.objects(size));
    let mut map = object_map::open(steps, header)?;
    if new > old {
        object_map::resize(steps, header, &mut map, new)?;
    }
    if size < header.size {
        trim_with_map(steps, header, &mut map, size)?;
    }
    steps.change("setting the size", &header.place(), || vec![calls::set_size(size)])?;
    if new < old {
        object_map::resize(steps, header, &mut map, new)?;
    }
    object_map::close(steps, header)?;
    tell_watchers(steps, &header.place())
}

/// Before objects go, the map says that they may; what is cut has changed.
fn trim_with_map(
    steps: &mut Steps,
    header: &Header,
    map: &mut Option<ObjectMap>,
    size: u64,
) -> Result<(), Stop> {
    let gone = header.layout.objects(size)..header.objects();
    let cut = first_to_trim(header, size)..gone.start;
    let exists = Some(State::Exists);
    object_map::update_all(steps, header, map, cut, State::Exists, exists)?;
    object_map::update_all(steps, header, map, gone.clone(), State::Pending, None)?;
    trim(steps, header, map.as_ref(), size)?;
    object_map::update_all(steps, header, map, gone, State::Nonexistent, Some(State::Pending))
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

/// Objects behind the new end go, those that reach over it lose the rest.
fn trim(
    steps: &mut Steps,
    header: &Header,
    map: Option<&ObjectMap>,
    size: u64,
) -> Result<(), Stop> {
    let layout = header.layout;
    let objects = first_to_trim(header, size)..header.objects();
    steps.sweep("removing data behind the new end", objects, |object| {
        if map.is_some_and(|map| !map.may_exist(object)) {
            return None;
        }
        let op = match layout.object_length(object, size) {
            0 => OsdOp::remove(),
            length => OsdOp::truncate(length),
        };
        let mut operation = change(header.data_place(object), vec![op]);
        operation.snap_context = header.snap_context.clone();
        Some(operation)
    })
}
