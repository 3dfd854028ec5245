//! Giving features to images and taking them away.

use super::tell_watchers;
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::steps::{Steps, Stop, Task};
use crate::{Error, Features, ImageSpec, calls, object_map};

/// What this client can change.
const MUTABLE: Features =
    Features(Features::EXCLUSIVE_LOCK.0 | Features::OBJECT_MAP.0 | Features::FAST_DIFF.0);
/// What can be taken away, too.
const REMOVABLE: Features = Features(MUTABLE.0 | Features::DEEP_FLATTEN.0);

/// A new object map knows nothing yet, and says so: [`crate::rebuild_object_map`] fills it.
pub fn change_features(spec: ImageSpec, features: Features, is_on: bool) -> Task<()> {
    Task::new(move |steps| {
        let header = header::read(steps, &spec)?;
        header.features.check_writable(&spec.to_string())?;
        with_lock(steps, header, |steps, header| match is_on {
            true => enable(steps, header, features),
            false => disable(steps, header, features),
        })
    })
}

fn check(features: Features, can: Features, what: &str) -> Result<(), Error> {
    match can.contains(features) {
        true => Ok(()),
        false => Err(Error::refused(format!("{features} cannot be {what}; {can} can"))),
    }
}

fn enable(steps: &mut Steps, header: &Header, wanted: Features) -> Result<(), Stop> {
    check(wanted, MUTABLE, "given to an image")?;
    let new = wanted.without(header.features);
    let after = header.features.with(new);
    after.check_dependencies()?;
    if new == Features::NONE {
        return Ok(());
    }
    // Flags come first: nobody shall rely on what is not there yet.
    let header = Header { features: after, ..header.clone() };
    if new.contains(Features::OBJECT_MAP) {
        object_map::make_empty(steps, &header)?;
    } else if new.contains(Features::FAST_DIFF) {
        object_map::mark_all_invalid(steps, &header)?;
    }
    set(steps, &header, new, new)
}

fn disable(steps: &mut Steps, header: &Header, unwanted: Features) -> Result<(), Stop> {
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
    set(steps, header, Features::NONE, gone)?;
    if gone.contains(Features::OBJECT_MAP) {
        object_map::remove_all(steps, header)?;
    }
    Ok(())
}

fn set(steps: &mut Steps, header: &Header, new: Features, mask: Features) -> Result<(), Stop> {
    let ops = || vec![calls::set_features(new.0, mask.0)];
    steps.change("changing the features", &header.place(), ops)?;
    tell_watchers(steps, &header.place())
}
