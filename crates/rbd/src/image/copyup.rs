//! Copy-up: writes to clones.
//!
//! The part of the parent's data that a write does not cover must stay visible. A write therefore asserts
//! that the object exists; if it does not, the parent's data is read and written together with the change.
//!
//! While the existence of an object is being determined, all other accesses to it are held, so that order is
//! kept and reads see earlier writes.

use super::access::{Action, Stage};
use super::request::Piece;
use crate::Header;
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::OsdOp;

/// Unit of comparison with zeros, so that holes stay holes.
const GRAIN: usize = 4096;

/// Relation of a write to the parent's data in its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// The parent shows nothing there.
    Plain,
    /// The write covers all of the parent's data.
    Hides,
    /// Some of the parent's data must be kept, in the image or in snapshots.
    Keeps,
}

fn plan(header: &Header, object: u64, action: &Action) -> Plan {
    let shown = header.shown_by_parent(object);
    let hides = match action {
        Action::Write { offset, data } => *offset == 0 && data.len() as u64 >= shown,
        Action::Zero { offset, length } => *offset == 0 && *length >= shown,
        Action::Truncate { size } => *size == 0,
        Action::Remove => true,
        Action::CopyUp | Action::Read { .. } | Action::Map { .. } => false,
    };
    match hides && header.snap_context.snaps.is_empty() {
        _ if shown == 0 => Plan::Plain,
        true => Plan::Hides,
        false => Plan::Keeps,
    }
}

/// Operation for an object of a clone. A missing object would show the parent again, so removal becomes
/// truncation.
pub(super) fn op_in_clone(action: &Action) -> OsdOp {
    match action {
        Action::Remove => OsdOp::truncate(0),
        other => other.op(),
    }
}

/// Stage and operations of a change of an object, before it is known whether the object exists.
pub(super) fn first_attempt(header: &Header, object: u64, action: &Action) -> (Stage, Vec<OsdOp>) {
    let op = op_in_clone(action);
    match (plan(header, object, action), action) {
        (Plan::Plain, action) => (Stage::Sent, vec![action.op()]),
        (Plan::Hides, Action::Write { .. }) => (Stage::Sent, vec![op]),
        (Plan::Hides, _) => (Stage::Sent, vec![OsdOp::create(false), op]),
        (Plan::Keeps, Action::CopyUp) => (Stage::Guarded, vec![OsdOp::stat()]),
        (Plan::Keeps, _) => (Stage::Guarded, vec![OsdOp::stat(), op]),
    }
}

/// Calls the class method `copyup`, which does nothing if the object exists.
pub(super) fn copy_up(data: &Bytes) -> OsdOp {
    OsdOp::call("rbd", "sparse_copyup", data)
}

/// Concatenates extents and data up to an offset; `None` if all is zeros.
pub(super) fn sparse(pieces: &[Piece], end: u64) -> Option<Bytes> {
    let mut extents: BTreeMap<u64, u64> = BTreeMap::new();
    let mut data: Vec<u8> = Vec::new();
    let mut offset = 0;
    for piece in pieces {
        if let Piece::Data(bytes) = piece {
            let shown = end.saturating_sub(offset).min(bytes.len() as u64) as usize;
            add_filled(&mut extents, &mut data, offset, &bytes[..shown]);
        }
        offset += piece.len();
    }
    (!data.is_empty()).then(|| codec::encode_to_bytes(&(extents, Bytes::from(data))))
}

fn add_filled(extents: &mut BTreeMap<u64, u64>, data: &mut Vec<u8>, mut at: u64, bytes: &[u8]) {
    for grain in bytes.chunks(GRAIN) {
        if grain.iter().any(|byte| *byte != 0) {
            data.extend_from_slice(grain);
            match extents.last_entry() {
                Some(mut last) if last.key() + last.get() == at => {
                    *last.get_mut() += grain.len() as u64;
                }
                _ => drop(extents.insert(at, grain.len() as u64)),
            }
        }
        at += grain.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_not_copied_up() {
        let grain = |byte: u8| vec![byte; GRAIN];
        let data = [grain(1), grain(2), grain(0), grain(3)].concat();
        let pieces = [Piece::Zeros(100), Piece::Data(data.into()), Piece::Zeros(1)];
        let payload = sparse(&pieces, u64::MAX).unwrap();
        let (extents, copied): (BTreeMap<u64, u64>, Bytes) =
            codec::decode_all("payload", &payload).unwrap();
        let size = GRAIN as u64;
        assert_eq!(extents, BTreeMap::from([(100, 2 * size), (100 + 3 * size, size)]));
        assert_eq!(copied, [grain(1), grain(2), grain(3)].concat());
        let cut = sparse(&pieces, 110).unwrap();
        let (extents, _): (BTreeMap<u64, u64>, Bytes) = codec::decode_all("payload", &cut).unwrap();
        assert_eq!(extents, BTreeMap::from([(100, 10)]));
        assert!(sparse(&[Piece::Data(grain(0).into())], u64::MAX).is_none());
    }
}
