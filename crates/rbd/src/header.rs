//! The header of an image.

use crate::calls;
use crate::names::{ImageSpec, Pool, data_object, text};
use crate::snapshot::Snapshot;
use crate::steps::NamedSteps;
use crate::{Error, Features, Layout};
use rados::{Place, Steps};
use std::sync::Arc;
use types::{Errno, ParentSpec, PoolId, SnapId, UTime};
use wire::SnapContext;

/// The smallest is 4 KiB. librbd makes no larger objects (64 MiB by default, and 32 MiB per write).
const ORDERS: std::ops::RangeInclusive<u8> = 12..=26;

/// A longer chain of clones is taken for a damaged header (a cycle).
const ANCESTORS_MAX: usize = 256;
/// Attempts to read a header whose parent is missing.
const READS_MAX: usize = 4;

/// State of an image that reads and writes depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Pool, namespace and name under which the image was opened.
    pub spec: ImageSpec,
    /// Id of the image, unique in its pool; part of the names of its objects.
    pub id: String,
    /// Size in bytes, of the image or of the snapshot.
    pub size: u64,
    /// Data objects have 2^order bytes.
    pub order: u8,
    /// Features that the image had when the header was read.
    pub features: Features,
    /// `RBD_FLAG_*`
    pub flags: u64,
    /// Prefix of the names of data objects: `rbd_data.<id>`, with the header's pool id if there is a data
    /// pool.
    pub data_prefix: String,
    /// Pool of the data objects, if it is not the pool of the header.
    pub data_pool: Option<PoolId>,
    /// Mapping of bytes to data objects.
    pub layout: Layout,
    /// Snapshot context for writes: the newest snapshot id, and all existing ones, newest first.
    pub snap_context: SnapContext,
    /// The snapshot that this header describes; [`SnapId::HEAD`] is the image itself.
    pub snap: SnapId,
    /// The parent snapshot of a clone that still depends on it.
    pub parent: Option<Parent>,
    /// The parent, its parent and so on, as read by [`crate::open`]; empty otherwise.
    pub ancestors: Arc<[Header]>,
}

/// The parent of a clone: reads of objects that the clone does not have are served from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// Pool of the parent's header.
    pub pool: PoolId,
    /// Namespace of the parent; empty for the default one.
    pub namespace: String,
    /// Id of the parent image.
    pub image: String,
    /// Snapshot of the parent that the clone shows.
    pub snapshot: SnapId,
    /// Bytes of the parent, from its beginning, that the clone still shows.
    pub overlap: u64,
}

impl Parent {
    /// Pool of the parent's header. Its name is unknown: only the OSD map has names.
    pub(crate) fn pool(&self) -> Pool {
        let (id, namespace) = (self.pool, self.namespace.clone());
        Pool { id, name: format!("pool {id}"), namespace }
    }
}

/// The header together with what `info` displays besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The header of the image, or of the snapshot that was asked for.
    pub header: Header,
    /// Time of creation, by the clock of the OSD that executed it.
    pub created: UTime,
    /// The snapshot that was asked about, if any.
    pub snapshot: Option<Snapshot>,
    /// Names of the parent; `None` if the image is no clone.
    pub parent: Option<ParentInfo>,
}

/// Names of the parent for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentInfo {
    /// `None`: the parent is in the trash or does not exist.
    pub image: Option<String>,
    /// Name of the parent's snapshot; `None` if it has none any more.
    pub snapshot: Option<String>,
}

impl Header {
    /// Location of the header object.
    pub fn place(&self) -> Place {
        self.spec.pool.header(&self.id)
    }

    /// Pool of the data objects.
    pub fn data_pool(&self) -> PoolId {
        self.data_pool.unwrap_or(self.spec.pool.id)
    }

    /// Location of a data object.
    pub fn data_place(&self, object: u64) -> Place {
        let mut place = self.spec.pool.place(data_object(&self.data_prefix, object));
        place.pool = self.data_pool();
        place
    }

    /// Length of the parent's data, from the beginning of the object, that reads show if the object does not
    /// exist.
    pub(crate) fn shown_by_parent(&self, object: u64) -> u64 {
        match &self.parent {
            Some(parent) => self.layout.object_length(object, parent.overlap.min(self.size)),
            None => 0,
        }
    }

    /// Number of data objects that an image of this size may have.
    pub fn objects(&self) -> u64 {
        self.layout.objects(self.size)
    }
}

/// Resolves an image's name to its id.
pub(crate) async fn find_id(steps: &Steps, spec: &ImageSpec) -> Result<String, Error> {
    match steps.read(&spec.pool.id_object(&spec.name), vec![calls::get_id()]).await {
        Ok(reply) => Ok(text(calls::output(&reply, 0, "the id")?, "the id")?),
        Err(Errno::NOENT) => Err(no_image(steps, spec).await?),
        Err(errno) => Err(Error::cluster(format!("resolving the name {spec}"), errno)),
    }
}

async fn no_image(steps: &Steps, spec: &ImageSpec) -> Result<Error, Error> {
    let old = steps.read(&spec.pool.old_header(&spec.name), vec![wire::OsdOp::stat()]).await;
    Ok(match old {
        Ok(_) => Error::refused(format!(
            "{spec} has the old format 1; `rbd migration` or `rbd export` and `rbd import` bring it \
             into format 2"
        )),
        Err(_) => Error::missing(format!("there is no image {spec}")),
    })
}

/// Reads the header of an image.
pub(crate) async fn read(steps: &Steps, spec: &ImageSpec) -> Result<Header, Error> {
    let id = find_id(steps, spec).await?;
    read_with_id(steps, spec, id).await
}

pub(crate) async fn read_with_id(
    steps: &Steps,
    spec: &ImageSpec,
    id: String,
) -> Result<Header, Error> {
    read_at(steps, spec, id, SnapId::HEAD).await
}

/// Reads the header as of a snapshot.
pub(crate) async fn read_at(
    steps: &Steps,
    spec: &ImageSpec,
    id: String,
    snap: SnapId,
) -> Result<Header, Error> {
    let place = spec.pool.header(&id);
    let ops = vec![
        calls::get_size(snap),
        calls::get_features(false),
        calls::get_flags(snap),
        calls::get_object_prefix(),
        calls::get_data_pool(),
        calls::get_snap_context(),
        calls::get_parent(),
        calls::get_parent_overlap(snap),
    ];
    let reply = steps.read_step(&format!("reading the header of {spec}"), &place, ops).await?;
    let (order, size): (u8, u64) = calls::output(&reply, 0, "the size")?;
    let (features, _): (u64, u64) = calls::output(&reply, 1, "the features")?;
    let data_pool: i64 = calls::output(&reply, 4, "the data pool")?;
    let (seq, snaps) = calls::output(&reply, 5, "the snapshots")?;
    let parent: ParentSpec = calls::output(&reply, 6, "the parent")?;
    let overlap: Option<u64> = calls::output(&reply, 7, "the overlap")?;
    let features = Features(features);
    let layout = read_layout(steps, &place, features, order).await?;
    Ok(Header {
        spec: spec.clone(),
        id,
        size,
        order,
        features,
        flags: calls::output(&reply, 2, "the flags")?,
        data_prefix: text(calls::output(&reply, 3, "the prefix")?, "the prefix")?,
        data_pool: (data_pool >= 0).then_some(PoolId(data_pool)),
        layout,
        snap_context: SnapContext { seq, snaps },
        snap,
        ancestors: Arc::new([]),
        parent: overlap.map(|overlap| parent_of(parent, overlap)).transpose()?.flatten(),
    })
}

/// Reads the ancestors as well. If one is missing the header is read again, because a flatten may have run
/// meanwhile.
pub(crate) async fn with_ancestors(
    steps: &Steps,
    read: impl AsyncFn() -> Result<Header, Error>,
) -> Result<Header, Error> {
    let mut tries = 0;
    loop {
        let mut header = read().await?;
        match ancestors(steps, &header).await {
            Ok(ancestors) => {
                header.ancestors = ancestors.into();
                return Ok(header);
            }
            Err(error) if error.errno() == Errno::NOENT && tries < READS_MAX => {
                tries += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

async fn ancestors(steps: &Steps, header: &Header) -> Result<Vec<Header>, Error> {
    let mut ancestors: Vec<Header> = Vec::new();
    let mut next = header.parent.clone();
    while let Some(parent) = next.filter(|parent| parent.overlap > 0) {
        if ancestors.len() >= ANCESTORS_MAX {
            let text =
                format!("{} has more than {ANCESTORS_MAX} generations of parents", header.spec);
            return Err(Error::refused(text));
        }
        let spec = ImageSpec { pool: parent.pool(), name: format!("(id {})", parent.image) };
        let ancestor = read_at(steps, &spec, parent.image, parent.snapshot).await?;
        ancestor.features.check_readable(&spec.to_string())?;
        next = ancestor.parent.clone();
        ancestors.push(ancestor);
    }
    Ok(ancestors)
}

pub(crate) fn parent_of(spec: ParentSpec, overlap: u64) -> Result<Option<Parent>, Error> {
    if !spec.exists() {
        return Ok(None);
    }
    Ok(Some(Parent {
        pool: PoolId(spec.pool),
        namespace: text(spec.namespace, "the parent's namespace")?,
        image: text(spec.image, "the parent's id")?,
        snapshot: spec.snapshot,
        overlap,
    }))
}

async fn read_layout(
    steps: &Steps,
    place: &Place,
    features: Features,
    order: u8,
) -> Result<Layout, Error> {
    let layout = match features.contains(Features::STRIPING) {
        false => Layout::plain(order),
        true => {
            let ops = vec![calls::get_stripe_unit_count()];
            let reply = steps.read_step("reading the striping", place, ops).await?;
            let (unit, count) = calls::output(&reply, 0, "the striping")?;
            Layout::new(order, unit, count)
        }
    };
    let usable = layout.filter(|_| ORDERS.contains(&order));
    usable.ok_or_else(|| {
        Error::refused(format!("objects of 2^{order} bytes with this striping are not supported"))
    })
}
