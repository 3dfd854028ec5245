//! What an image's header says.

use crate::calls;
use crate::names::{ImageSpec, Pool, data_object, text};
use crate::snapshot::Snapshot;
use crate::steps::{Steps, Stop};
use crate::{Error, Features, Layout};
use rados::Place;
use std::sync::Arc;
use types::{Errno, ParentSpec, PoolId, SnapId, UTime};
use wire::SnapContext;

/// Larger ones are not what librbd makes (64 MiB at most by default, 32 MiB per write).
const ORDERS: std::ops::RangeInclusive<u8> = 12..=26;

/// Clones of clones of clones: more is taken for damage.
const ANCESTORS_MAX: usize = 256;
/// How often a header is read again whose parent is not there.
const READS_MAX: usize = 4;

/// An image as clients need to know it to read and write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub spec: ImageSpec,
    pub id: String,
    pub size: u64,
    pub order: u8,
    pub features: Features,
    /// `RBD_FLAG_*`
    pub flags: u64,
    pub data_prefix: String,
    /// Where the data lies, if not beside the header.
    pub data_pool: Option<PoolId>,
    pub layout: Layout,
    pub snap_context: SnapContext,
    /// Which snapshot this shows; [`SnapId::HEAD`] is the image as it is now.
    pub snap: SnapId,
    /// What a clone was made of, as long as it needs that.
    pub parent: Option<Parent>,
    /// The parent, its parent and so on, as [`crate::open`] reads them; else none.
    pub ancestors: Arc<[Header]>,
}

/// What reads of a clone find where it has no objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    pub pool: PoolId,
    pub namespace: String,
    /// The image's id.
    pub image: String,
    pub snapshot: SnapId,
    /// How many bytes of it, from the beginning, the clone still shows.
    pub overlap: u64,
}

impl Parent {
    /// Its header's pool; only the cluster's map knows names.
    pub(crate) fn pool(&self) -> Pool {
        let (id, namespace) = (self.pool, self.namespace.clone());
        Pool { id, name: format!("pool {id}"), namespace }
    }
}

/// What a person is told besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    pub header: Header,
    pub created: UTime,
    /// If it is about one.
    pub snapshot: Option<Snapshot>,
    pub parent: Option<ParentInfo>,
}

/// How people know the parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentInfo {
    /// `None`: it is in the trash, or not there.
    pub image: Option<String>,
    pub snapshot: Option<String>,
}

impl Header {
    pub fn place(&self) -> Place {
        self.spec.pool.header(&self.id)
    }

    /// The pool with the data.
    pub fn data_pool(&self) -> PoolId {
        self.data_pool.unwrap_or(self.spec.pool.id)
    }

    /// The object with this part of the data.
    pub fn data_place(&self, object: u64) -> Place {
        let mut place = self.spec.pool.place(data_object(&self.data_prefix, object));
        place.pool = self.data_pool();
        place
    }

    /// How much of an object the parent shows, from its beginning, if the object is not there.
    pub(crate) fn shown_by_parent(&self, object: u64) -> u64 {
        match &self.parent {
            Some(parent) => self.layout.object_length(object, parent.overlap.min(self.size)),
            None => 0,
        }
    }

    pub fn objects(&self) -> u64 {
        self.layout.objects(self.size)
    }
}

/// The id that belongs to an image's name.
pub(crate) fn find_id(steps: &mut Steps, spec: &ImageSpec) -> Result<String, Stop> {
    match steps.try_look(&spec.pool.id_object(&spec.name), || vec![calls::get_id()])? {
        Ok(reply) => Ok(text(calls::output(&reply, 0, "the id")?, "the id")?),
        Err(Errno::NOENT) => Err(no_image(steps, spec)?.into()),
        Err(errno) => Err(Error::cluster(format!("looking for {spec}"), errno).into()),
    }
}

fn no_image(steps: &mut Steps, spec: &ImageSpec) -> Result<Error, Stop> {
    let old = steps.try_look(&spec.pool.old_header(&spec.name), || vec![wire::OsdOp::stat()])?;
    Ok(match old {
        Ok(_) => Error::refused(format!(
            "{spec} has the old format 1; `rbd migration` or `rbd export` and `rbd import` bring it \
             into format 2"
        )),
        Err(_) => Error::missing(format!("there is no image {spec}")),
    })
}

/// Reads the header of an image.
pub(crate) fn read(steps: &mut Steps, spec: &ImageSpec) -> Result<Header, Stop> {
    let id = find_id(steps, spec)?;
    read_with_id(steps, spec, id)
}

pub(crate) fn read_with_id(
    steps: &mut Steps,
    spec: &ImageSpec,
    id: String,
) -> Result<Header, Stop> {
    read_at(steps, spec, id, SnapId::HEAD)
}

/// What the header says of a snapshot.
pub(crate) fn read_at(
    steps: &mut Steps,
    spec: &ImageSpec,
    id: String,
    snap: SnapId,
) -> Result<Header, Stop> {
    let place = spec.pool.header(&id);
    let reply = steps.look(&format!("reading the header of {spec}"), &place, || {
        vec![
            calls::get_size(snap),
            calls::get_features(false),
            calls::get_flags(snap),
            calls::get_object_prefix(),
            calls::get_data_pool(),
            calls::get_snap_context(),
            calls::get_parent(),
            calls::get_parent_overlap(snap),
        ]
    })?;
    let (order, size): (u8, u64) = calls::output(&reply, 0, "the size")?;
    let (features, _): (u64, u64) = calls::output(&reply, 1, "the features")?;
    let data_pool: i64 = calls::output(&reply, 4, "the data pool")?;
    let (seq, snaps) = calls::output(&reply, 5, "the snapshots")?;
    let parent: ParentSpec = calls::output(&reply, 6, "the parent")?;
    let overlap: Option<u64> = calls::output(&reply, 7, "the overlap")?;
    let features = Features(features);
    let layout = read_layout(steps, &place, features, order)?;
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

/// Reads also what it was cloned of, and so on. Somebody may make an image independent meanwhile.
pub(crate) fn with_ancestors(
    steps: &mut Steps,
    read: impl Fn(&mut Steps) -> Result<Header, Stop>,
) -> Result<Header, Stop> {
    let mut tries = 0;
    loop {
        let mut header = read(steps)?;
        match ancestors(steps, &header) {
            Ok(ancestors) => {
                header.ancestors = ancestors.into();
                return Ok(header);
            }
            Err(Stop::Failed(error)) if error.errno() == Errno::NOENT && tries < READS_MAX => {
                tries += 1;
            }
            Err(stop) => return Err(stop),
        }
    }
}

fn ancestors(steps: &mut Steps, header: &Header) -> Result<Vec<Header>, Stop> {
    let mut ancestors: Vec<Header> = Vec::new();
    let mut next = header.parent.clone();
    while let Some(parent) = next.filter(|parent| parent.overlap > 0) {
        if ancestors.len() >= ANCESTORS_MAX {
            let text =
                format!("{} has more than {ANCESTORS_MAX} generations of parents", header.spec);
            return Err(Error::refused(text).into());
        }
        let spec = ImageSpec { pool: parent.pool(), name: format!("(id {})", parent.image) };
        let ancestor = read_at(steps, &spec, parent.image, parent.snapshot)?;
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

fn read_layout(
    steps: &mut Steps,
    place: &Place,
    features: Features,
    order: u8,
) -> Result<Layout, Stop> {
    let layout = match features.contains(Features::STRIPING) {
        false => Layout::plain(order),
        true => {
            let ops = || vec![calls::get_stripe_unit_count()];
            let reply = steps.look("reading the striping", place, ops)?;
            let (unit, count) = calls::output(&reply, 0, "the striping")?;
            Layout::new(order, unit, count)
        }
    };
    let usable = layout.filter(|_| ORDERS.contains(&order));
    usable.ok_or_else(|| {
        Error::refused(format!(
            "objects of 2^{order} bytes, striped as they are, are not understood"
        ))
        .into()
    })
}
