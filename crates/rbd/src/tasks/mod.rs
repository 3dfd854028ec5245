//! What is done with images as wholes, each as a [`Task`].

mod create;
mod remove;
mod resize;

pub use create::{CreateSpec, create};
pub use remove::remove;
pub use resize::resize;

use crate::calls;
use crate::header::{self, Header, Info};
use crate::names::{ImageSpec, Pool};
use crate::steps::{Ask, Steps, Stop, Task};
use crate::{Error, notify};
use bytes::Bytes;
use rados::Place;
use std::collections::BTreeMap;
use types::Errno;
use wire::OsdOp;
use wire::op::OpCode;
use wire::watch::{Watcher, WatcherListing};

/// Names that are asked for at once.
const LIST_PAGE: u64 = 1024;

/// What is needed to read and write an image.
pub fn open(spec: ImageSpec) -> Task<Header> {
    Task::new(move |steps| {
        let header = header::read(steps, &spec)?;
        header.features.check_readable(&spec.to_string())?;
        Ok(header)
    })
}

/// Reads the header of an open image again, whatever its name is by now.
pub(crate) fn reopen(spec: ImageSpec, id: &str) -> Task<Header> {
    let id = id.to_owned();
    Task::new(move |steps| header::read_with_id(steps, &spec, id.clone()))
}

pub fn info(spec: ImageSpec) -> Task<Info> {
    Task::new(move |steps| {
        let header = header::read(steps, &spec)?;
        let ops = || vec![calls::get_created()];
        let reply = steps.look("reading when the image was made", &header.place(), ops)?;
        Ok(Info { created: calls::output(&reply, 0, "the time of creation")?, header })
    })
}

/// The names of all images, in order.
pub fn list(pool: Pool) -> Task<Vec<String>> {
    Task::new(move |steps| {
        let mut names: Vec<String> = Vec::new();
        loop {
            let after = names.last().cloned().unwrap_or_default();
            let ops = || vec![calls::directory_list(&after, LIST_PAGE)];
            let page: BTreeMap<String, Bytes> = match steps.try_look(&pool.directory(), ops)? {
                Ok(reply) => calls::output(&reply, 0, "the directory")?,
                Err(Errno::NOENT) => BTreeMap::new(),
                Err(errno) => {
                    return Err(Error::cluster(format!("listing images of {pool}"), errno).into());
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

pub fn rename(old: ImageSpec, new: String) -> Task<()> {
    Task::new(move |steps| {
        let id = header::find_id(steps, &old)?;
        let target = ImageSpec { pool: old.pool.clone(), name: new.clone() };
        create::claim_name(steps, &target, &id)?;
        let ops = || vec![calls::directory_rename(&old.name, &new, &id)];
        steps.change("renaming in the directory", &old.pool.directory(), ops)?;
        let ops = || vec![OsdOp::remove()];
        steps.change("removing the old name", &old.pool.id_object(&old.name), ops)?;
        tell_watchers(steps, &old.pool.header(&id))
    })
}

/// Those who have the image open read its header again. Who does not answer in time is no reason to
/// fail: what was changed is changed.
fn tell_watchers(steps: &mut Steps, header: &Place) -> Result<(), Stop> {
    let ask = || Ask::Notify { place: header.clone(), payload: notify::header_update() };
    steps.ask(ask).map(|_| ())
}

/// Who has the image open.
pub(crate) fn watchers(steps: &mut Steps, header: &Place) -> Result<Vec<Watcher>, Stop> {
    let ops = || vec![OsdOp::new(OpCode::LIST_WATCHERS)];
    let reply = steps.look("asking who has the image open", header, ops)?;
    let listing: WatcherListing = calls::output(&reply, 0, "the list of watchers")?;
    Ok(listing.entries)
}
