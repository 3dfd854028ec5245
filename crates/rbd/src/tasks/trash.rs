//! The trash and namespaces of a pool.

use crate::calls::{self, TrashEntry};
use crate::task::Task;
use crate::{Error, Pool};
use rados::Steps;
use std::collections::BTreeMap;
use types::{Errno, UTime};

/// Entries that are read with one operation.
const PAGE: u64 = 1024;

/// All entries of the trash, by id.
pub(super) async fn entries(
    steps: &Steps,
    pool: &Pool,
) -> Result<BTreeMap<String, TrashEntry>, Error> {
    let mut entries: BTreeMap<String, TrashEntry> = BTreeMap::new();
    loop {
        let last = entries.last_key_value().map(|(id, _)| id.clone()).unwrap_or_default();
        let page: BTreeMap<String, TrashEntry> =
            match steps.read(&pool.trash(), vec![calls::trash_list(&last, PAGE)]).await {
                Ok(reply) => calls::output(&reply, 0, "the trash")?,
                Err(Errno::NOENT) => BTreeMap::new(),
                Err(errno) => {
                    return Err(Error::cluster(format!("reading the trash of {pool}"), errno));
                }
            };
        let is_last = (page.len() as u64) < PAGE;
        entries.extend(page);
        if is_last {
            return Ok(entries);
        }
    }
}

/// Ids of images that users moved to the trash and whose deferment has ended.
pub fn expired(pool: Pool, now: UTime) -> Task<Vec<String>> {
    Task::new(async move |steps| {
        let all = entries(&steps, &pool).await?.into_iter();
        Ok(all.filter(|(_, entry)| entry.is_expired(now)).map(|(id, _)| id).collect())
    })
}

/// Namespaces of a pool, without the default one.
pub fn namespaces(pool: Pool) -> Task<Vec<String>> {
    Task::new(async move |steps| {
        let mut all: Vec<String> = Vec::new();
        loop {
            let last = all.last().cloned().unwrap_or_default();
            let ops = vec![calls::list_namespaces(&last, PAGE)];
            let page: Vec<String> = match steps.read(&pool.namespaces(), ops).await {
                Ok(reply) => calls::output(&reply, 0, "the namespaces")?,
                Err(Errno::NOENT) => Vec::new(),
                Err(errno) => {
                    let step = format!("listing the namespaces of {pool}");
                    return Err(Error::cluster(step, errno));
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
