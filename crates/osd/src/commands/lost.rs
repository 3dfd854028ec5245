//! `mark_unfound_lost`: gives up objects of which no copy is left.

use crate::commands::answer::{CommandOutput, Requester, Sentence};
use pg::Pg;
use std::collections::BTreeMap;
use types::{Errno, HObject, PgId, SnapId};

/// Commands that gave objects up and are not answered, because that is not durable yet.
#[derive(Debug, Default)]
pub(crate) struct LostCommands {
    last: u64,
    commands: BTreeMap<u64, LostCommand>,
}

#[derive(Debug)]
struct LostCommand {
    requester: Requester,
    pg: PgId,
    /// Objects in total, still in progress, and failed.
    count: usize,
    left: usize,
    failed: usize,
}

impl LostCommands {
    /// Begins to give up so many objects; returns the number of the command.
    pub fn begin(&mut self, requester: Requester, pg: PgId, count: usize) -> u64 {
        self.last += 1;
        let state = LostCommand { requester, pg, count, left: count, failed: 0 };
        self.commands.insert(self.last, state);
        self.last
    }

    /// One of the objects is gone on all members, or could not be removed. Returns the answer after
    /// the last one.
    pub fn ended(
        &mut self,
        command: u64,
        result: i32,
    ) -> Option<(Requester, Result<CommandOutput, Sentence>)> {
        let state = self.commands.get_mut(&command)?;
        state.left -= 1;
        // A client may have removed it before.
        state.failed += usize::from(result < 0 && result != Errno::NOENT.negative());
        if state.left > 0 {
            return None;
        }
        let LostCommand { requester, pg, count, failed, .. } = self.commands.remove(&command)?;
        let answer = match failed {
            0 => Ok(CommandOutput::Status(format!(
                "pg has {count} objects unfound and apparently lost marking"
            ))),
            _ => {
                let text = format!(
                    "{failed} of {count} objects could not be marked lost: the members changed, or it \
                     is not known which clones they have; see 'ceph pg {pg} list_unfound' and ask again"
                );
                Err(Sentence::new(Errno::AGAIN, text))
            }
        };
        Some((requester, answer))
    }
}

/// The unfound objects of a group, which may be given up after all OSDs that could have them were
/// queried. Heads come first: the clones need the lists that these have.
pub(crate) fn lost_objects(pg: &Pg, mode: &str) -> Result<Vec<HObject>, Sentence> {
    if !matches!(mode, "revert" | "delete") {
        let text = format!("mode must be 'revert' or 'delete', not {mode:?}");
        return Err(Sentence::new(Errno::INVAL, text));
    }
    let (id, unfound) = (pg.id(), pg.unfound().cloned().collect::<Vec<_>>());
    let count = unfound.len();
    if count == 0 {
        return Err(Sentence::new(Errno(0), "pg has no unfound objects"));
    }
    if !pg.all_probed() {
        let text = format!(
            "pg has {count} unfound objects but we haven't probed all sources, not marking \
             lost; 'ceph pg {id} list_unfound' names them: start those OSDs, or declare them \
             lost with 'ceph osd lost'"
        );
        return Err(Sentence::new(Errno::INVAL, text));
    }
    if !unfound.iter().all(|object| pg.is_lost(object)) {
        let text = format!("pg {id} is not active, or still looks for objects; ask again");
        return Err(Sentence::new(Errno::AGAIN, text));
    }
    if mode == "revert" && unfound.iter().any(|object| pg.has_older(object)) {
        let text = format!(
            "pg has {count} unfound objects, and of some an older version is left, to which \
             they cannot be reverted yet; copy what you need of them, then use 'delete'"
        );
        return Err(Sentence::new(Errno::NOTSUPP, text));
    }
    let (mut objects, clones): (Vec<_>, Vec<_>) =
        unfound.into_iter().partition(|object| object.snap == SnapId::HEAD);
    objects.extend(clones);
    Ok(objects)
}
