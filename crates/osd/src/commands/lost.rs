//! Objects of which no copy is left: operations that are still possible, and `mark_unfound_lost`.
//!
//! A lost object ([`pg::Pg::is_lost`]) cannot be read. But a request that removes it, or defines all of it
//! anew, depends on no earlier state. (`write_full` does so only for an object that is known to have had
//! neither xattrs nor an omap.) Such a request runs as if the object had been removed just before, in the
//! same transaction, so that no remains of the damaged copies are left anywhere.
//!
//! This must not lose the list of clones that the head has. The list is known if this copy's
//! metadata have the right version, or if the group has no clones.

use crate::Osd;
use crate::commands::answer::Sentence;
use crate::execute::{CloneChanges, Execution, ObjectState, StatDelta, Trim, trim};
use crate::operations::keys::ObjectKey;
use crate::operations::request::{Nature, Origin, Request};
use bytes::Bytes;
use classes::Caller;
use engine::ConnId;
use maps::SnapIntervals;
use pg::snaps::At;
use pg::{AlsoWritten, EntryKind, ObjectInfo, Pg};
use serde_json::Value;
use std::collections::BTreeMap;
use store::Change;
use types::features::SUPPORTED;
use types::{EVersion, Errno, HObject, PgId, SnapId};
use wire::{CommandReply, MessageBody, OsdOp, OsdRequest, ShardPgId};

/// Commands that gave objects up and are not answered, because that is not durable yet.
#[derive(Debug, Default)]
pub(crate) struct LostCommands {
    last: u64,
    commands: BTreeMap<u64, LostCommand>,
}

#[derive(Debug)]
struct LostCommand {
    asker: (ConnId, u64),
    pg: PgId,
    /// Objects in total, still in progress, and failed.
    count: usize,
    left: usize,
    failed: usize,
}

/// The state that can be assumed for a lost object, from what our own store has under its name.
/// `EIO` if its clones are not known.
pub(crate) fn lost_state(
    stored: Result<ObjectState, Errno>,
    need: EVersion,
    has_clones: bool,
) -> Result<ObjectState, Errno> {
    match stored {
        Ok(state) if state.info.version == need && need != EVersion::ZERO => Ok(state),
        _ if has_clones => Err(Errno::IO),
        _ => {
            let info = ObjectInfo { version: need, ..ObjectInfo::default() };
            Ok(ObjectState { exists: true, info, is_guess: true, ..ObjectState::default() })
        }
    }
}

/// Makes a write remove the remains of a lost object first. `is_removed_before` says that a removal
/// was added in front of the client's operations.
pub(crate) fn replaced(
    mut execution: Box<Execution>,
    object: &HObject,
    is_removed_before: bool,
) -> Box<Execution> {
    if is_removed_before && !execution.outputs.is_empty() {
        // The client did not send the added removal.
        execution.outputs.remove(0);
    }
    let removal = Change::Remove { object: object.clone() };
    if execution.modifies() && execution.changes.first() != Some(&removal) {
        execution.changes.insert(0, removal);
    }
    execution
}

/// Removes a clone, and its entries in its head and the index.
pub(crate) fn remove_clone(
    object: &HObject,
    head: &ObjectState,
    clone: SnapId,
    pg: &Pg,
) -> Execution {
    let known = head.snaps.as_deref().and_then(|set| set.clone_of(clone));
    let version = pg.next_version();
    if let Some(known) = known
        && let Some(snap) = known.snaps.first().copied()
    {
        let mut removed = SnapIntervals::default();
        known.snaps.iter().for_each(|snap| removed.insert(*snap));
        return trim(&Trim { head: object, state: head, clone, snap, removed: &removed, version });
    }
    // The head does not list it.
    let name = object.at(clone);
    let prior_version = pg.unfound_item(&name).need;
    let written = AlsoWritten { object: name.clone(), kind: EntryKind::Delete, prior_version };
    Execution {
        exists: head.exists,
        info: head.info.clone(),
        changes: vec![Change::Remove { object: name }],
        delta: StatDelta { objects: -1, clones: -1, bytes: 0 },
        clones: Some(Box::new(CloneChanges { written: vec![written], ..CloneChanges::default() })),
        ..Execution::default()
    }
}

impl Osd {
    /// Whether an object is lost and not all members have a copy that could be written to.
    pub(crate) fn is_given_up(&self, object: ObjectKey) -> bool {
        let Some(context) = self.operations.context(object) else { return false };
        let Some(group) = self.groups.by_id.get(&context.pg) else { return false };
        let copy = &group.pg;
        !copy.is_whole() && copy.is_primary() && copy.lost_version(&context.name).is_some()
    }

    /// Whether a request needs the state of its lost head, not of one of its clones. Objects that
    /// were not given up are read where they can be.
    pub(crate) fn needs_lost_head(&self, key: u64) -> bool {
        let Some(request) = self.operations.get(key) else { return false };
        let is_given_up = self
            .groups
            .by_id
            .get(&request.pg)
            .is_some_and(|group| !group.pg.is_unreadable(&HObject::head_of(request.object())));
        is_given_up
            && !request.replaces_object()
            && !matches!(request.at, Some(At::Clone(_) | At::Nowhere))
    }

    /// Gives up the unfound objects of a group, after all OSDs that could have them were queried.
    /// The reply follows when that is durable, unless it is refused.
    pub(crate) fn mark_unfound_lost(
        &mut self,
        pg: PgId,
        mode: &str,
        asker: (ConnId, u64),
    ) -> Result<Value, Sentence> {
        if !matches!(mode, "revert" | "delete") {
            let text = format!("mode must be 'revert' or 'delete', not {mode:?}");
            return Err(Sentence::new(Errno::INVAL, text));
        }
        let group = self.groups.by_id.get(&pg).expect("the caller has it");
        let unfound: Vec<HObject> = group.pg.unfound().cloned().collect();
        let count = unfound.len();
        if count == 0 {
            return Err(Sentence::new(Errno(0), "pg has no unfound objects"));
        }
        if !group.pg.all_probed() {
            let text = format!(
                "pg has {count} unfound objects but we haven't probed all sources, not marking \
                 lost; 'ceph pg {pg} list_unfound' names them: start those OSDs, or declare them \
                 lost with 'ceph osd lost'"
            );
            return Err(Sentence::new(Errno::INVAL, text));
        }
        if !unfound.iter().all(|object| group.pg.is_lost(object)) {
            let text = format!("pg {pg} is not active, or still looks for objects; ask again");
            return Err(Sentence::new(Errno::AGAIN, text));
        }
        if mode == "revert" && unfound.iter().any(|object| group.pg.has_older(object)) {
            let text = format!(
                "pg has {count} unfound objects, and of some an older version is left, to which \
                 they cannot be reverted yet; copy what you need of them, then use 'delete'"
            );
            return Err(Sentence::new(Errno::NOTSUPP, text));
        }
        self.give_up_lost(pg, unfound, asker);
        Err(Sentence::later())
    }

    fn give_up_lost(&mut self, pg: PgId, unfound: Vec<HObject>, asker: (ConnId, u64)) {
        let (count, now) = (unfound.len(), self.env.now);
        self.commands.lost.last += 1;
        let command = self.commands.lost.last;
        let state = LostCommand { asker, pg, count, left: count, failed: 0 };
        self.commands.lost.commands.insert(command, state);
        // Heads first: the clones need the lists that these have.
        let (heads, clones): (Vec<_>, Vec<_>) =
            unfound.into_iter().partition(|object| object.snap == SnapId::HEAD);
        for object in heads.into_iter().chain(clones) {
            tracing::warn!(%pg, %object, "nobody has the object, and it is given up as asked");
            let request = self.operations.insert(self.lost_request(pg, &object, command));
            self.start(now, pg, request);
        }
    }

    fn lost_request(&self, pg: PgId, object: &HObject, command: u64) -> Request {
        let is_head = object.snap == SnapId::HEAD;
        let message = OsdRequest {
            pg: ShardPgId::replicated(pg),
            map_epoch: self.epoch(),
            flags: 0,
            request_id: Default::default(),
            client_incarnation: 0,
            mtime: self.env.now.wall(),
            object: HObject::head_of(object),
            ops: if is_head { vec![OsdOp::remove()] } else { Vec::new() },
            snap_context: Default::default(),
            retry_attempt: 0,
            features: 0,
        };
        let origin = Origin::Lost { clone: object.snap, command };
        let mut request = Request::new(origin, message, 0, Caller::default());
        request.nature = Nature { may_write: true, ..Nature::default() };
        request
    }

    /// One of the objects is gone on all members, or could not be removed.
    pub(crate) fn lost_ended(&mut self, command: u64, result: i32) {
        let Some(state) = self.commands.lost.commands.get_mut(&command) else { return };
        state.left -= 1;
        // A client may have removed it before.
        state.failed += usize::from(result < 0 && result != Errno::NOENT.negative());
        if state.left > 0 {
            return;
        }
        let LostCommand { asker: (conn, tid), pg, count, failed, .. } =
            self.commands.lost.commands.remove(&command).expect("it was just there");
        let (result, text) = match failed {
            0 => (0, format!("pg has {count} objects unfound and apparently lost marking")),
            _ => {
                let text = format!(
                    "{failed} of {count} objects could not be marked lost: the members changed, or it \
                     is not known which clones they have; see 'ceph pg {pg} list_unfound' and ask again"
                );
                (Errno::AGAIN.negative(), text)
            }
        };
        if self.clients.contains(conn) {
            let reply = CommandReply { result, text, output: Bytes::new() };
            self.send(conn, reply.encode(SUPPORTED).with_tid(tid));
        }
    }
}
