//! Looking through the trash.

use crate::calls::{self, TrashEntry};
use crate::steps::{Steps, Stop, Task};
use crate::{Error, Pool};
use std::collections::BTreeMap;
use types::{Errno, UTime};

/// Entries that are asked for at once.
const PAGE: u64 = 1024;

/// All that is in the trash, by id.
pub(super) fn entries(
    steps: &mut Steps,
    pool: &Pool,
) -> Result<BTreeMap<String, TrashEntry>, Stop> {
    let mut entries: BTreeMap<String, TrashEntry> = BTreeMap::new();
    loop {
        let last = entries.last_key_value().map(|(id, _)| id.clone()).unwrap_or_default();
        let page: BTreeMap<String, TrashEntry> = match steps
            .try_look(&pool.trash(), || vec![calls::trash_list(&last, PAGE)])?
        {
            Ok(reply) => calls::output(&reply, 0, "the trash")?,
            Err(Errno::NOENT) => BTreeMap::new(),
            Err(errno) => {
                return Err(Error::cluster(format!("reading the trash of {pool}"), errno).into());
            }
        };
        let is_last = (page.len() as u64) < PAGE;
        entries.extend(page);
        if is_last {
            return Ok(entries);
        }
    }
}

/// The ids of images that people put into the trash and that need not be kept any longer.
pub fn expired(pool: Pool, now: UTime) -> Task<Vec<String>> {
    Task::new(move |steps| {
        let all = entries(steps, &pool)?.into_iter();
        Ok(all.filter(|(_, entry)| entry.is_expired(now)).map(|(id, _)| id).collect())
    })
}

/// The namespaces of a pool, but for the one without a name.
pub fn namespaces(pool: Pool) -> Task<Vec<String>> {
    Task::new(move |steps| {
        let mut all: Vec<String> = Vec::new();
        loop {
            let last = all.last().cloned().unwrap_or_default();
            let ops = || vec![calls::list_namespaces(&last, PAGE)];
            let page: Vec<String> = match steps.try_look(&pool.namespaces(), ops)? {
                Ok(reply) => calls::output(&reply, 0, "the namespaces")?,
                Err(Errno::NOENT) => Vec::new(),
                Err(errno) => {
                    let step = format!("listing the namespaces of {pool}");
                    return Err(Error::cluster(step, errno).into());
                }
            };
            let is_last = (page.len() as u64) < PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    })
}
