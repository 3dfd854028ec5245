//! The state of one execution, and its outcome.

use super::input::Input;
use super::view::{Answer, Need, ObjectState};
use bytes::Bytes;
use pg::snaps::{Extents, SNAPSET_ATTR, SnapSet};
use pg::{AlsoWritten, INFO_ATTR, ObjectInfo, WatcherInfo, WatcherKey};
use std::collections::BTreeMap;
use store::Change;
use types::{EVersion, Errno, HObject, SnapId};

/// Usual length of an encoded [`ObjectInfo`] without watchers.
const INFO_LEN_USUAL: usize = 112;

/// Why an operation stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// It needs state that is not loaded, or memory.
    Missing,
    /// A negative errno, or less for the position of a mismatch (`CMPEXT`).
    Code(i32),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Code(errno.negative())
    }
}

/// Input that does not decode is the client's error.
impl From<codec::DecodeError> for Stop {
    fn from(_: codec::DecodeError) -> Stop {
        Errno::INVAL.into()
    }
}

/// An effect outside of the store, performed once the request is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Connect { key: WatcherKey, info: WatcherInfo, will_ping: bool },
    Disconnect { key: WatcherKey, tell_client: bool },
    Ping { key: WatcherKey },
    Notify { notify_id: u64, cookie: u64, timeout_seconds: u32, payload: Bytes },
    Acknowledge { notify_id: u64, cookie: Option<u64>, reply: Bytes },
}

/// A change of the users' attributes; they apply in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttrDelta {
    Set(Bytes, Bytes),
    Remove(Bytes),
    Clear,
}

/// Changes of the placement group's totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatDelta {
    pub objects: i64,
    pub clones: i64,
    pub bytes: i64,
}

/// The outcome of a request.
#[derive(Debug, Default)]
pub struct Execution {
    /// At least 0, or a negative errno: then nothing changes.
    pub result: i32,
    /// Result and output of each operation that ran.
    pub outputs: Vec<(i32, Bytes)>,
    /// Changes for the store; empty if the request changes nothing.
    pub changes: Vec<Change>,
    pub exists: bool,
    pub info: ObjectInfo,
    pub attrs: Vec<AttrDelta>,
    pub effects: Vec<Effect>,
    pub delta: StatDelta,
    /// The snapset, if that changed, and the changes of clones.
    pub snaps: Option<Box<SnapSet>>,
    pub clones: Option<Box<CloneChanges>>,
}

/// Changes of an object's clones, besides the changes for the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CloneChanges {
    /// Clones made or removed, each with a version before that of the object itself.
    pub written: Vec<AlsoWritten>,
    /// Pairs of snapshot and clone to add to the group's index, and to remove from it.
    pub indexed: Vec<(SnapId, HObject)>,
    pub unindexed: Vec<(SnapId, HObject)>,
}

impl Execution {
    /// An outcome that leaves the object as it is.
    pub fn failed(errno: Errno, state: &ObjectState) -> Self {
        let (exists, info) = (state.exists, state.info.clone());
        Execution { result: errno.negative(), exists, info, ..Execution::default() }
    }

    /// Whether the request changes the object.
    pub fn modifies(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Whether an operation could not read the object.
    pub fn has_failed_to_read(&self) -> bool {
        self.outputs.iter().any(|(result, _)| *result == Errno::IO.negative())
    }

    /// Whether the object stays without being visible to clients, because it has clones.
    pub fn is_whiteout(&self) -> bool {
        self.info.is_whiteout
    }

    /// Whether the request preserves the object in a new clone.
    pub fn makes_clone(&self) -> bool {
        self.clones.as_ref().is_some_and(|clones| !clones.indexed.is_empty())
    }
}

/// The state of one execution. Handlers of operations return their result, or why they stopped.
pub(super) struct Context<'a> {
    pub input: Input<'a>,
    pub exists: bool,
    pub info: ObjectInfo,
    pub changes: Vec<Change>,
    /// Attributes to store at the end, by their stored names.
    pub stored_attrs: BTreeMap<Bytes, Bytes>,
    pub attrs: Vec<AttrDelta>,
    /// The object counts as modified although its content does not change.
    pub touched: bool,
    pub user_modify: bool,
    /// A copied object keeps its mtime.
    pub keep_mtime: bool,
    /// The extents that a rollback left unchanged.
    pub kept: Option<Extents>,
    pub snaps: Option<Box<SnapSet>>,
    pub clones: Option<Box<CloneChanges>>,
    pub effects: Vec<Effect>,
    pub needs: Vec<Need>,
    /// Bytes of memory that it takes so far.
    pub cost: u64,
    /// The result so far: some operations leave it unchanged.
    pub result: i32,
    /// Output of the operation that runs.
    pub output: Bytes,
    pub outputs: Vec<(i32, Bytes)>,
}

impl<'a> Context<'a> {
    pub fn new(input: Input<'a>) -> Self {
        Context {
            input,
            exists: input.state.exists,
            info: input.state.info.clone(),
            changes: Vec::new(),
            stored_attrs: BTreeMap::new(),
            attrs: Vec::new(),
            touched: false,
            user_modify: false,
            keep_mtime: false,
            kept: None,
            snaps: None,
            clones: None,
            effects: Vec::new(),
            needs: Vec::new(),
            cost: input.loaded.cost(),
            result: 0,
            output: Bytes::new(),
            outputs: Vec::new(),
        }
    }

    /// The answer for `need`; notes the need if it was not loaded.
    pub fn load(&mut self, need: Need) -> Result<&'a Answer, Stop> {
        match self.input.loaded.find(&need) {
            Some(Answer::Failed(code)) => Err(Stop::Code(*code)),
            Some(answer) => Ok(answer),
            None => {
                if !self.needs.contains(&need) {
                    self.count(need.estimate());
                    self.needs.push(need);
                }
                Err(Stop::Missing)
            }
        }
    }

    /// Marks the object as modified without changing its content.
    pub fn touch(&mut self) -> Result<i32, Stop> {
        self.touched = true;
        Ok(0)
    }

    /// Creates the object if it does not exist.
    pub fn create(&mut self) {
        if !self.exists {
            self.exists = true;
            self.touched = true;
            self.changes.push(Change::Touch { object: self.input.object.clone() });
        }
    }

    /// Whether an operation has changed the object, or counts as a change.
    pub fn has_changed(&self) -> bool {
        !self.changes.is_empty() || self.touched
    }

    /// Ends the execution; a negative `result` drops all changes.
    pub fn finish(mut self, result: i32) -> Execution {
        let state = self.input.state;
        let mut execution = Execution {
            result,
            outputs: std::mem::take(&mut self.outputs),
            exists: state.exists,
            ..Execution::default()
        };
        if result < 0 {
            execution.info = state.info.clone();
            return execution;
        }
        execution.effects = std::mem::take(&mut self.effects);
        if !self.has_changed() {
            execution.info = state.info.clone();
            return execution;
        }
        execution.delta = self.delta();
        self.seal();
        execution.changes = self.changes;
        execution.snaps = self.snaps;
        execution.clones = self.clones;
        execution.exists = self.exists;
        execution.info = self.info;
        execution.attrs = self.attrs;
        execution
    }

    /// The new version of the object: new clones have the versions before it.
    fn version(&self) -> EVersion {
        let before = self.clones.as_ref().map_or(0, |clones| clones.written.len() as u64);
        let first = self.input.version;
        EVersion { version: first.version + before, ..first }
    }

    /// Sets the versions of the modified object, and stores its info.
    fn seal(&mut self) {
        let version = self.version();
        let (input, object) = (&self.input, self.input.object);
        if self.user_modify {
            let next = input.last_user_version.max(self.info.user_version) + 1;
            self.info.user_version = next.max(version.version);
        }
        if !self.exists {
            // Kept for the log entry and the reply.
            let user_version = self.info.user_version;
            self.info = ObjectInfo { user_version, ..ObjectInfo::default() };
            if self.snaps.as_ref().is_none_or(|set| set.clones.is_empty()) {
                self.snaps = None;
                return;
            }
            self.info.is_whiteout = true;
            self.changes.push(Change::Touch { object: object.clone() });
        } else {
            self.info.is_whiteout = false;
        }
        self.info.version = version;
        self.info.prior_version = input.state.info.version;
        self.info.last_request = input.caller.request;
        if !self.keep_mtime && input.mtime != types::UTime::ZERO {
            self.info.mtime = input.mtime;
        }
        let mut attrs = std::mem::take(&mut self.stored_attrs);
        attrs.insert(INFO_ATTR, codec::encode_with_capacity(&self.info, INFO_LEN_USUAL));
        if let Some(set) = &self.snaps {
            attrs.insert(SNAPSET_ATTR, codec::encode_to_bytes(&**set));
        }
        self.changes.push(Change::SetAttrs { object: object.clone(), attrs });
    }

    fn delta(&self) -> StatDelta {
        let before = self.input.state;
        let size = |exists: bool, size: u64| if exists { size as i64 } else { 0 };
        let clone_bytes = |set: &Option<Box<SnapSet>>| -> i64 {
            set.as_ref().map_or(0, |set| set.clone_bytes() as i64)
        };
        let clones = i64::from(self.clones.is_some());
        let of_clones = match &self.snaps {
            None => 0,
            after => clone_bytes(after) - clone_bytes(&before.snaps),
        };
        let own = size(self.exists, self.info.size) - size(before.exists, before.info.size);
        StatDelta {
            objects: i64::from(self.exists) - i64::from(before.exists) + clones,
            clones,
            bytes: own + of_clones,
        }
    }
}
