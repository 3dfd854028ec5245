//! Rebuild and check of object maps.

use super::tell_watchers;
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::object_map::{self, MapFindings};
use crate::snapshot;
use crate::task::Task;
use crate::workflow::{Stop, Workflow};
use crate::{Error, Features, ImageSpec};

/// Rebuilds the object map of an image or of a snapshot from its objects, and marks it valid.
pub fn rebuild_object_map(image: ImageSpec, snapshot: Option<String>) -> Task<()> {
    Task::new(move |workflow| as_owner(workflow, &image, snapshot.as_deref(), object_map::rebuild))
}

/// Compares the object map of an image or of a snapshot with the objects; marks it invalid if it is wrong.
pub fn check_object_map(image: ImageSpec, snapshot: Option<String>) -> Task<MapFindings> {
    Task::new(move |workflow| {
        as_owner(workflow, &image, snapshot.as_deref(), |workflow, shown| {
            match shown.has_map() {
            true => object_map::check(workflow, shown),
            false => Err(Error::refused(format!(
                "the object map of {image} is marked as invalid; `image object-map rebuild` makes it anew"
            ))
            .into()),
        }
        })
    })
}

/// Runs a function as lock owner, with the header of the image or of the snapshot.
fn as_owner<T>(
    workflow: &mut Workflow,
    image: &ImageSpec,
    snapshot: Option<&str>,
    work: impl Fn(&mut Workflow, &Header) -> Result<T, Stop>,
) -> Result<T, Stop> {
    let header = header::read(workflow, image)?;
    header.features.check_writable(&image.to_string())?;
    if !header.features.contains(Features::OBJECT_MAP) {
        return Err(Error::refused(format!("{image} lacks the feature object-map")).into());
    }
    with_lock(workflow, header, |workflow, header| {
        let outcome = match snapshot {
            None => work(workflow, header)?,
            Some(name) => {
                let snap = snapshot::find(workflow, header, name)?.id;
                let shown = header::read_at(workflow, image, header.id.clone(), snap)?;
                work(workflow, &shown)?
            }
        };
        // Flags may have changed.
        tell_watchers(workflow, &header.place())?;
        Ok(outcome)
    })
}
