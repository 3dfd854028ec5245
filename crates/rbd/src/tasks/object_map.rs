//! Rebuild and check of object maps.

use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::object_map::{self, MapFindings};
use crate::snapshot_list;
use crate::task::Task;
use crate::watchers;
use crate::{Error, Features, ImageSpec};
use rados::Steps;

/// Rebuilds the object map of an image or of a snapshot from its objects, and marks it valid.
pub fn rebuild_object_map(image: ImageSpec, snapshot: Option<String>) -> Task<()> {
    Task::new(async move |steps| {
        as_owner(&steps, &image, snapshot.as_deref(), object_map::rebuild).await
    })
}

/// Compares the object map of an image or of a snapshot with the objects; marks it invalid if it is wrong.
pub fn check_object_map(image: ImageSpec, snapshot: Option<String>) -> Task<MapFindings> {
    Task::new(async move |steps| {
        as_owner(&steps, &image, snapshot.as_deref(), async |steps, shown| match shown.has_map() {
            true => object_map::check(steps, shown).await,
            false => Err(Error::refused(format!(
                "the object map of {image} is marked as invalid; `image object-map rebuild` makes it \
                 anew"
            ))),
        })
        .await
    })
}

/// Runs a function as lock owner, with the header of the image or of the snapshot.
async fn as_owner<T>(
    steps: &Steps,
    image: &ImageSpec,
    snapshot: Option<&str>,
    work: impl AsyncFn(&Steps, &Header) -> Result<T, Error>,
) -> Result<T, Error> {
    let header = header::read(steps, image).await?;
    header.features.check_writable(&image.to_string())?;
    if !header.features.contains(Features::OBJECT_MAP) {
        return Err(Error::refused(format!("{image} lacks the feature object-map")));
    }
    with_lock(steps, header, async |steps, header| {
        let outcome = match snapshot {
            None => work(steps, header).await?,
            Some(name) => {
                let snap = snapshot_list::find(steps, header, name).await?.id;
                let shown = header::read_at(steps, image, header.id.clone(), snap).await?;
                work(steps, &shown).await?
            }
        };
        // Flags may have changed.
        watchers::notify(steps, &header.place()).await?;
        Ok(outcome)
    })
    .await
}
