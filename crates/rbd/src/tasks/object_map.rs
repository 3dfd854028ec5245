//! Making object maps anew, and comparing them with the objects.

use super::tell_watchers;
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::object_map::{self, MapFindings};
use crate::snapshot;
use crate::steps::{Steps, Stop, Task};
use crate::{Error, Features, ImageSpec};

/// The object map of an image or of a snapshot says from then on what is there, and is valid.
pub fn rebuild_object_map(image: ImageSpec, snapshot: Option<String>) -> Task<()> {
    Task::new(move |steps| as_owner(steps, &image, snapshot.as_deref(), object_map::rebuild))
}

/// Compares the object map of an image or of a snapshot with the objects. One that is wrong becomes invalid.
pub fn check_object_map(image: ImageSpec, snapshot: Option<String>) -> Task<MapFindings> {
    Task::new(move |steps| {
        as_owner(steps, &image, snapshot.as_deref(), |steps, shown| {
            match shown.has_map() {
            true => object_map::check(steps, shown),
            false => Err(Error::refused(format!(
                "the object map of {image} is marked as invalid; `image object-map rebuild` makes it anew"
            ))
            .into()),
        }
        })
    })
}

/// With the header of what is shown: the image, or a snapshot.
fn as_owner<T>(
    steps: &mut Steps,
    image: &ImageSpec,
    snapshot: Option<&str>,
    work: impl Fn(&mut Steps, &Header) -> Result<T, Stop>,
) -> Result<T, Stop> {
    let header = header::read(steps, image)?;
    header.features.check_writable(&image.to_string())?;
    if !header.features.contains(Features::OBJECT_MAP) {
        return Err(Error::refused(format!("{image} lacks the feature object-map")).into());
    }
    with_lock(steps, header, |steps, header| {
        let outcome = match snapshot {
            None => work(steps, header)?,
            Some(name) => {
                let snap = snapshot::find(steps, header, name)?.id;
                let shown = header::read_at(steps, image, header.id.clone(), snap)?;
                work(steps, &shown)?
            }
        };
        // Flags may have changed.
        tell_watchers(steps, &header.place())?;
        Ok(outcome)
    })
}
