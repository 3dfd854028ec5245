//! Reading a rank from the metadata pool.

use super::error::FsckError;
use super::reader::{Found, Reader};
use crate::rows::place;
use crate::store::objects::{read_all, read_pairs};
use bytes::Bytes;
use engine::Duration;
use fsjournal::{SUPER, Super, head_name};
use rados::{Place, Steps};
use std::cell::RefCell;
use types::{Epoch, PoolId};

/// Pause before a map is asked for again that shuts a server out.
const MAP_RETRY: Duration = Duration::from_millis(100);
/// Objects that are read at once.
const OBJECTS_AT_ONCE: usize = 16;

/// The rank that is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The metadata pool.
    pub pool: PoolId,
    /// The rank.
    pub rank: u32,
    /// The OSD map that shuts out all servers that had the rank.
    pub osd_epoch: Epoch,
}

impl Target {
    pub(super) fn place(&self, object: impl Into<Bytes>) -> Place {
        place(self.pool, object)
    }

    /// Waits for the map that shuts servers out: later requests carry its epoch.
    pub(super) async fn await_map(&self, steps: &Steps) -> Result<(), FsckError> {
        while steps.newest_map().await? < self.osd_epoch {
            steps.wait(MAP_RETRY).await;
        }
        Ok(())
    }

    /// The head, and that the pool has a file system.
    pub(super) async fn head(&self, steps: &Steps) -> Result<Bytes, FsckError> {
        let missing = |object: &str| FsckError::Missing { object: object.to_owned() };
        let found = read_all(steps, &self.place(SUPER)).await?;
        let found = found.ok_or_else(|| missing(SUPER))?;
        Super::decode(&found).map_err(FsckError::undecodable(SUPER))?;
        let name = head_name(self.rank);
        let head = read_all(steps, &self.place(name.clone())).await?;
        head.ok_or_else(|| missing(&name))
    }
}

/// Reads everything and checks it. `objects` are all objects of the pool in the namespace `sepiola`. If a
/// server or a repair changes the head meanwhile, the outcome means nothing, and is an error.
pub async fn read(
    steps: Steps,
    target: Target,
    objects: Vec<Bytes>,
    accepts_loss: bool,
) -> Result<Found, FsckError> {
    target.await_map(&steps).await?;
    let head = target.head(&steps).await?;
    let mut reader = Reader::new(target.rank, &head, accepts_loss)?;
    while let Some(segment) = reader.next_segment() {
        let data = read_all(&steps, &target.place(segment)).await?;
        reader.segment(data.as_ref())?;
    }
    let reader = RefCell::new(reader);
    let rows = objects.into_iter().filter(|name| reader.borrow_mut().object(name));
    let rows: Vec<Bytes> = rows.collect();
    let read = async |object: Bytes| read_rows(&steps, &target, &reader, object).await;
    steps.each(OBJECTS_AT_ONCE, rows, read).await?;
    match target.head(&steps).await? == head {
        true => Ok(reader.into_inner().finish()),
        false => Err(FsckError::Taken),
    }
}

async fn read_rows(
    steps: &Steps,
    target: &Target,
    reader: &RefCell<Reader>,
    object: Bytes,
) -> Result<(), FsckError> {
    let (place, mut after) = (target.place(object.clone()), Bytes::new());
    let name = String::from_utf8_lossy(&object);
    loop {
        let page = read_pairs(steps, &place, &after).await?;
        for (key, value) in &page.pairs {
            reader.borrow_mut().row(&name, key, value);
        }
        match page.pairs.last() {
            Some((last, _)) if page.more => after = last.clone(),
            _ => return Ok(()),
        }
    }
}
