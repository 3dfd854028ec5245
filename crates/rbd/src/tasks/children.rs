//! Clones of a snapshot.

use crate::header::Header;
use crate::names::{Pool, text};
use crate::steps::{Steps, Stop};
use crate::{Error, calls};
use bytes::Bytes;
use std::collections::BTreeSet;
use types::{Errno, SnapId};

/// The ids of the clones of the first format in a pool.
pub(super) fn old_children(
    steps: &mut Steps,
    header: &Header,
    snap: SnapId,
    pool: &Pool,
) -> Result<Vec<String>, Stop> {
    let parent = (header.spec.pool.id.0, header.id.as_str(), snap);
    match steps.try_look(&pool.children(), || vec![calls::get_old_children(parent)])? {
        Ok(reply) => {
            let ids: BTreeSet<Bytes> = calls::output(&reply, 0, "the clones")?;
            let ids = ids.into_iter().map(|id| text(id, "a clone's id"));
            Ok(ids.collect::<Result<_, Error>>()?)
        }
        Err(Errno::NOENT) => Ok(Vec::new()),
        Err(errno) => Err(Error::cluster(format!("asking for clones in {pool}"), errno).into()),
    }
}
