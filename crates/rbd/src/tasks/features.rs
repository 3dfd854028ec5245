//! Enabling and disabling features of images.

use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::steps::NamedSteps;
use crate::task::Task;
use crate::watchers;
use crate::{Error, Features, ImageSpec, calls, object_map};
use rados::Steps;

/// Features that this client can enable and disable.
const MUTABLE: Features =
    Features(Features::EXCLUSIVE_LOCK.0 | Features::OBJECT_MAP.0 | Features::FAST_DIFF.0);
/// Features that can be disabled.
const REMOVABLE: Features = Features(MUTABLE.0 | Features::DEEP_FLATTEN.0);

/// Enables or disables features. A new object map is empty and marked invalid; [`crate::rebuild_object_map`]
/// fills it.
pub fn change_features(spec: ImageSpec, features: Features, is_on: bool) -> Task<()> {
    Task::new(async move |steps| {
        let header = header::read(&steps, &spec).await?;
        header.features.check_writable(&spec.to_string())?;
        with_lock(&steps, header, async |steps, header| match is_on {
            true => enable(steps, header, features).await,
            false => disable(steps, header, features).await,
        })
        .await
    })
}

fn check(features: Features, can: Features, what: &str) -> Result<(), Error> {
    match can.contains(features) {
        true => Ok(()),
        false => Err(Error::refused(format!("{features} cannot be {what}; {can} can"))),
    }
}

async fn enable(steps: &Steps, header: &Header, wanted: Features) -> Result<(), Error> {
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
        object_map::make_empty(steps, &header).await?;
    } else if new.contains(Features::FAST_DIFF) {
        object_map::mark_all_invalid(steps, &header).await?;
    }
    set(steps, &header, new, new).await
}

async fn disable(steps: &Steps, header: &Header, unwanted: Features) -> Result<(), Error> {
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
    set(steps, header, Features::NONE, gone).await?;
    if gone.contains(Features::OBJECT_MAP) {
        object_map::remove_all(steps, header).await?;
    }
    Ok(())
}

async fn set(steps: &Steps, header: &Header, new: Features, mask: Features) -> Result<(), Error> {
    let ops = vec![calls::set_features(new.0, mask.0)];
    steps.write_step("changing the features", &header.place(), ops).await?;
    watchers::notify(steps, &header.place()).await
}
