//! Computes the object map from the objects themselves, to rebuild or to check it.

use super::owner::{close, load, owned};
use super::states::{ObjectMap, State};
use super::{calls, snapshots};
use crate::calls::output;
use crate::header::Header;
use crate::lock;
use crate::steps::NamedSteps;
use crate::{Error, Features};
use rados::{Operation, OperationReply, Steps};
use types::{Errno, SnapId};
use wire::OsdOp;
use wire::op::OpCode;
use wire::snapshots::{CloneInfo, SnapListing};

/// librbd's bound: images with more objects have no map.
const OBJECTS_MAX: u64 = 256_000_000;
/// Mismatches that are listed one by one; the rest is only counted.
const NAMED_MAX: usize = 100;

/// An object whose state in the map is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// Number of the data object.
    pub object: u64,
    /// State in the map.
    pub said: State,
    /// State by the object itself.
    pub is: State,
}

/// Result of a comparison of a map with the objects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MapFindings {
    /// Number of mismatches; the map is marked invalid if there are any.
    pub wrong: u64,
    /// The first mismatches.
    pub first: Vec<Mismatch>,
    /// Objects that the map has as existing and that do not exist. They cost a needless read and are
    /// harmless.
    pub missing: u64,
}

/// States of all objects of an image, or of the snapshot that the header shows. The caller excludes writers.
async fn examine(steps: &Steps, shown: &Header) -> Result<ObjectMap, Error> {
    let image = &shown.spec;
    if shown.objects() > OBJECTS_MAX {
        let text = format!("{image} has more objects than an object map can have, {OBJECTS_MAX}");
        return Err(Error::refused(text));
    }
    let older = shown.snap_context.snaps.iter().copied().filter(|snap| *snap < shown.snap);
    let before = older.max().filter(|_| shown.features.contains(Features::FAST_DIFF));
    let list = |object| {
        let ops = vec![OsdOp::new(OpCode::LIST_SNAPS)];
        Operation { snap: SnapId::DIR, ..Operation::new(shown.data_place(object), ops) }
    };
    let mut states = vec![0; shown.objects() as usize];
    let note = |object, answer| {
        states[object as usize] = state(answer, shown.snap, before)? as u8;
        Ok(())
    };
    let looked = steps.for_each(0..shown.objects(), |object| Some(list(object)), note).await;
    let step = format!("reading the objects of {image}");
    looked.map_err(|errno| Error::cluster(step, errno))?;
    Ok(ObjectMap::from_states(&states))
}

fn state(
    answer: Result<OperationReply, Errno>,
    snap: SnapId,
    before: Option<SnapId>,
) -> Result<State, Errno> {
    let listing: SnapListing = match answer {
        Ok(reply) => output(&reply, 0, "an object's snapshots").map_err(|_| Errno::IO)?,
        Err(Errno::NOENT) => return Ok(State::Nonexistent),
        Err(errno) => return Err(errno),
    };
    let version = version_at(&listing, snap);
    Ok(match before.and_then(|before| version_at(&listing, before)) {
        _ if version.is_none() => State::Nonexistent,
        Some(older) if version == Some(older) => State::Clean,
        _ => State::Exists,
    })
}

/// The version of an object that a snapshot shows: a clone, or the head if it was not written since.
fn version_at(listing: &SnapListing, snap: SnapId) -> Option<SnapId> {
    let shows = |info: &&CloneInfo| match info.clone {
        SnapId::HEAD => snap > listing.seq,
        _ => info.snaps.contains(&snap),
    };
    listing.clones.iter().find(shows).map(|info| info.clone)
}

/// Rebuilds the map of the image or snapshot that the header shows. The caller holds the image's lock.
pub(crate) async fn rebuild(steps: &Steps, shown: &Header) -> Result<(), Error> {
    let map = examine(steps, shown).await?;
    let place = shown.map_place();
    let step = format!("saving the object map of {}", shown.spec);
    match shown.snap {
        SnapId::HEAD => {
            lock::take_over(steps, &place).await?.map_err(|errno| Error::cluster(&step, errno))?;
            steps.write_step(&step, &place, owned(shown, calls::save(&map)).ops).await?;
        }
        _ => steps.write_step(&step, &place, vec![calls::save(&map)]).await?,
    }
    let ops = vec![calls::clear_flags(shown.snap)];
    steps.write_step("marking the object map as valid", &shown.place(), ops).await?;
    match shown.snap {
        SnapId::HEAD => close(steps, shown).await,
        _ => Ok(()),
    }
}

/// Compares the map of the image or snapshot that the header shows with the objects. The caller holds the
/// image's lock.
pub(crate) async fn check(steps: &Steps, shown: &Header) -> Result<MapFindings, Error> {
    let said = match load(steps, shown).await {
        Ok(map) => map,
        Err(errno) => {
            snapshots::mark_invalid(steps, shown, shown.snap).await?;
            let step = format!(
                "reading the object map of {}, which is marked as invalid now (`image object-map \
                 rebuild` makes it anew)",
                shown.spec
            );
            return Err(Error::cluster(step, errno));
        }
    };
    let is = examine(steps, shown).await?;
    let findings = compare(&said, &is);
    if findings.wrong > 0 {
        snapshots::mark_invalid(steps, shown, shown.snap).await?;
    }
    Ok(findings)
}

fn compare(said: &ObjectMap, is: &ObjectMap) -> MapFindings {
    let mut findings = MapFindings::default();
    for object in 0..is.len() {
        let (Some(said), Some(is)) = (said.get(object), is.get(object)) else { continue };
        match (said, is) {
            _ if said == is => {}
            (State::Exists | State::Clean, State::Nonexistent) => findings.missing += 1,
            _ => {
                findings.wrong += 1;
                if findings.first.len() < NAMED_MAX {
                    findings.first.push(Mismatch { object, said, is });
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::OpResult;

    fn listing(seq: u64, clones: &[(u64, &[u64])]) -> Result<OperationReply, Errno> {
        let info = |(clone, snaps): &(u64, &[u64])| CloneInfo {
            clone: SnapId(*clone),
            snaps: snaps.iter().copied().map(SnapId).collect(),
            overlap: Vec::new(),
            size: 1,
        };
        let listing = SnapListing { clones: clones.iter().map(info).collect(), seq: SnapId(seq) };
        let output = codec::encode_to_bytes(&listing);
        let ops = vec![OpResult::new(&OsdOp::stat(), 0, output)];
        Ok(OperationReply { ops, ..OperationReply::default() })
    }

    #[test]
    fn an_object_equal_in_successive_snapshots_is_clean() {
        const HEAD: u64 = SnapId::HEAD.0;
        // Snapshots 2, 4, 6; the object was written before 4 and after 4.
        let object = || listing(4, &[(4, &[4]), (HEAD, &[])]);
        let at = |snap, before: u64| {
            state(object(), SnapId(snap), (before > 0).then_some(SnapId(before))).unwrap()
        };
        assert_eq!(at(2, 0), State::Nonexistent);
        assert_eq!(at(4, 2), State::Exists);
        assert_eq!(at(6, 4), State::Exists);
        assert_eq!(at(HEAD, 6), State::Clean);
        // Without fast-diff the previous snapshot is not considered.
        assert_eq!(at(HEAD, 0), State::Exists);
        // The object was removed after 4; its last write came before 2.
        let gone = |snap, before| state(listing(4, &[(4, &[2, 4])]), snap, Some(before)).unwrap();
        assert_eq!(gone(SnapId(4), SnapId(2)), State::Clean);
        assert_eq!(gone(SnapId(6), SnapId(4)), State::Nonexistent);
        assert_eq!(gone(SnapId::HEAD, SnapId(6)), State::Nonexistent);
        let missing = state(Err(Errno::NOENT), SnapId::HEAD, None);
        assert_eq!(missing, Ok(State::Nonexistent));
        assert_eq!(state(Err(Errno::PERM), SnapId::HEAD, None), Err(Errno::PERM));
    }
}
