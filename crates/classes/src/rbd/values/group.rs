//! Groups of images, and snapshots of groups.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::SnapId;

const IMAGE_PREFIX: &str = "image_";
/// Hexadecimal digits of a pool's number in a key.
const POOL_DIGITS: usize = 16;

/// `GroupSpec`: a group; pool -1 means none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupSpec {
    /// Pool of the group.
    pub pool: i64,
    /// Id of the group.
    pub group: Bytes,
}

impl Default for GroupSpec {
    fn default() -> Self {
        GroupSpec { pool: -1, group: Bytes::new() }
    }
}

impl Encode for GroupSpec {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.i64(self.pool);
            w.value(&self.group);
        });
    }
}

impl Decode for GroupSpec {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("group", 1, |r, _| Ok(GroupSpec { pool: r.i64("pool")?, group: r.value()? }))
    }
}

/// `GroupImageSpec`: an image of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupImage {
    /// Id of the image.
    pub image: Bytes,
    /// Pool of the image.
    pub pool: i64,
}

impl GroupImage {
    /// Prefix of keys of images.
    pub const KEY_PREFIX: &str = IMAGE_PREFIX;

    /// The key behind its prefix; empty for no image.
    pub fn key_tail(&self) -> Vec<u8> {
        match self.pool {
            -1 => Vec::new(),
            pool => [format!("{pool:016x}_").as_bytes(), &self.image].concat(),
        }
    }

    /// `None` if the key is damaged.
    pub fn from_key_tail(tail: &Bytes) -> Option<GroupImage> {
        let (pool, image) = tail.split_at_checked(POOL_DIGITS)?;
        let pool = u64::from_str_radix(std::str::from_utf8(pool).ok()?, 16).ok()?;
        let image = tail.slice_ref(image.strip_prefix(b"_")?);
        Some(GroupImage { image, pool: pool as i64 })
    }
}

impl Encode for GroupImage {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.value(&self.image);
            w.i64(self.pool);
        });
    }
}

impl Decode for GroupImage {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("group image", 1, |r, _| {
            Ok(GroupImage { image: r.value()?, pool: r.i64("pool")? })
        })
    }
}

/// `GroupImageStatus`: an image of a group, with whether it was added completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupImageStatus {
    /// The image.
    pub image: GroupImage,
    /// `GROUP_IMAGE_LINK_STATE_*`: being attached or removed, or attached.
    pub state: u8,
}

impl Encode for GroupImageStatus {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.value(&self.image);
            w.u8(self.state);
        });
    }
}

impl Decode for GroupImageStatus {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("group image status", 1, |r, _| {
            Ok(GroupImageStatus { image: r.value()?, state: r.u8("state")? })
        })
    }
}

/// `ImageSnapshotSpec`: the snapshot of one image of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageSnapshot {
    /// Pool of the image.
    pub pool: i64,
    /// Id of the image.
    pub image: Bytes,
    /// Id of the image's snapshot.
    pub snapshot: SnapId,
}

impl Encode for ImageSnapshot {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.i64(self.pool);
            w.value(&self.image);
            w.value(&self.snapshot);
        });
    }
}

impl Decode for ImageSnapshot {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("image snapshot", 1, |r, _| {
            let (pool, image, snapshot) = r.value()?;
            Ok(ImageSnapshot { pool, image, snapshot })
        })
    }
}

/// `GroupSnapshot`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupSnapshot {
    /// Id of the group's snapshot.
    pub id: Bytes,
    /// Name of the group's snapshot.
    pub name: Bytes,
    /// `GROUP_SNAPSHOT_STATE_*`
    pub state: u8,
    /// Snapshots of the images.
    pub images: Vec<ImageSnapshot>,
}

impl GroupSnapshot {
    /// `GROUP_SNAPSHOT_STATE_INCOMPLETE`: it is being taken.
    pub const INCOMPLETE: u8 = 0;
}

impl Encode for GroupSnapshot {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.value(&self.id);
            w.value(&self.name);
            w.u8(self.state);
            w.value(&self.images);
        });
    }
}

impl Decode for GroupSnapshot {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("group snapshot", 1, |r, _| {
            let (id, name, state, images) = r.value()?;
            Ok(GroupSnapshot { id, name, state, images })
        })
    }
}
