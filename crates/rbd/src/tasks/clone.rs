//! Creation of a clone from a snapshot, and flattening.

use super::create::{CreateSpec, make_image};
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::maintenance::detach;
use crate::maintenance::parents::{self, CloneFormat};
use crate::maintenance::resize::must_copy_up;
use crate::snapshot::Snapshot;
use crate::steps::NamedSteps;
use crate::task::Task;
use crate::work::work;
use crate::{Error, Features, ImageSpec, Request, calls, snapshot_list};
use bytes::Bytes;
use rados::{Place, Steps};
use std::collections::BTreeMap;
use types::PoolId;

/// Metadata pairs that are copied with one operation.
const METADATA_PAGE: u64 = 64;

/// Parameters of [`clone_image`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneSpec {
    /// The image to clone.
    pub parent: ImageSpec,
    /// Name of the parent's snapshot that the clone shows.
    pub snapshot: String,
    /// The image to create.
    pub image: ImageSpec,
    /// Letters and digits, unique in the pool; the caller takes them from the system's entropy.
    pub id: String,
    /// The parent's order if `None`.
    pub order: Option<u8>,
    /// Features of the clone; layering is added.
    pub features: Features,
    /// Pool of the data objects; `None` for the pool of the header.
    pub data_pool: Option<PoolId>,
    /// Stripe unit in bytes and stripe count; `None` for no striping.
    pub striping: Option<(u64, u64)>,
    /// Place of the clone's registration.
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
            return Err(Error::refused(format!("{name} has no data that a clone could show")));
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
            false => Err(Error::refused("clones of format 1 cannot be in namespaces")),
        }
    }
}

/// Creates an image that shows a snapshot's data until it is written.
pub fn clone_image(spec: CloneSpec) -> Task<()> {
    Task::new(async move |steps| {
        let parent = header::read(&steps, &spec.parent).await?;
        let snapshot = snapshot_list::find(&steps, &parent, &spec.snapshot).await?;
        spec.check(&parent, &snapshot)?;
        let child = spec.child(&parent, &snapshot);
        let (image, id, format) = (&spec.image, &spec.id, spec.format);
        let place = image.pool.header(id);
        let link =
            async |steps: &Steps| parents::link(steps, &parent, &snapshot, &place, format).await;
        let furnish = async |steps: &Steps| {
            parents::attach(steps, &parent, snapshot.id, image, id, format).await?;
            copy_metadata(steps, &parent, &place).await
        };
        let outcome = make_image(&steps, &child, link, furnish).await;
        if outcome.is_err() {
            let of = header::Parent {
                pool: parent.spec.pool.id,
                namespace: parent.spec.pool.namespace.clone(),
                image: parent.id.clone(),
                snapshot: snapshot.id,
                overlap: snapshot.size,
            };
            // Errors of the rollback are dropped: the first error is the one worth reporting.
            let _ = detach::unregister_clone(&steps, image, id, &of, format).await;
        }
        outcome
    })
}

/// Copies the metadata of the parent (its settings, for example) to the clone.
async fn copy_metadata(steps: &Steps, parent: &Header, child: &Place) -> Result<(), Error> {
    let mut last = Bytes::new();
    loop {
        let ops = vec![calls::list_metadata(&last, METADATA_PAGE)];
        let reply = steps.read_step("reading the parent's metadata", &parent.place(), ops).await?;
        let page: BTreeMap<Bytes, Bytes> = calls::output(&reply, 0, "the metadata")?;
        let Some(newest) = page.last_key_value().map(|(key, _)| key.clone()) else { return Ok(()) };
        let ops = vec![calls::set_metadata(&page)];
        steps.write_step("copying the parent's metadata", child, ops).await?;
        last = newest;
    }
}

/// Copies all of the parent's data that a clone shows into the clone, and detaches it.
pub fn flatten(image: ImageSpec) -> Task<()> {
    Task::new(async move |steps| {
        let header =
            header::with_ancestors(&steps, async || header::read(&steps, &image).await).await?;
        header.features.check_writable(&image.to_string())?;
        let Some(parent) = &header.parent else {
            return Err(Error::refused(format!("{image} is no clone")));
        };
        copy_up(&steps, &header, 0, parent.overlap).await?;
        with_lock(&steps, header, detach::detach_from_parent).await
    })
}

/// Copies the parent's data of all objects that a range touches.
async fn copy_up(steps: &Steps, header: &Header, start: u64, end: u64) -> Result<(), Error> {
    let chunk = header.layout.object_size() * header.layout.stripe_count();
    let chunks = start / chunk..end.div_ceil(chunk);
    work(steps, header, chunks, |number, header| {
        let offset = number * chunk;
        let length = chunk.min(header.size.saturating_sub(offset));
        (length > 0).then_some(Request::CopyUp { offset, length })
    })
    .await
}

pub(super) async fn copy_up_before_shrinking(
    steps: &Steps,
    image: &ImageSpec,
    header: &Header,
    size: u64,
) -> Result<(), Error> {
    if !must_copy_up(header, size) {
        return Ok(());
    }
    let header = header::with_ancestors(steps, async || header::read(steps, image).await).await?;
    let overlap = header.parent.as_ref().map_or(0, |parent| parent.overlap);
    copy_up(steps, &header, size, overlap).await
}
