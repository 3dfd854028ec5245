//! An object and its clones, by the rules of OSDs.

use bytes::Bytes;
use classes::{Caller, Failure, ObjectContext, OmapPage};
use std::collections::BTreeMap;
use types::{EntityAddr, Errno, ParticipantName, SnapId, UTime};
use wire::op::OpCode;
use wire::snapshots::{CloneInfo, SnapListing};
use wire::watch::WatcherListing;
use wire::{OpResult, OsdOp, SnapContext};

#[derive(Debug, Default, Clone)]
struct State {
    data: Vec<u8>,
    omap: BTreeMap<Bytes, Bytes>,
    attrs: BTreeMap<Vec<u8>, Bytes>,
}

/// One object with its clones.
#[derive(Debug, Default)]
pub struct Object {
    head: Option<State>,
    /// The newest snapshot in the snapshot context of any write.
    sequence: SnapId,
    /// Clones by their newest snapshot, with all snapshots that show them.
    older: BTreeMap<SnapId, (Vec<SnapId>, State)>,
}

impl Object {
    /// True if neither head nor clones exist.
    pub fn is_gone(&self) -> bool {
        self.head.is_none() && self.older.is_empty()
    }

    /// True if the object exists as of the snapshot.
    pub fn exists(&self, snap: SnapId) -> bool {
        self.at(snap).is_some()
    }

    /// Number of clones.
    pub fn clones(&self) -> usize {
        self.older.len()
    }

    /// Removes a snapshot from the clones; a clone that no snapshot needs is dropped.
    pub fn trim(&mut self, snap: SnapId) {
        self.older.values_mut().for_each(|(snaps, _)| snaps.retain(|other| *other != snap));
        self.older.retain(|_, (snaps, _)| !snaps.is_empty());
    }

    /// Executes all operations, or none.
    pub fn operate(
        &mut self,
        ops: &[OsdOp],
        snap: SnapId,
        context: &SnapContext,
    ) -> Result<Vec<OpResult>, Errno> {
        if snap == SnapId::DIR {
            return self.list();
        }
        let before = self.at(snap);
        let mut call = Call { before: before.clone(), now: before, sequence: self.sequence };
        let mut writes = false;
        let mut results = Vec::new();
        for op in ops {
            writes |= op.code.writes() || op.code == OpCode::CALL;
            let output = match op.code {
                OpCode::ROLLBACK => {
                    call.now = self.at(op.snap());
                    Bytes::new()
                }
                _ => call.execute(op)?,
            };
            results.push(OpResult::new(op, 0, output));
        }
        if writes && snap == SnapId::HEAD {
            self.change(call.now, context);
        }
        Ok(results)
    }

    /// The output of `LIST_SNAPS`.
    fn list(&self) -> Result<Vec<OpResult>, Errno> {
        let info = |clone, snaps, state: &State| {
            let size = state.data.len() as u64;
            CloneInfo { clone, snaps, overlap: Vec::new(), size }
        };
        let older = self.older.iter().map(|(id, (snaps, state))| {
            // Writers name snapshots newest first; listings are oldest first.
            info(*id, snaps.iter().rev().copied().collect(), state)
        });
        let head = self.head.iter().map(|state| info(SnapId::HEAD, Vec::new(), state));
        let clones: Vec<CloneInfo> = older.chain(head).collect();
        if clones.is_empty() {
            return Err(Errno::NOENT);
        }
        let listing = SnapListing { clones, seq: self.sequence };
        let output = codec::encode_to_bytes(&listing);
        Ok(vec![OpResult::new(&OsdOp::new(OpCode::LIST_SNAPS), 0, output)])
    }

    fn change(&mut self, new: Option<State>, context: &SnapContext) {
        if context.seq > self.sequence {
            let is_newer = |snap: &&SnapId| **snap > self.sequence;
            let newer: Vec<SnapId> = context.snaps.iter().filter(is_newer).copied().collect();
            if let (Some(head), Some(newest)) = (self.head.take(), newer.first()) {
                self.older.insert(*newest, (newer, head));
            }
            self.sequence = context.seq;
        }
        self.head = new;
    }

    fn at(&self, snap: SnapId) -> Option<State> {
        if snap > self.sequence {
            return self.head.clone();
        }
        let (_, (snaps, state)) = self.older.range(snap..).next()?;
        snaps.contains(&snap).then(|| state.clone())
    }
}

/// An operation vector in execution. Classes see the object as it was before the vector.
struct Call {
    before: Option<State>,
    now: Option<State>,
    sequence: SnapId,
}

impl Call {
    fn execute(&mut self, op: &OsdOp) -> Result<Bytes, Errno> {
        let extent = op.extent();
        let (start, end) = (extent.offset as usize, (extent.offset + extent.length) as usize);
        match op.code {
            OpCode::CALL => return self.call(op),
            OpCode::READ => {
                let data = &self.now.as_ref().ok_or(Errno::NOENT)?.data;
                let end = end.min(data.len());
                return Ok(Bytes::copy_from_slice(&data[start.min(end)..end]));
            }
            OpCode::MAPEXT => {
                let length = self.now.as_ref().ok_or(Errno::NOENT)?.data.len() as u64;
                let extents: BTreeMap<u64, u64> =
                    (length > extent.offset).then_some((0, length)).into_iter().collect();
                return Ok(codec::encode_to_bytes(&extents));
            }
            OpCode::LIST_WATCHERS => {
                return Ok(codec::encode_to_bytes(&WatcherListing { entries: Vec::new() }));
            }
            OpCode::STAT => return self.now.as_ref().map(|_| Bytes::new()).ok_or(Errno::NOENT),
            OpCode::CREATE if op.flags != 0 && self.now.is_some() => return Err(Errno::EXIST),
            OpCode::CREATE => drop(self.now.get_or_insert_default()),
            OpCode::WRITE => {
                let data = &mut self.now.get_or_insert_default().data;
                data.resize(data.len().max(end), 0);
                data[start..end].copy_from_slice(&op.input);
            }
            OpCode::WRITEFULL => {
                self.now.get_or_insert_default().data = op.input.to_vec();
            }
            OpCode::ZERO => {
                let data = self.now.as_mut().map(|state| &mut state.data[..]).unwrap_or_default();
                let end = end.min(data.len());
                data[start.min(end)..end].fill(0);
            }
            // Truncation does not create an object.
            OpCode::TRUNCATE => {
                if let Some(state) = &mut self.now {
                    state.data.resize(start, 0);
                }
            }
            OpCode::DELETE => drop(self.now.take().ok_or(Errno::NOENT)?),
            other => panic!("{other} was not expected"),
        }
        Ok(Bytes::new())
    }

    fn call(&mut self, op: &OsdOp) -> Result<Bytes, Errno> {
        let (class, method, input) = op.call_input().unwrap();
        let name = String::from_utf8_lossy(&method).into_owned();
        let class = classes::class(&class).expect("a class");
        let method = class.method(&method).unwrap_or_else(|| panic!("there is no method {name}"));
        let mut output = Vec::new();
        match (method.function)(self, &input, &mut output) {
            Ok(_) => Ok(output.into()),
            Err(Failure::Errno(errno)) => Err(errno),
            Err(Failure::Missing) => panic!("everything is in memory"),
        }
    }

    fn old(&self) -> Result<&State, Failure> {
        self.before.as_ref().ok_or(Errno::NOENT.into())
    }
}

static CALLER: std::sync::LazyLock<Caller> = std::sync::LazyLock::new(Caller::default);

impl ObjectContext for Call {
    fn caller(&self) -> &Caller {
        &CALLER
    }

    fn now(&self) -> UTime {
        UTime { seconds: 1000, nanoseconds: 0 }
    }

    fn size(&mut self) -> Result<u64, Failure> {
        let state = self.now.as_ref().ok_or(Errno::NOENT)?;
        Ok(state.data.len() as u64)
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes, Failure> {
        let data = &self.old()?.data;
        let start = data.len().min(offset as usize);
        let end = data.len().min(offset.saturating_add(length) as usize);
        Ok(Bytes::copy_from_slice(&data[start..end]))
    }

    fn xattr(&mut self, name: &[u8]) -> Result<Bytes, Failure> {
        self.old()?.attrs.get(name).cloned().ok_or(Errno::NODATA.into())
    }

    fn xattrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>, Failure> {
        Ok(BTreeMap::new())
    }

    fn omap_header(&mut self) -> Result<Bytes, Failure> {
        Ok(Bytes::new())
    }

    fn omap_value(&mut self, key: &Bytes) -> Result<Option<Bytes>, Failure> {
        Ok(self.before.as_ref().and_then(|state| state.omap.get(key).cloned()))
    }

    fn omap_page(&mut self, after: &Bytes, prefix: &Bytes, max: u64) -> Result<OmapPage, Failure> {
        let Some(state) = &self.before else { return Ok((BTreeMap::new(), false)) };
        let pairs = state.omap.iter();
        let mut pairs = pairs.filter(|(key, _)| key.starts_with(prefix) && *key > after);
        let page = pairs.by_ref().take(max as usize);
        let page = page.map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok((page, pairs.next().is_some()))
    }

    fn watchers(&mut self) -> Result<Vec<(ParticipantName, EntityAddr)>, Failure> {
        Ok(Vec::new())
    }

    fn snapshot_sequence(&mut self) -> Result<SnapId, Failure> {
        self.old().map(|_| self.sequence)
    }

    fn create(&mut self, exclusive: bool) -> Result<(), Failure> {
        if exclusive && self.now.is_some() {
            return Err(Errno::EXIST.into());
        }
        self.now.get_or_insert_default();
        Ok(())
    }

    fn remove(&mut self) -> Result<(), Failure> {
        self.now = None;
        Ok(())
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<(), Failure> {
        let end = offset as usize + data.len();
        let stored = &mut self.now.get_or_insert_default().data;
        stored.resize(stored.len().max(end), 0);
        stored[offset as usize..end].copy_from_slice(&data);
        Ok(())
    }

    fn write_full(&mut self, data: Bytes) -> Result<(), Failure> {
        self.now.get_or_insert_default().data = data.to_vec();
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> Result<(), Failure> {
        self.now.get_or_insert_default().data.resize(size as usize, 0);
        Ok(())
    }

    fn set_xattr(&mut self, name: &[u8], value: Bytes) -> Result<(), Failure> {
        self.now.get_or_insert_default().attrs.insert(name.to_vec(), value);
        Ok(())
    }

    fn omap_set_header(&mut self, _: Bytes) -> Result<(), Failure> {
        Ok(())
    }

    fn omap_set(&mut self, pairs: BTreeMap<Bytes, Bytes>) -> Result<(), Failure> {
        self.now.get_or_insert_default().omap.extend(pairs);
        Ok(())
    }

    fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<(), Failure> {
        let state = self.now.get_or_insert_default();
        keys.iter().for_each(|key| drop(state.omap.remove(key)));
        Ok(())
    }
}
