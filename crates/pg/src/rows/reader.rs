//! A job from its beginning to its end.

use super::content::Content;
use super::local::{self, read_for_job};
use super::plan::{ReadPlan, plan};
use super::ranges::RowSet;
use super::state::{Asked, Done, Failed, Job, OwnRows, Purpose, Reader, RowRequest, Versions};
use crate::Member;
use crate::backend::erasure::geometry::ROW;
use crate::core::{Core, settling};
use crate::message::{Body, NoRows, ROWS_BYTES_MAX, ROWS_RANGES_MAX, ReadRows, Rows, ShardRows};
use std::collections::BTreeMap;
use store::{Outcome, StoreError};
use types::{EVersion, HObject};

/// Answers of other versions for which a job asks again.
const MISMATCHES_MAX: u32 = 3;

/// Begins a job. Its end is a [`RowReads::take_done`].
pub(crate) fn begin(core: &mut Core, request: RowRequest) {
    let number = core.rows.number();
    core.rows.jobs.insert(number, Job::new(request));
    advance(core, number);
}

/// Takes the answer of a member.
pub(crate) fn handle_rows(core: &mut Core, from: Member, rows: Rows) {
    let is_from = core.rows.asked.get(&rows.request).is_some_and(|asked| asked.member == from);
    if is_from {
        answered(core, rows.request, rows.outcome);
    }
}

/// Takes the outcome of a request to our own store. The end of a read that is neither for a job nor for a
/// primary is returned.
pub(crate) fn handle_local(
    core: &mut Core,
    (number, index): (u64, usize),
    outcome: Result<Outcome, StoreError>,
) -> Option<OwnRows> {
    let ended = local::advance(core, number, index, outcome)?;
    if ended.reader != Reader::Job {
        return Some(ended);
    }
    answered(core, ended.number, ended.outcome);
    None
}

/// A source went away: goes on without it.
pub(crate) fn forget_source(core: &mut Core, source: Member) {
    let asked = core.rows.asked.iter().filter(|(_, asked)| asked.member == source);
    let jobs: Vec<u64> = asked.map(|(_, asked)| asked.job).collect();
    core.rows.asked.retain(|_, asked| asked.member != source);
    for number in jobs {
        if let Some(job) = core.rows.jobs.get_mut(&number) {
            job.leave_out(source);
            advance(core, number);
        }
    }
}

fn answered(core: &mut Core, request: u64, outcome: Result<ShardRows, NoRows>) {
    let Some(asked) = core.rows.asked.remove(&request) else { return };
    let Asked { job: number, member, rows, least, may_be_absent } = asked;
    let pg = core.own.id;
    let is_new = outcome == Err(NoRows::Absent) && may_be_absent;
    let job = core.rows.jobs.get_mut(&number).expect("requests end with their job");
    // Rows that no shard has yet are zeros.
    let outcome = if is_new { Ok(ShardRows::zeros(&rows)) } else { outcome };
    let outcome = outcome.and_then(|answer| match answer.fits(&rows) {
        true => Ok(answer),
        false => {
            tracing::error!(%pg, %member, "a member answers with other rows than it was asked for");
            Err(NoRows::Unreadable)
        }
    });
    match outcome {
        Ok(answer) => match job.accepts(answer.version, least) {
            Accepts::Yes => job.take(member, &rows, answer),
            Accepts::Again => {}
            Accepts::Never => {
                let object = &job.request.object;
                tracing::error!(%pg, %member, %object, version = ?answer.version,
                    "a shard has another version than its object");
                job.reject(member);
            }
            Accepts::Restart => {
                job.restart();
                core.rows.asked.retain(|_, asked| asked.job != number);
            }
        },
        Err(reason) => {
            job.absent += usize::from(reason == NoRows::Absent);
            job.reject(member);
        }
    }
    advance(core, number);
}

/// How to handle an answer of a version.
enum Accepts {
    Yes,
    /// The member is asked again.
    Again,
    /// The member is left out.
    Never,
    /// All are asked again.
    Restart,
}

impl Job {
    fn accepts(&mut self, version: EVersion, least: EVersion) -> Accepts {
        let expected = match self.request.versions {
            Versions::Each if version < least => return Accepts::Never,
            Versions::Each => return Accepts::Yes,
            Versions::Same(version) => version,
        };
        if version == expected
            || expected == EVersion::ZERO && *self.version.get_or_insert(version) == version
        {
            return Accepts::Yes;
        }
        self.mismatches += 1;
        match (expected == EVersion::ZERO, self.mismatches <= MISMATCHES_MAX) {
            (false, true) => Accepts::Again,
            (true, true) => Accepts::Restart,
            (_, false) => Accepts::Never,
        }
    }

    fn take(&mut self, member: Member, rows: &RowSet, answer: ShardRows) {
        if self.request.versions != Versions::Each {
            self.version = Some(answer.version);
        }
        if self.attrs.is_none() {
            self.attrs = answer.attrs;
        }
        let position = member.shard.position().expect("a source has a shard");
        let (_, content) =
            self.shards.entry(position).or_insert_with(|| (member, Default::default()));
        for (range, data) in rows.ranges().zip(answer.data) {
            content.add(range, data);
        }
    }

    fn reject(&mut self, member: Member) {
        self.leave_out(member);
        self.bad.push(member);
    }

    /// The reads of a plan that are neither here nor in `asked`.
    fn left(&self, plan: &ReadPlan, asked: &[(Member, RowSet)]) -> Vec<(Member, RowSet)> {
        let left = |(position, (member, rows)): (&usize, &(Member, RowSet))| {
            let mut left = match self.shards.get(position) {
                Some((_, content)) => rows.without(&content.rows()),
                None => rows.clone(),
            };
            for (_, rows) in asked.iter().filter(|(asked, _)| asked == member) {
                left = left.without(rows);
            }
            (*member, left)
        };
        plan.reads.iter().map(left).filter(|(_, rows)| !rows.is_empty()).collect()
    }
}

impl ShardRows {
    /// Rows of a shard that is not there yet.
    pub(super) fn zeros(rows: &RowSet) -> Self {
        let data = rows.ranges().map(|_| bytes::Bytes::new()).collect();
        ShardRows { data, ..ShardRows::default() }
    }

    /// Whether it has as many ranges as were asked for, and none of them is longer.
    pub(super) fn fits(&self, rows: &RowSet) -> bool {
        let mut pairs = rows.ranges().zip(&self.data);
        self.data.len() == rows.ranges().count()
            && pairs.all(|(range, data)| data.len() as u64 <= (range.end - range.start) * ROW)
    }
}

/// Asks for what is left to read; ends the job if that is nothing.
fn advance(core: &mut Core, number: u64) {
    let Some(job) = core.rows.jobs.get(&number) else { return };
    let code = core.placement.code.as_ref().expect("a group with shards has a code");
    let asked = core.rows.asked.values().filter(|asked| asked.job == number);
    let asked: Vec<(Member, RowSet)> =
        asked.map(|asked| (asked.member, asked.rows.clone())).collect();
    let plan = match plan(code.k(), &job.request, &job.failed) {
        Ok(plan) => plan,
        Err(Failed::TooFew) if job.is_absent() => return probe(core, number, asked.is_empty()),
        Err(failed) => return end(core, number, Err(failed)),
    };
    let mut left = job.left(&plan, &asked);
    let wants_attrs = job.request.with_attrs && job.attrs.is_none();
    if left.is_empty() && asked.is_empty() {
        match job.first_source().filter(|_| wants_attrs) {
            Some(source) => left.push((source, RowSet::default())),
            None => return end(core, number, Ok(plan)),
        }
    }
    for (index, (member, rows)) in left.into_iter().enumerate() {
        // One answer with attributes is enough.
        let with_attrs = wants_attrs && index == 0;
        match rows.is_empty() {
            true => ask(core, number, member, with_attrs, rows),
            false => rows
                .parts(ROWS_BYTES_MAX / ROW, ROWS_RANGES_MAX)
                .into_iter()
                .for_each(|part| ask(core, number, member, with_attrs, part)),
        }
    }
}

/// All that were asked do not have the object: asks the others whether they have it.
fn probe(core: &mut Core, number: u64, is_answered: bool) {
    if !is_answered {
        return;
    }
    let job = core.rows.jobs.get(&number).expect("the caller found it");
    if job.shards.values().next().is_some() {
        return end(core, number, Err(Failed::TooFew));
    }
    match job.first_source() {
        None => end(core, number, Err(Failed::Absent)),
        Some(member) => ask(core, number, member, false, RowSet::default()),
    }
}

fn ask(core: &mut Core, job: u64, member: Member, with_attrs: bool, rows: RowSet) {
    let request = core.rows.number();
    let RowRequest { object, purpose, .. } = &core.rows.jobs[&job].request;
    let object = object.clone();
    let committed = settles_through(core, member);
    let (least, may_be_absent) = expected(core, job, member, committed);
    let ranges = rows.byte_ranges();
    if member == core.own.whoami {
        // The writer knows the rows that are not settled.
        let is_write = matches!(purpose, Purpose::Write(_));
        let committed = if is_write { EVersion::ZERO } else { committed };
        read_for_job(core, request, object, with_attrs, &rows, committed);
    } else {
        let body = ReadRows { request, committed, object, with_attrs, ranges };
        core.send(member, &Body::ReadRows(Box::new(body)));
    }
    let asked = Asked { job, member, rows, least, may_be_absent };
    core.rows.asked.insert(request, asked);
}

/// The version that a member must have of an object, or a later one, if rows of each version are taken: a
/// stale row would spoil the parity, and nothing would show it. Zero if that is not known. And whether the
/// member may lack the object, because a write before that of the job creates it.
fn expected(core: &Core, job: u64, member: Member, committed: EVersion) -> (EVersion, bool) {
    let RowRequest { object, purpose, versions, .. } = &core.rows.jobs[&job].request;
    let (Versions::Each, Purpose::Write(version)) = (versions, purpose) else {
        return (EVersion::ZERO, false);
    };
    let is_own = member == core.own.whoami;
    let through = if is_own { settling::settled(core) } else { committed };
    expected_by_write(core, *version, object, through)
}

/// The same of a member that has settled changes up to `through`, for the write of a version.
pub(super) fn expected_by_write(
    core: &Core,
    version: EVersion,
    object: &HObject,
    through: EVersion,
) -> (EVersion, bool) {
    let write = core.copy.log.entry(version).filter(|entry| entry.object == *object);
    let mut later = core.copy.log.above(through).take_while(|entry| entry.version < version);
    let next = later.find(|entry| entry.changes_object() && entry.object == *object);
    let may_be_absent = next.is_some_and(|entry| entry.prior_version == EVersion::ZERO);
    (core.copy.least_version(object, write, through), may_be_absent)
}

/// The version up to which a source settles changes before it reads: none in a group that does not serve. The
/// log of a stray may have left the group's, unless it was compared.
fn settles_through(core: &Core, member: Member) -> EVersion {
    let of_log = match core.placement.members.has_member(member) {
        true => EVersion::MAX,
        false => core.rows.strays.get(&member).copied().unwrap_or_default(),
    };
    match core.placement.can_serve() {
        true => core.copy.committed.min(of_log),
        false => EVersion::ZERO,
    }
}

/// Ends a job: decodes what could not be read.
fn end(core: &mut Core, number: u64, plan: Result<ReadPlan, Failed>) {
    let Some(job) = core.rows.jobs.remove(&number) else { return };
    core.rows.asked.retain(|_, asked| asked.job != number);
    let Job { request, version, attrs, shards, bad, .. } = job;
    let outcome = plan.map(|plan| {
        let shards: BTreeMap<_, _> =
            shards.into_iter().map(|(position, (_, content))| (position, content)).collect();
        let mut content = Content::new(version.unwrap_or_default(), attrs, shards);
        if !plan.lost.is_empty() {
            let code = core.placement.code.as_ref().expect("a group with shards has a code");
            let decoder = code.decoder(plan.sources, plan.lost);
            content.decode(&decoder.expect("k shards were read"), &plan.decoded);
        }
        content
    });
    core.rows.done.push_back(Done { request, outcome, bad });
}
