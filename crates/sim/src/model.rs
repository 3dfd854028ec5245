//! Actions of clients, their results, and the sequential object that defines the expected results.
//!
//! Semantics are Ceph's: reading an absent object is ENOENT, most writes create, a guard that does not hold
//! is ECANCELED and changes nothing.

use bytes::Bytes;
use codec::{Reader, Writer};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{Errno, PoolId, SnapId, UTime};
use wire::copy::CopySource;
use wire::op::{OpCode, compare};
use wire::osd_op::CopyFromArguments;
use wire::{ObjectLocator, OpResult, OsdOp, SnapContext};

/// An incarnation of a client, which may hold a lock.
pub type ActorId = u32;

/// The only lock that objects have here.
const LOCK_NAME: &[u8] = b"l";
const LOCK_ATTR_PREFIX: &[u8] = b"lock.";
const LOCK_EXCLUSIVE: u8 = 1;
const LOCK_COOKIE: &[u8] = b"";
/// The attribute that guards an update.
const GUARD: &[u8] = b"guard";
const PAIRS_MAX: u64 = 1000;

/// One request to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Write {
        offset: u64,
        data: Bytes,
    },
    WriteFull {
        data: Bytes,
    },
    Append {
        data: Bytes,
    },
    /// As `Append`, in a pool that takes appends only behind whole stripes of so many bytes.
    AppendStripes {
        data: Bytes,
        stripe: u64,
    },
    Truncate {
        size: u64,
    },
    Zero {
        offset: u64,
        length: u64,
    },
    Create,
    Remove,
    /// Sets the guard and replaces the data, if the guard has the expected value.
    Swap {
        expected: Bytes,
        new: Bytes,
        data: Bytes,
    },
    /// Sets the guard, sets an omap pair, and appends, in one request.
    Mix {
        guard: Bytes,
        key: Bytes,
        data: Bytes,
    },
    OmapSet {
        key: Bytes,
        value: Bytes,
    },
    OmapRemove {
        key: Bytes,
    },
    Lock,
    Unlock,
    Read,
    /// Reads a range of the data.
    ReadPart {
        offset: u64,
        length: u64,
    },
    /// Reads data, guard and omap at once.
    Look,
    /// As `Read` and `Look`, at a snapshot.
    ReadAt(SnapId),
    LookAt(SnapId),
    /// Restores the object to a snapshot.
    Rollback(SnapId),
    /// Replaces the object by a copy of another one, which never changes.
    CopyFrom {
        pool: PoolId,
        source: Bytes,
        content: Arc<State>,
    },
}

/// Result of an action.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observation {
    /// Data of the object.
    pub data: Option<Bytes>,
    /// The guarding attribute.
    pub guard: Option<Bytes>,
    /// Pairs of the object.
    pub omap: Option<BTreeMap<Bytes, Bytes>>,
}

/// Result of a request, as its client sees it.
pub type Outcome = Result<Observation, Errno>;

impl Action {
    /// True if the action changes an object.
    pub fn is_write(&self) -> bool {
        !matches!(
            self,
            Action::Read
                | Action::ReadPart { .. }
                | Action::Look
                | Action::ReadAt(_)
                | Action::LookAt(_)
        )
    }

    /// The snapshot that the action reads.
    pub fn snapshot(&self) -> Option<SnapId> {
        match self {
            Action::ReadAt(snap) | Action::LookAt(snap) => Some(*snap),
            _ => None,
        }
    }

    /// The unique data that the action writes, if any.
    pub fn payload(&self) -> Option<&Bytes> {
        match self {
            Action::Write { data, .. }
            | Action::WriteFull { data }
            | Action::Append { data }
            | Action::AppendStripes { data, .. }
            | Action::Swap { data, .. }
            | Action::Mix { data, .. } => Some(data),
            _ => None,
        }
    }

    /// The operations that a client sends.
    pub fn to_ops(&self) -> Vec<OsdOp> {
        match self.clone() {
            Action::Write { offset, data } => vec![OsdOp::write(offset, data)],
            Action::WriteFull { data } => vec![OsdOp::write_full(data)],
            Action::Append { data } | Action::AppendStripes { data, .. } => {
                vec![OsdOp::append(data)]
            }
            Action::Truncate { size } => vec![OsdOp::truncate(size)],
            Action::Zero { offset, length } => vec![OsdOp::zero(offset, length)],
            Action::ReadPart { offset, length } => vec![OsdOp::read(offset, length)],
            Action::Create => vec![OsdOp::create(true)],
            Action::Remove => vec![OsdOp::remove()],
            Action::Swap { expected, new, data } => vec![
                guard_is(&expected),
                OsdOp::xattr(OpCode::SETXATTR, GUARD, &new),
                OsdOp::write_full(data),
            ],
            Action::Mix { guard, key, data } => vec![
                OsdOp::xattr(OpCode::SETXATTR, GUARD, &guard),
                omap_set(&key, &guard),
                OsdOp::append(data),
            ],
            Action::OmapSet { key, value } => vec![omap_set(&key, &value)],
            Action::OmapRemove { key } => {
                let input = codec::encode_to_bytes(&vec![key]);
                vec![OsdOp::new(OpCode::OMAPRMKEYS).with_input(input)]
            }
            Action::Lock => vec![OsdOp::call("lock", "lock", &lock_input())],
            Action::Unlock => vec![OsdOp::call("lock", "unlock", &unlock_input())],
            Action::Rollback(snap) => {
                let mut op = OsdOp::new(OpCode::ROLLBACK);
                op.arguments[..8].copy_from_slice(&snap.0.to_le_bytes());
                vec![op]
            }
            Action::CopyFrom { pool, source, .. } => vec![copy_from(pool, source)],
            Action::Read | Action::ReadAt(_) => vec![OsdOp::read(0, 0)],
            Action::Look | Action::LookAt(_) => {
                vec![OsdOp::read(0, 0), OsdOp::new(OpCode::GETXATTRS), omap_list()]
            }
        }
    }

    /// True if a full cluster may execute a later request of the same client before this one. The client
    /// holds back requests that are not removals. Of requests sent before the client knew, an OSD drops
    /// those that add data, as Ceph's do; others are executed. An OSD whose disk is full refuses all but
    /// those that free space. A refused request is executed anew if the response is lost and the request
    /// resent, and a later one may have been executed by then.
    pub fn is_overtaken_when_full(&self) -> bool {
        self.is_write() && !self.is_let_through()
    }

    /// True if a client sends the request although the cluster is full.
    pub fn is_let_through(&self) -> bool {
        *self == Action::Remove
    }

    /// True if the request is a write by a class call, which no single operation shows.
    pub fn calls_writing_class(&self) -> bool {
        matches!(self, Action::Lock | Action::Unlock)
    }

    /// Decodes the result from the reply.
    pub fn observe(&self, ops: &[OpResult]) -> codec::Result<Observation> {
        let mut seen = Observation::default();
        let output = |index: usize| ops.get(index).map_or(Bytes::new(), |op| op.output.clone());
        match self {
            Action::Read | Action::ReadPart { .. } | Action::ReadAt(_) => {
                seen.data = Some(output(0));
            }
            Action::Look | Action::LookAt(_) => {
                seen.data = Some(output(0));
                let attrs: BTreeMap<Bytes, Bytes> = codec::decode_all("attributes", &output(1))?;
                let guard = attrs.into_iter().find(|(name, _)| name == GUARD);
                seen.guard = Some(guard.map_or(Bytes::new(), |(_, value)| value));
                let output = output(2);
                let mut r = Reader::new(&output);
                seen.omap = Some(r.value()?);
            }
            _ => {}
        }
        Ok(seen)
    }
}

fn guard_is(expected: &[u8]) -> OsdOp {
    let mut op = OsdOp::xattr(OpCode::CMPXATTR, GUARD, expected);
    op.arguments[8] = compare::EQ;
    op.arguments[9] = compare::MODE_STRING;
    op
}

fn omap_set(key: &Bytes, value: &Bytes) -> OsdOp {
    let pairs = BTreeMap::from([(key.clone(), value.clone())]);
    OsdOp::new(OpCode::OMAPSETVALS).with_input(codec::encode_to_bytes(&pairs))
}

fn copy_from(pool: PoolId, object: Bytes) -> OsdOp {
    let arguments = CopyFromArguments { snap: SnapId::HEAD, ..CopyFromArguments::default() };
    let locator = ObjectLocator { pool, ..ObjectLocator::default() };
    OsdOp::copy_from(arguments, &CopySource { object, locator, truncate: None })
}

fn omap_list() -> OsdOp {
    let mut w = Writer::new();
    w.blob(b"");
    w.u64(PAIRS_MAX);
    w.blob(b"");
    OsdOp::new(OpCode::OMAPGETVALS).with_input(w.into_bytes())
}

/// `cls_lock_lock_op`
fn lock_input() -> Bytes {
    let mut w = Writer::new();
    w.versioned(1, 1, |w| {
        w.blob(LOCK_NAME);
        w.u8(LOCK_EXCLUSIVE);
        w.blob(LOCK_COOKIE);
        w.blob(b"");
        w.blob(b"");
        w.value(&UTime::ZERO);
        w.u8(0);
    });
    w.into_bytes()
}

/// `cls_lock_unlock_op`
fn unlock_input() -> Bytes {
    let mut w = Writer::new();
    w.versioned(1, 1, |w| {
        w.blob(LOCK_NAME);
        w.blob(LOCK_COOKIE);
    });
    w.into_bytes()
}

/// True if an attribute belongs to the lock class.
pub fn is_lock_attr(name: &[u8]) -> bool {
    name.starts_with(LOCK_ATTR_PREFIX)
}

/// The sequential object: its state, and the states that snapshots preserve.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Object {
    /// The current state; [`Object`] also has those of snapshots.
    pub state: State,
    /// The newest snapshot in the context of any write so far.
    newest: SnapId,
    /// Oldest first.
    clones: Vec<Preserved>,
}

/// State of an object before the first write whose context had some snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Preserved {
    newest: SnapId,
    snaps: Vec<SnapId>,
    state: Arc<State>,
}

impl Object {
    /// Length of the data in bytes, which a copy of the object copies.
    pub fn bytes(&self) -> usize {
        self.state.data.len()
    }

    /// Applies `action`, and returns its expected result.
    pub fn apply(&mut self, actor: ActorId, action: &Action, context: &SnapContext) -> Outcome {
        match action {
            Action::ReadAt(snap) => return self.at(*snap).apply(actor, &Action::Read),
            Action::LookAt(snap) => return self.at(*snap).apply(actor, &Action::Look),
            _ if !action.is_write() => return self.state.apply(actor, action),
            _ => {}
        }
        let before = self.state.clone();
        if let Action::Rollback(snap) = action {
            self.state = self.at(*snap);
        } else {
            self.state.apply(actor, action)?;
        }
        if before.exists || self.state.exists {
            self.preserve(before, context);
        }
        Ok(Observation::default())
    }

    /// The state at a snapshot; absent if no write since knew of the snapshot.
    fn at(&self, snap: SnapId) -> State {
        if snap > self.newest {
            return self.state.clone();
        }
        let clone = self.clones.iter().find(|clone| clone.newest >= snap);
        let clone = clone.filter(|clone| clone.snaps.contains(&snap));
        clone.map_or_else(State::default, |clone| (*clone.state).clone())
    }

    fn preserve(&mut self, before: State, context: &SnapContext) {
        let is_new = |snap: &&SnapId| **snap > self.newest;
        let snaps: Vec<SnapId> = context.snaps.iter().filter(is_new).copied().collect();
        if before.exists && !snaps.is_empty() {
            self.clones.push(Preserved { newest: context.seq, snaps, state: Arc::new(before) });
        }
        self.newest = self.newest.max(context.seq);
        if !self.state.exists && self.clones.is_empty() {
            self.newest = SnapId(0); // nothing remembers it
        }
    }
}

/// State of an object at its head.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct State {
    /// False before the first write, and after a removal.
    pub exists: bool,
    /// Data.
    pub data: Vec<u8>,
    /// The guarding attribute; empty: none.
    pub guard: Bytes,
    /// Pairs.
    pub omap: BTreeMap<Bytes, Bytes>,
    /// The client that holds the lock.
    pub holder: Option<ActorId>,
}

impl State {
    fn apply(&mut self, actor: ActorId, action: &Action) -> Outcome {
        match action {
            Action::Write { offset, data } => self.write(*offset as usize, data),
            Action::WriteFull { data } => {
                self.data.clear();
                self.write(0, data);
            }
            Action::AppendStripes { stripe, .. }
                if !self.data.len().is_multiple_of(*stripe as usize) =>
            {
                return Err(Errno::NOTSUPP);
            }
            Action::Append { data } | Action::AppendStripes { data, .. } => {
                self.write(self.data.len(), data);
            }
            Action::Truncate { size } if self.exists => self.data.resize(*size as usize, 0),
            Action::Truncate { .. } => {}
            Action::Zero { offset, length } => self.zero(*offset as usize, *length as usize),
            Action::Create if self.exists => return Err(Errno::EXIST),
            Action::Create => self.exists = true,
            Action::Remove if self.exists => *self = State::default(),
            Action::Remove => return Err(Errno::NOENT),
            Action::Swap { expected, new, data } => {
                if !self.exists {
                    return Err(Errno::NOENT);
                }
                if self.guard != expected {
                    return Err(Errno::CANCELED);
                }
                self.guard = new.clone();
                self.data.clear();
                self.write(0, data);
            }
            Action::Mix { guard, key, data } => {
                self.guard = guard.clone();
                self.omap.insert(key.clone(), guard.clone());
                self.write(self.data.len(), data);
            }
            Action::OmapSet { key, value } => {
                self.exists = true;
                self.omap.insert(key.clone(), value.clone());
            }
            Action::OmapRemove { .. } if !self.exists => return Err(Errno::NOENT),
            Action::OmapRemove { key } => {
                self.omap.remove(key);
            }
            Action::Lock => match self.holder {
                Some(holder) if holder == actor => return Err(Errno::EXIST),
                Some(_) => return Err(Errno::BUSY),
                None => {
                    self.exists = true;
                    self.holder = Some(actor);
                }
            },
            Action::Unlock if self.holder == Some(actor) => self.holder = None,
            Action::Unlock => return Err(Errno::NOENT),
            Action::CopyFrom { content, .. } => *self = (**content).clone(),
            Action::Read | Action::ReadPart { .. } | Action::Look if !self.exists => {
                return Err(Errno::NOENT);
            }
            Action::ReadPart { offset, length } => return Ok(self.read(*offset, *length)),
            Action::Read => return Ok(self.read(0, self.data.len() as u64)),
            Action::Look => return Ok(self.observation()),
            Action::ReadAt(_) | Action::LookAt(_) | Action::Rollback(_) => {
                unreachable!("states know no snapshots")
            }
        }
        Ok(Observation::default())
    }

    /// All that a read of the whole object observes.
    pub fn observation(&self) -> Observation {
        Observation {
            data: Some(Bytes::copy_from_slice(&self.data)),
            guard: Some(self.guard.clone()),
            omap: Some(self.omap.clone()),
        }
    }

    /// The data of a range, as far as there is any.
    fn read(&self, offset: u64, length: u64) -> Observation {
        let end = self.data.len().min((offset + length) as usize);
        let part = self.data.get(offset as usize..end).unwrap_or_default();
        Observation { data: Some(Bytes::copy_from_slice(part)), ..Observation::default() }
    }

    /// Zeroing the end of an object truncates it.
    fn zero(&mut self, offset: usize, length: usize) {
        match offset + length >= self.data.len() {
            true => self.data.truncate(offset),
            false => self.data[offset..offset + length].fill(0),
        }
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        self.exists = true;
        let end = offset + data.len();
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data[offset..end].copy_from_slice(data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(object: &mut Object, actor: ActorId, action: &Action) -> Outcome {
        object.apply(actor, action, &SnapContext::default())
    }

    #[test]
    fn a_full_cluster_may_refuse_all_but_removals() {
        let remove_pair = Action::OmapRemove { key: "key.1".into() };
        let append = Action::Append { data: "refused, and the answer was lost".into() };
        assert!(append.is_overtaken_when_full() && remove_pair.is_overtaken_when_full());
        assert!(!Action::Remove.is_overtaken_when_full());
        assert!(!Action::Read.is_overtaken_when_full());
    }

    #[test]
    fn snapshots_show_the_state_at_their_creation() {
        let write =
            |data: &'static str| Action::WriteFull { data: Bytes::from_static(data.as_bytes()) };
        let context = |snaps: &[u64]| {
            let snaps: Vec<SnapId> = snaps.iter().copied().map(SnapId).collect();
            SnapContext { seq: snaps[0], snaps }
        };
        let mut object = Object::default();
        apply(&mut object, 1, &write("a")).unwrap();
        object.apply(1, &write("b"), &context(&[4])).unwrap();
        object.apply(1, &Action::Remove, &context(&[6, 5, 4])).unwrap();
        let mut seen =
            |snap| apply(&mut object, 1, &Action::ReadAt(SnapId(snap))).map(|o| o.data.unwrap());
        assert_eq!((seen(4), seen(5), seen(6)), (Ok("a".into()), Ok("b".into()), Ok("b".into())));
        assert_eq!((seen(3), seen(7)), (Err(Errno::NOENT), Err(Errno::NOENT)));
        object.apply(1, &Action::Rollback(SnapId(4)), &context(&[8, 6, 5, 4])).unwrap();
        assert_eq!(object.state.data, b"a");
        let gone = apply(&mut object, 1, &Action::ReadAt(SnapId(8)));
        assert_eq!(gone, Err(Errno::NOENT));
    }

    #[test]
    fn the_sequential_object_does_what_ceph_documents() {
        let mut object = Object::default();
        let append =
            |text: &'static str| Action::Append { data: Bytes::from_static(text.as_bytes()) };
        assert_eq!(apply(&mut object, 1, &Action::Read), Err(Errno::NOENT));
        assert!(apply(&mut object, 1, &append("ab")).is_ok());
        assert!(apply(&mut object, 2, &append("c")).is_ok());
        assert_eq!(object.state.data, b"abc");
        assert_eq!(apply(&mut object, 1, &Action::Create), Err(Errno::EXIST));
        assert!(apply(&mut object, 1, &Action::Lock).is_ok());
        assert_eq!(apply(&mut object, 2, &Action::Lock), Err(Errno::BUSY));
        assert_eq!(apply(&mut object, 1, &Action::Lock), Err(Errno::EXIST));
        let swap = Action::Swap { expected: "x".into(), new: "y".into(), data: "d".into() };
        assert_eq!(apply(&mut object, 1, &swap), Err(Errno::CANCELED));
        assert!(apply(&mut object, 1, &Action::Remove).is_ok());
        assert_eq!(object, Object::default());
    }
}
