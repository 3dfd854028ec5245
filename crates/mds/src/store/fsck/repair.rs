//! The repair: marks the head, puts the journal into rows, and mends rows.

use super::error::FsckError;
use super::pool::Target;
use super::reader::Found;
use crate::rows::{RowWrite, sessions_object, write};
use crate::store::objects::read_keys;
use fscheck::{Plan, RowChange, decode_row};
use fsjournal::{Head, Span, head_name};
use namespace::{Ino, ino_key};
use rados::Steps;
use std::collections::BTreeMap;
use types::{Errno, UTime};
use wire::OsdOp;

/// Pairs of one request.
const PAIRS_MAX: usize = 1024;
/// Bytes of one request, unless it has one pair.
const BYTES_MAX: usize = 1 << 20;

/// Begins a repair: from now on no server opens the rank. `resumes` begins one again that was interrupted.
pub async fn begin(steps: Steps, target: Target, resumes: bool) -> Result<(), FsckError> {
    target.await_map(&steps).await?;
    let head = decode(&target, &target.head(&steps).await?)?;
    if head.is_in_repair && !resumes {
        return Err(FsckError::InRepair);
    }
    let incarnation = steps.identify().await?;
    write_head(&steps, &target, &Head { is_in_repair: true, incarnation, ..head }).await
}

/// The map shows after [`begin`] that no server has the rank: waits until those that had it are shut out, and
/// compares the head. A server that had read it before has not written it.
pub async fn confirm(steps: Steps, target: Target) -> Result<(), FsckError> {
    target.await_map(&steps).await?;
    own_head(&steps, &target).await.map(drop)
}

/// Puts the journal into rows.
pub async fn flush(steps: Steps, target: Target, found: Found) -> Result<(), FsckError> {
    let head = own_head(&steps, &target).await?;
    write_rows(&steps, &target, &found.journal_rows()).await?;
    let (next, numbers) = (found.resume.next, found.numbers());
    let spans = vec![Span { segment: 0, start: next, end: None }];
    let head = Head { checkpoint: next.lsn - 1, numbers, spans, ..head };
    write_head(&steps, &target, &head).await
}

/// Mends what was found when the journal was in rows; returns the changes that were made.
pub async fn mend(
    steps: Steps,
    target: Target,
    found: Found,
    now: UTime,
) -> Result<Plan, FsckError> {
    let head = own_head(&steps, &target).await?;
    let mut rows = BTreeMap::new();
    for key in found.checked.wanted() {
        let read = read_keys(&steps, &target.place(key.object(target.rank)), &[key.key()]).await?;
        let row = read.first().and_then(|(_, value)| decode_row(&key, value).ok());
        rows.extend(row.map(|row| (key, row)));
    }
    let plan = found.checked.plan(&rows, now, found.numbers());
    // A number is used only when no successor gives it to another inode.
    if plan.used_below > head.numbers {
        let head = Head { numbers: plan.used_below, ..head };
        write_head(&steps, &target, &head).await?;
    }
    write_rows(&steps, &target, &plan.rows).await?;
    write_rows(&steps, &target, &sessions(&found, &plan, target.rank)).await?;
    for object in &plan.removed {
        match steps.operate(write(target.place(object.clone()), vec![OsdOp::remove()])).await {
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(plan)
}

/// Ends a repair: servers may open the rank.
pub async fn end(steps: Steps, target: Target) -> Result<(), FsckError> {
    let head = own_head(&steps, &target).await?;
    write_head(&steps, &target, &Head { is_in_repair: false, ..head }).await
}

fn decode(target: &Target, head: &[u8]) -> Result<Head, FsckError> {
    Head::decode(head).map_err(FsckError::undecodable(&head_name(target.rank)))
}

/// The head, which has the mark of this repair.
async fn own_head(steps: &Steps, target: &Target) -> Result<Head, FsckError> {
    let head = decode(target, &target.head(steps).await?)?;
    let is_own = head.is_in_repair && head.incarnation == steps.identify().await?;
    if is_own { Ok(head) } else { Err(FsckError::Taken) }
}

async fn write_head(steps: &Steps, target: &Target, head: &Head) -> Result<(), FsckError> {
    let place = target.place(head_name(target.rank));
    steps.operate(write(place, vec![OsdOp::write_full(head.encode())])).await?;
    Ok(())
}

/// Sessions without the numbers that they lose.
fn sessions(found: &Found, plan: &Plan, rank: u32) -> Vec<RowChange> {
    let changed = plan.taken.iter().filter_map(|(client, numbers)| {
        let mut session = found.others.sessions.get(client)?.clone();
        for number in numbers {
            session.delegated.take(*number);
        }
        let (object, key) = (sessions_object(rank), ino_key(Ino(*client)));
        Some(RowChange { object, key, value: Some(codec::encode_to_bytes(&session)) })
    });
    changed.collect()
}

/// Changes rows in this order, as many of one object at once as a request may have.
async fn write_rows(steps: &Steps, target: &Target, rows: &[RowChange]) -> Result<(), FsckError> {
    let mut rows = rows.iter().peekable();
    while let Some(first) = rows.peek() {
        let mut write = RowWrite { object: first.object.clone(), ..RowWrite::default() };
        let mut bytes = 0;
        while let Some(change) = rows.next_if(|change| {
            let pairs = write.sets.len() + write.removes.len();
            change.object == write.object && pairs < PAIRS_MAX && bytes < BYTES_MAX
        }) {
            match &change.value {
                Some(value) => {
                    bytes += value.len();
                    write.sets.insert(change.key.clone(), value.clone());
                }
                None => write.removes.push(change.key.clone()),
            }
        }
        match steps.operate(write.operation(target.pool)).await {
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
