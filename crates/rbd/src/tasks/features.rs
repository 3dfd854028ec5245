//! Enabling and disabling features of images.

use super::tell_watchers;
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::task::Task;
use crate::workflow::{Stop, Workflow};
use crate::{Error, Features, ImageSpec, calls, object_map};

/// Features that this client can enable and disable.
const MUTABLE: Features =
    Features(Features::EXCLUSIVE_LOCK.0 | Features::OBJECT_MAP.0 | Features::FAST_DIFF.0);
/// Features that can be disabled.
const REMOVABLE: Features = Features(MUTABLE.0 | Features::DEEP_FLATTEN.0);

/// Enables or disables features. A new object map is empty and marked invalid; [`crate::rebuild_object_map`]
/// fills it.
pub fn change_features(spec: ImageSpec, features: Features, is_on: bool) -> Task<()> {
    Task::new(move |workflow| {
        let header = header::read(workflow, &spec)?;
        header.features.check_writable(&spec.to_string())?;
        with_lock(workflow, header, |workflow, header| match is_on {
            true => enable(workflow, header, features),
            false => disable(workflow, header, features),
        })
    })
}

fn check(features: Features, can: Features, what: &str) -> Result<(), Error> {
    match can.contains(features) {
        true => Ok(()),
        false => Err(Error::refused(format!("{features} cannot be {what}; {can} can"))),
    }
}

fn enable(workflow: &mut Workflow, header: &Header, wanted: Features) -> Result<(), Stop> {
    check(wanted, MUTABLE, "given to an image")?;
    let new = wanted.without(header.features);
    let after = header.features.with(new);
    after.check_dependencies()?;
    if new == Features::NONE {
        return Ok(());
    }
    // The flags are set first, so that no client uses a map that is not filled yet.
    let header = Header { features: after, ..header.clone() };
    if new.contains(Features::OBJECT_MAP) {
        object_map::make_empty(workflow, &header)?;
    } else if new.contains(Features::FAST_DIFF) {
        object_map::mark_all_invalid(workflow, &header)?;
    }
    set(workflow, &header, new, new)
}

fn disable(workflow: &mut Workflow, header: &Header, unwanted: Features) -> Result<(), Stop> {
    check(unwanted, REMOVABLE, "taken away")?;
    let unwanted = match unwanted.contains(Features::OBJECT_MAP) {
        true => unwanted.with(Features::FAST_DIFF),
        false => unwanted,
    };
    let gone = Features(header.features.0 & unwanted.0);
    header.features.without(gone).check_dependencies()?;
    if gone == Features::NONE {
        return Ok(());
    }
    set(workflow, header, Features::NONE, gone)?;
    if gone.contains(Features::OBJECT_MAP) {
        object_map::remove_all(workflow, header)?;
    }
    Ok(())
}

fn set(
    workflow: &mut Workflow,
    header: &Header,
    new: Features,
    mask: Features,
) -> Result<(), Stop> {
    let ops = || vec![calls::set_features(new.0, mask.0)];
    workflow.write("changing the features", &header.place(), ops)?;
    tell_watchers(workflow, &header.place())
}
