//! Execution of a request's operations as a pure function over a view of the object.
//!
//! [`execute`] reads the object's state, which is in memory, and the parts loaded from the store. It
//! either reports its further needs ([`ExecuteOutcome::Missing`]; the caller loads that and calls again)
//! or the outcome: a result and output per operation, the changes for the store, and the object's
//! new state. Nothing takes effect before the caller submits the changes, so operations are atomic
//! by construction.
//!
//! As in Ceph, reads of data, attributes and omap see the object as it was before the request; only
//! its existence, size and versions follow the operations one by one.
//!
//! This module depends on no placement group, session or replication.

mod checksum;
mod class;
mod context;
mod copy;
mod cost;
mod input;
mod omap;
mod pool;
mod read;
mod snaps;
mod tmap;
mod trim;
mod view;
mod watch;
mod write;
mod xattr;
mod xxhash;

pub use context::{AttrDelta, CloneChanges, Effect, Execution, StatDelta};
pub(crate) use copy::copy_source;
pub use input::{Input, Snapshots};
pub use pool::PoolRules;
pub use trim::{Trim, trim};
pub use view::{Answer, CopiedObject, CopyRequest, Loaded, Need, ObjectState};
pub(crate) use write::repeated_extent;

use context::{Context, Stop};
use types::{Errno, SnapId};
use wire::OsdOp;
use wire::op::{OpCode, op_flags};

/// `EOLDSNAPC`
const OLD_SNAP_CONTEXT: Errno = Errno(85);

/// Outcome of [`execute`].
#[derive(Debug)]
pub enum ExecuteOutcome {
    Done(Box<Execution>),
    /// The caller must load `needs` and execute again with an allowance of `cost` bytes. If there
    /// are none, an output was not built for lack of memory.
    Missing {
        needs: Vec<Need>,
        cost: u64,
    },
}

/// Executes the operations in order, up to the first that fails.
pub fn execute(input: &Input<'_>) -> ExecuteOutcome {
    let mut context = Context::new(*input);
    if let Err(errno) = check_snapshot(input) {
        return ExecuteOutcome::Done(Box::new(context.finish(errno.negative())));
    }
    let has_clones = || input.state.snaps.as_ref().is_some_and(|set| !set.clones.is_empty());
    let is_there = input.state.exists || input.object.snap == SnapId::DIR && has_clones();
    if !input.may_write && !is_there {
        return ExecuteOutcome::Done(Box::new(context.finish(Errno::NOENT.negative())));
    }
    let mut result = 0;
    for op in input.ops {
        result = context.run(op);
        if result < 0 {
            break;
        }
    }
    if result >= 0 {
        result = xattr::check_sum(&context).map_or_else(Errno::negative, |()| result);
    }
    let parts = context.changes.iter().map(|change| input.pool.parts_cost(change)).sum();
    context.count(parts);
    let cost = context.cost;
    if !context.needs.is_empty() || cost > input.allowance {
        return ExecuteOutcome::Missing { needs: std::mem::take(&mut context.needs), cost };
    }
    let has_snapshots = input.state.snaps.is_some() || input.snapshots.seq > SnapId(0);
    if result >= 0 && context.has_changed() {
        if has_snapshots {
            snaps::preserve(&mut context);
        }
        result = snaps::check_metadata(&context).map_or_else(Errno::negative, |()| result);
    }
    ExecuteOutcome::Done(Box::new(context.finish(result)))
}

/// The snapshot directory accepts only `LIST_SNAPS`, and clones accept no writes. `EOLDSNAPC` for
/// an ordered write whose snapshot context is older than the object's.
fn check_snapshot(input: &Input<'_>) -> Result<(), Errno> {
    let on_directory = input.object.snap == SnapId::DIR;
    if input.ops.iter().any(|op| (op.code == OpCode::LIST_SNAPS) != on_directory) {
        return Err(Errno::INVAL);
    }
    if input.may_write && input.object.snap != SnapId::HEAD {
        return Err(Errno::INVAL);
    }
    let known = input.state.snaps.as_ref().map_or(SnapId(0), |set| set.seq);
    match input.may_write && input.snapshots.is_ordered && input.snapshots.seq < known {
        true => Err(OLD_SNAP_CONTEXT),
        false => Ok(()),
    }
}

impl Context<'_> {
    /// Runs one operation; if the result is negative, the next one does not run.
    fn run(&mut self, op: &OsdOp) -> i32 {
        if op.code.writes() && !sets_user_version_itself(op.code) {
            self.user_modify = true;
        }
        let outcome = self.dispatch(op);
        let output = std::mem::take(&mut self.output);
        let result = match outcome {
            Ok(result) => result,
            // The remaining operations run only to find out what else is missing.
            Err(Stop::Missing) => 0,
            Err(Stop::Code(code)) => code,
        };
        self.outputs.push((result, output));
        self.result = match result < 0 && op.flags & op_flags::FAILOK != 0 {
            true => 0,
            false => result,
        };
        self.result
    }

    fn dispatch(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        self.input.pool.check(op.code)?;
        match op.code {
            OpCode::READ | OpCode::SYNC_READ => read::read(self, op),
            OpCode::SPARSE_READ => read::sparse_read(self, op),
            OpCode::MAPEXT => read::map_extents(self, op),
            OpCode::STAT => read::stat(self),
            OpCode::CMPEXT => read::compare_extent(self, op),
            OpCode::CHECKSUM => checksum::checksum(self, op),
            OpCode::ASSERT_VER => read::assert_version(self, op),
            OpCode::LIST_SNAPS => snaps::list_snaps(self),
            OpCode::LIST_WATCHERS => watch::list_watchers(self),
            OpCode::NOTIFY => watch::notify(self, op),
            OpCode::NOTIFY_ACK => watch::notify_ack(self, op),
            OpCode::WATCH => watch::watch(self, op),

            OpCode::WRITE => write::write_op(self, op),
            OpCode::WRITEFULL => write::write_full_op(self, op),
            OpCode::APPEND => write::append(self, op),
            OpCode::WRITESAME => write::write_same(self, op),
            OpCode::ZERO => write::zero(self, op),
            OpCode::TRUNCATE | OpCode::TRIMTRUNC => write::truncate_op(self, op),
            OpCode::CREATE => write::create_op(self, op),
            OpCode::DELETE => write::delete(self),
            OpCode::ROLLBACK => snaps::roll_back(self, op),
            OpCode::STARTSYNC => self.touch(),
            OpCode::TMAPUP => tmap::map_update(self, op),
            OpCode::TMAPPUT => tmap::map_put(self, op),
            OpCode::TMAPGET => tmap::map_get(self),
            OpCode::SETALLOCHINT => write::set_alloc_hint(self, op),

            OpCode::GETXATTR => xattr::xattr(self, op),
            OpCode::GETXATTRS => xattr::xattrs(self),
            OpCode::CMPXATTR => xattr::compare_xattr(self, op),
            OpCode::SETXATTR => xattr::set_xattr_op(self, op),
            OpCode::RMXATTR => xattr::remove_xattr(self, op),

            OpCode::OMAPGETKEYS => omap::omap_keys(self, op),
            OpCode::OMAPGETVALS => omap::omap_values(self, op),
            OpCode::OMAPGETHEADER => omap::omap_header(self),
            OpCode::OMAPGETVALSBYKEYS => omap::omap_values_by_keys(self, op),
            OpCode::OMAP_CMP => omap::omap_compare(self, op),
            OpCode::OMAPSETVALS => omap::omap_set_op(self, op),
            OpCode::OMAPSETHEADER => omap::omap_set_header(self, op.input.clone()),
            OpCode::OMAPCLEAR => omap::omap_clear(self),
            OpCode::OMAPRMKEYS => omap::omap_remove_op(self, op),
            OpCode::OMAPRMKEYRANGE => omap::omap_remove_range(self, op),

            OpCode::CALL => class::call(self, op),
            OpCode::COPY_GET => copy::copy_get(self, op),
            OpCode::COPY_FROM | OpCode::COPY_FROM2 => copy::copy_from(self, op),

            OpCode::ISDIRTY => read::is_dirty(self),
            OpCode::CACHE_FLUSH | OpCode::CACHE_TRY_FLUSH | OpCode::CACHE_EVICT => {
                Err(Errno::INVAL.into())
            }
            _ => Err(Errno::NOTSUPP.into()),
        }
    }
}

/// Operations that do not modify the object for users, or that set a user version themselves.
fn sets_user_version_itself(code: OpCode) -> bool {
    matches!(code, OpCode::WATCH | OpCode::COPY_FROM | OpCode::COPY_FROM2 | OpCode::UNDIRTY)
}

#[cfg(test)]
mod tests;
