//! Making a clone of a snapshot, and making it independent again.

use super::create::{CreateSpec, make_image};
use super::parents::{self, CloneFormat};
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::snapshot::{self, Snapshot};
use crate::steps::{Steps, Stop, Task};
use crate::{Error, Features, ImageSpec, Request, calls};
use bytes::Bytes;
use rados::Place;
use std::collections::BTreeMap;
use types::PoolId;

/// Pairs of metadata that are copied at once.
const METADATA_PAGE: u64 = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneSpec {
    pub parent: ImageSpec,
    pub snapshot: String,
    pub image: ImageSpec,
    /// Letters and digits that no image of the pool has; from the system's entropy.
    pub id: String,
    /// The parent's if there is none.
    pub order: Option<u8>,
    pub features: Features,
    pub data_pool: Option<PoolId>,
    pub striping: Option<(u64, u64)>,
    pub format: CloneFormat,
}

impl CloneSpec {
    fn child(&self, parent: &Header, snapshot: &Snapshot) -> CreateSpec {
        CreateSpec {
            image: self.image.clone(),
            id: self.id.clone(),
            size: snapshot.size,
            order: self.order.unwrap_or(parent.order),
            features: self.features.with(Features::LAYERING),
            data_pool: self.data_pool,
            striping: self.striping,
        }
    }

    fn check(&self, parent: &Header, snapshot: &Snapshot) -> Result<(), Error> {
        let name = format!("{}@{}", self.parent, self.snapshot);
        parent.features.check_readable(&self.parent.to_string())?;
        if !parent.features.contains(Features::LAYERING) {
            return Err(Error::refused(format!("{} lacks the feature layering", self.parent)));
        }
        if snapshot.size == 0 {
            return Err(Error::refused(format!("{name} has no bytes that a clone could show")));
        }
        if self.format == CloneFormat::Two {
            return Ok(());
        }
        if !snapshot.is_protected() {
            return Err(Error::refused(format!(
                "{name} is not protected, which clones of format 1 need (`snap protect`)"
            )));
        }
        let namespaces = [&self.parent.pool.namespace, &self.image.pool.namespace];
        match namespaces.iter().all(|namespace| namespace.is_empty()) {
            true => Ok(()),
            false => Err(Error::refused("clones of format 1 know no namespaces")),
        }
    }
}

/// A new image that shows what a snapshot does, until it is written.
pub fn clone_image(spec: CloneSpec) -> Task<()> {
    Task::new(move |steps| {
        let parent = header::read(steps, &spec.parent)?;
        let snapshot = snapshot::find(steps, &parent, &spec.snapshot)?;
        spec.check(&parent, &snapshot)?;
        let child = spec.child(&parent, &snapshot);
        let (image, id, format) = (&spec.image, &spec.id, spec.format);
        let place = image.pool.header(id);
        let link = |steps: &mut Steps| parents::link(steps, &parent, &snapshot, &place, format);
        let furnish = |steps: &mut Steps| {
            parents::attach(steps, &parent, snapshot.id, image, id, format)?;
            copy_metadata(steps, &parent, &place)
        };
        match make_image(steps, &child, link, furnish) {
            Err(Stop::Failed(error)) => {
                let of = header::Parent {
                    pool: parent.spec.pool.id,
                    namespace: parent.spec.pool.namespace.clone(),
                    image: parent.id.clone(),
                    snapshot: snapshot.id,
                    overlap: snapshot.size,
                };
                // What cannot be undone either is told to nobody: the first error is the one to know.
                match parents::leave(steps, image, id, &of, format) {
                    Err(Stop::Waiting) => Err(Stop::Waiting),
                    _ => Err(error.into()),
                }
            }
            outcome => outcome,
        }
    })
}

/// What people keep with an image, its settings for example, also goes for its clones.
fn copy_metadata(steps: &mut Steps, parent: &Header, child: &Place) -> Result<(), Stop> {
    let mut last = Bytes::new();
    loop {
        let ops = || vec![calls::list_metadata(&last, METADATA_PAGE)];
        let reply = steps.look("reading the parent's metadata", &parent.place(), ops)?;
        let page: BTreeMap<Bytes, Bytes> = calls::output(&reply, 0, "the metadata")?;
        let Some(newest) = page.last_key_value().map(|(key, _)| key.clone()) else { return Ok(()) };
        let ops = || vec![calls::set_metadata(&page)];
        steps.change("copying the parent's metadata", child, ops)?;
        last = newest;
    }
}

/// Everything that a clone shows of its parent becomes its own.
pub fn flatten(image: ImageSpec) -> Task<()> {
    Task::new(move |steps| {
        let header = header::with_ancestors(steps, |steps| header::read(steps, &image))?;
        header.features.check_writable(&image.to_string())?;
        let Some(parent) = &header.parent else {
            return Err(Error::refused(format!("{image} is no clone")).into());
        };
        copy_up(steps, &header, 0, parent.overlap)?;
        with_lock(steps, header, parents::become_independent)
    })
}

/// Copies what the parent shows in a range, and a little around it.
fn copy_up(steps: &mut Steps, header: &Header, start: u64, end: u64) -> Result<(), Stop> {
    let chunk = header.layout.object_size() * header.layout.stripe_count();
    let chunks = start / chunk..end.div_ceil(chunk);
    steps.work("copying what the parent has", header, chunks, |number, header| {
        let offset = number * chunk;
        let length = chunk.min(header.size.saturating_sub(offset));
        (length > 0).then_some(Request::CopyUp { offset, length })
    })
}

/// Whether an image of that size shows less of its parent, and its snapshots do not. They must not need
/// the parent when the image is flattened later.
pub(super) fn must_copy_up(header: &Header, size: u64) -> bool {
    let overlap = header.parent.as_ref().map_or(0, |parent| parent.overlap);
    size < overlap && !header.snap_context.snaps.is_empty()
}

pub(super) fn copy_up_before_shrinking(
    steps: &mut Steps,
    image: &ImageSpec,
    header: &Header,
    size: u64,
) -> Result<(), Stop> {
    if !must_copy_up(header, size) {
        return Ok(());
    }
    let header = header::with_ancestors(steps, |steps| header::read(steps, image))?;
    let overlap = header.parent.as_ref().map_or(0, |parent| parent.overlap);
    copy_up(steps, &header, size, overlap)
}
