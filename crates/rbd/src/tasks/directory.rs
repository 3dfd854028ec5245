//! Names of images: the directory of a pool or namespace.

use super::create::claim_name;
use crate::steps::NamedSteps;
use crate::task::Task;
use crate::{Error, ImageSpec, Pool, calls, header, watchers};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::Errno;
use wire::OsdOp;

/// Names that are read with one operation.
const LIST_PAGE: u64 = 1024;

/// Names of all images of a pool or namespace, in order.
pub fn list(pool: Pool) -> Task<Vec<String>> {
    Task::new(async move |steps| {
        let mut names: Vec<String> = Vec::new();
        loop {
            let after = names.last().cloned().unwrap_or_default();
            let ops = vec![calls::directory_list(&after, LIST_PAGE)];
            let page: BTreeMap<String, Bytes> = match steps.read(&pool.directory(), ops).await {
                Ok(reply) => calls::output(&reply, 0, "the directory")?,
                Err(Errno::NOENT) => BTreeMap::new(),
                Err(errno) => {
                    return Err(Error::cluster(format!("listing images of {pool}"), errno));
                }
            };
            let is_last = (page.len() as u64) < LIST_PAGE;
            names.extend(page.into_keys());
            if is_last {
                return Ok(names);
            }
        }
    })
}

/// Names of images by id; `None` for an id without image.
pub fn names_of(pool: Pool, ids: Vec<String>) -> Task<BTreeMap<String, Option<String>>> {
    Task::new(async move |steps| {
        let mut names = BTreeMap::new();
        for id in &ids {
            let ops = vec![calls::directory_name(id)];
            let name = match steps.read(&pool.directory(), ops).await {
                Ok(reply) => Some(calls::output(&reply, 0, "the name of an image")?),
                Err(Errno::NOENT) => None,
                Err(errno) => {
                    return Err(Error::cluster(format!("resolving image ids of {pool}"), errno));
                }
            };
            names.insert(id.clone(), name);
        }
        Ok(names)
    })
}

/// Renames an image within its pool and namespace; EEXIST if the new name is taken. Clients that have it open
/// keep it.
pub fn rename(old: ImageSpec, new: String) -> Task<()> {
    Task::new(async move |steps| {
        let id = header::find_id(&steps, &old).await?;
        let target = ImageSpec { pool: old.pool.clone(), name: new.clone() };
        claim_name(&steps, &target, &id).await?;
        let ops = vec![calls::directory_rename(&old.name, &new, &id)];
        steps.write_step("renaming in the directory", &old.pool.directory(), ops).await?;
        let ops = vec![OsdOp::remove()];
        steps.write_step("removing the old name", &old.pool.id_object(&old.name), ops).await?;
        watchers::notify(&steps, &old.pool.header(&id)).await
    })
}
