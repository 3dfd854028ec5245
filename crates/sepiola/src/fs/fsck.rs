//! `sepiola fs fsck`: reads journal and rows of a file system that no server has, and repairs them.

use super::report;
use super::target::FailedFileSystem;
use crate::cli::FsFsckArgs;
use access::Connection;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use mds::fsck::{self, Found, FsckError, Target};
use rados::{ListRequest, Procedure, RequestRouter};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};
use types::{PoolId, UTime};

/// Objects of one page.
const LIST_PAGE: u64 = 1000;
/// Inodes that do not exist of which data objects are listed. Further ones are left out.
const LEAKED_MAX: usize = 10_000;

/// `sepiola fs fsck`
pub fn fsck(args: &FsFsckArgs) -> Result<()> {
    let mut connection = Connection::open(&args.cluster)?;
    let name = &args.file_system;
    let found = FailedFileSystem::find(&mut connection, name)?;
    let mut run = Run { connection, args, system: found };
    match args.repair {
        true => run.repair(),
        false => run.check(),
    }
}

/// A check with its connection.
struct Run<'a> {
    connection: Connection,
    args: &'a FsFsckArgs,
    system: FailedFileSystem,
}

impl Run<'_> {
    fn check(&mut self) -> Result<()> {
        let found = self.read()?;
        let report = &found.checked.report;
        let leaked = self.leaked(&found)?;
        self.print(json!({
            "check": report::as_json(report), "data_without_files": leaked.len(),
        }))?;
        if !self.args.json {
            report::print(report)?;
            report::print_leaked(&leaked)?;
        }
        let name = &self.args.file_system;
        match report.is_sound() {
            true => Ok(()),
            false if report.is_newer() => {
                bail!("a newer program wrote a part of {name}: check it with that one")
            }
            false => bail!("{name} is not sound; --repair mends what can be mended"),
        }
    }

    fn repair(&mut self) -> Result<()> {
        let (target, resumes) = (self.system.target, self.args.resume);
        self.run(Procedure::new(move |steps| fsck::begin(steps, target, resumes)))?;
        // A server that was made active meanwhile is seen here; later ones refuse the head.
        self.system = FailedFileSystem::find(&mut self.connection, &self.args.file_system)?;
        let target = self.system.target;
        self.run(Procedure::new(move |steps| fsck::confirm(steps, target)))?;
        let before = match self.read() {
            // Nothing was written yet, unless an interrupted repair has.
            Err(error) if !resumes => {
                self.end(target)?;
                return Err(error);
            }
            read => read?,
        };
        if before.checked.report.is_newer() {
            self.end(target)?;
            self.show(&before.checked.report)?;
            bail!("a newer program wrote a part: repair it with that one");
        }
        let done = self.mend(target, before);
        match done.context("the repair did not end: begin it again with --repair --resume")? {
            true => Ok(()),
            false => bail!(
                "what is left has no automatic repair: see 'Check and repair' in docs/operations/file-system.md"
            ),
        }
    }

    /// Repairs, and ends the repair; whether the file system is sound then.
    fn mend(&mut self, target: Target, before: Found) -> Result<bool> {
        let first = before.checked.report.clone();
        self.run(Procedure::new(move |steps| fsck::flush(steps, target, before)))?;
        let found = self.read()?;
        let now = now();
        let plan = self.run(Procedure::new(move |steps| fsck::mend(steps, target, found, now)))?;
        let after = self.read()?.checked;
        if after.report.more > 0 && after.has_repair() {
            bail!("there is more to repair than one run takes");
        }
        let after = after.report;
        self.end(target)?;
        let changes = plan.rows.len() + plan.taken.len() + plan.removed.len();
        self.print(json!({
            "check": report::as_json(&first), "changes": changes, "after": report::as_json(&after),
        }))?;
        if !self.args.json {
            report::print(&first)?;
            println!("{changes} rows and objects were changed\n\nafter the repair:");
            report::print(&after)?;
        }
        Ok(after.is_sound())
    }

    fn show(&self, report: &fscheck::Report) -> Result<()> {
        match self.args.json {
            true => self.print(json!({ "check": report::as_json(report) })),
            false => report::print(report),
        }
    }

    fn end(&mut self, target: Target) -> Result<()> {
        self.run(Procedure::new(move |steps| fsck::end(steps, target)))
    }

    fn print(&self, value: serde_json::Value) -> Result<()> {
        if self.args.json {
            println!("{}", serde_json::to_string_pretty(&value)?);
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Found> {
        let (target, accepts_loss) = (self.system.target, self.args.accept_loss);
        let mut objects = Vec::new();
        let namespace = Some(Bytes::from_static(fsck::NAMESPACE));
        self.list(target.pool, namespace, |name| objects.push(name))?;
        self.run(Procedure::new(move |steps| fsck::read(steps, target, objects, accepts_loss)))
    }

    fn list(
        &mut self,
        pool: PoolId,
        namespace: Option<Bytes>,
        mut take: impl FnMut(Bytes),
    ) -> Result<()> {
        let mut request = ListRequest { pool, namespace, cursor: None, entries_max: LIST_PAGE };
        loop {
            let page = self.connection.list(request.clone())?;
            page.objects.into_iter().for_each(|object| take(object.name));
            if page.cursor.is_none() {
                return Ok(());
            }
            request.cursor = page.cursor;
        }
    }

    /// Objects of data pools whose files do not exist, by inode and pool.
    fn leaked(&mut self, found: &Found) -> Result<BTreeMap<(u64, PoolId), u64>> {
        let mut leaked = BTreeMap::new();
        if !self.args.data_objects {
            return Ok(leaked);
        }
        for pool in self.system.data_pools.iter().copied().collect::<BTreeSet<_>>() {
            self.list(pool, None, |name| {
                let Some(ino) = file_of(&name).filter(|ino| !found.checked.has_data_of(*ino))
                else {
                    return;
                };
                if leaked.len() < LEAKED_MAX || leaked.contains_key(&(ino, pool)) {
                    *leaked.entry((ino, pool)).or_default() += 1;
                }
            })?;
        }
        Ok(leaked)
    }

    /// Carries out a procedure.
    fn run<T>(&mut self, mut procedure: Procedure<Result<T, FsckError>>) -> Result<T> {
        let mut router = RequestRouter::<()>::default();
        loop {
            if let Some(outcome) = procedure.poll_outcome() {
                return Ok(outcome?);
            }
            let now = self.connection.now();
            router.send(self.connection.client(), now, (), &mut procedure);
            self.connection.turn()?;
            while let Some((operation, answer)) = self.connection.client().poll_completion() {
                if let Some(((), id)) = router.take(operation) {
                    rados::RequestSource::handle_response(&mut procedure, id, answer);
                }
            }
            while let Some(((), id, answer)) = router.poll_due(self.connection.now()) {
                rados::RequestSource::handle_response(&mut procedure, id, answer);
            }
        }
    }
}

/// The inode of an object of a file: `INO.NUMBER`, both hexadecimal.
fn file_of(name: &[u8]) -> Option<u64> {
    let (ino, number) = std::str::from_utf8(name).ok()?.split_once('.')?;
    let is_number = number.len() == 8 && u32::from_str_radix(number, 16).is_ok();
    u64::from_str_radix(ino, 16).ok().filter(|_| is_number)
}

fn now() -> UTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UTime::from_nanos(since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_files_are_told_by_their_names() {
        assert_eq!(file_of(b"10000000001.00000000"), Some(0x100_0000_0001));
        assert_eq!(file_of(b"10000000001.0"), None);
        assert_eq!(file_of(b"other"), None);
        assert_eq!(file_of(b"\xff.00000000"), None);
    }
}
