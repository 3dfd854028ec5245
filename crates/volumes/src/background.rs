//! Work in the background: copies into clones, and deletion of what lies in the trash.
//!
//! A job can be ended at any point and begun again: what is complete is passed over.

use crate::catalog::{COMPLETE, FAILED, IN_PROGRESS, Subvolume, Subvolumes};
use crate::copy::Copy;
use crate::failure::{During, Failure};
use crate::fence::{Lock, Part};
use crate::metadata::{FAILURE, SOURCE};
use crate::order::{Order, Volume};
use crate::procedure::{Inputs, Procedure, Steps};
use crate::tree::{Tree, is_link};
use crate::{clones, paths, purge};
use types::Errno;

/// One job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Job {
    /// Deletes what has this name in the trash.
    Purge(String),
    /// Copies into the clone with this id.
    Clone(String),
}

impl Job {
    /// A sentence for users; `None` for jobs that are not shown.
    pub fn message(&self, volume: &str) -> Option<String> {
        match self {
            Job::Purge(_) => None,
            Job::Clone(id) => Some(format!("Cloning a snapshot in volume {volume}, clone {id}")),
        }
    }

    /// An id that no other job has.
    pub fn id(&self) -> &str {
        match self {
            Job::Purge(name) | Job::Clone(name) => name,
        }
    }

    /// The procedure that does it.
    pub fn procedure(self, volume: Volume, inputs: Inputs) -> Procedure<Result<(), Failure>> {
        let order = Order { volume, ..Order::default() };
        Procedure::new(inputs, move |steps| async move {
            let tree = Tree::new(steps);
            match self {
                Job::Purge(name) => empty(&tree, &name).await,
                Job::Clone(id) => Box::pin(copy(&Subvolumes::new(&tree, &order), &id)).await,
            }
        })
    }
}

/// Looks for jobs in a volume.
pub fn scan(inputs: Inputs) -> Procedure<Result<Vec<Job>, Failure>> {
    Procedure::new(inputs, |steps| async move { jobs(steps).await })
}

async fn jobs(steps: Steps) -> Result<Vec<Job>, Failure> {
    let tree = Tree::new(steps);
    let mut jobs = Vec::new();
    let kinds: [(&str, fn(String) -> Job); 2] =
        [(paths::CLONES, Job::Clone), (paths::TRASH, Job::Purge)];
    for (path, job) in kinds {
        match tree.list(path).await {
            Err(Errno::NOENT) => {}
            listed => {
                let listed = listed.during(|| format!("listing /{path}"))?;
                jobs.extend(listed.into_iter().map(|(name, _)| job(name)));
            }
        }
    }
    Ok(jobs)
}

async fn empty(tree: &Tree, name: &str) -> Result<(), Failure> {
    let path = format!("{}/{name}", paths::TRASH);
    let step = || format!("deleting /{path}");
    let Some(stat) = tree.find(&path).await.during(step)? else { return Ok(()) };
    if !is_link(&stat) {
        return purge::delete(tree, &path).await.during(step);
    }
    // A former content, whose subvolume may have been deleted since.
    let target = String::from_utf8_lossy(&stat.symlink).trim_start_matches('/').to_owned();
    if target.starts_with(&format!("{}/", paths::PREFIX)) {
        match purge::delete(tree, &target).await {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno).during(step),
        }
    }
    tree.unlink(&path).await.during(step)
}

/// The clone that an entry of the index leads to; `None` if it leads nowhere.
async fn clone_of(all: &Subvolumes<'_>, id: &str) -> Result<Option<Subvolume>, Failure> {
    let path = format!("{}/{id}", paths::CLONES);
    let step = || format!("looking at /{path}");
    let Some(link) = all.tree().find(&path).await.during(step)? else { return Ok(None) };
    let target = String::from_utf8_lossy(&link.symlink).into_owned();
    let found = match paths::parse(&target) {
        Some((group, name)) => all.find(&group, &name).await?,
        None => None,
    };
    let found = found.filter(|clone| clone.content_name() == id);
    if found.is_none() {
        all.tree().unlink(&path).await.during(step)?;
    }
    Ok(found)
}

/// Copies into a clone, if no other worker does.
async fn copy(all: &Subvolumes<'_>, id: &str) -> Result<(), Failure> {
    let lock = Lock::take(all.tree(), Part::Copies).await?;
    let copied = copy_alone(all, id).await;
    lock.release(all.tree()).await;
    copied
}

/// Metadata is changed before and after the copy, and not while an order changes it.
async fn copy_alone(all: &Subvolumes<'_>, id: &str) -> Result<(), Failure> {
    let (tree, steps) = (all.tree(), all.tree().steps());
    steps.lock().await;
    let lock = Lock::take(tree, Part::Metadata).await?;
    let begun = begin(all, id).await;
    lock.release(tree).await;
    steps.unlock().await;
    let Some(clone) = begun? else { return Ok(()) };
    let copied = copy_content(all, &clone).await;
    steps.lock().await;
    let lock = Lock::take(tree, Part::Metadata).await?;
    let ended = end(all, id, copied).await;
    lock.release(tree).await;
    ended
}

/// The clone with an id, if there is still something to copy.
async fn begin(all: &Subvolumes<'_>, id: &str) -> Result<Option<Subvolume>, Failure> {
    let Some(mut clone) = clone_of(all, id).await? else { return Ok(None) };
    if !clone.is_being_cloned() {
        clones::unlist(all, &clone).await?;
        return Ok(None);
    }
    if clone.state() != IN_PROGRESS {
        clone.set_state(IN_PROGRESS);
        all.store(&clone).await?;
    }
    Ok(Some(clone))
}

/// Notes the end of a copy.
async fn end(all: &Subvolumes<'_>, id: &str, copied: Result<(), Failure>) -> Result<(), Failure> {
    // It may have been cancelled meanwhile.
    let Some(mut clone) = clone_of(all, id).await? else { return Ok(()) };
    if !clone.is_being_cloned() {
        return Ok(());
    }
    match copied {
        Ok(()) => {
            all.tree().sync().await.during(|| format!("storing clone '{}'", clone.name))?;
            clone.set_state(COMPLETE);
        }
        Err(failure) if is_passing(failure.errno) => return Err(failure),
        Err(failure) => {
            clone.set_state(FAILED);
            clone.metadata.set(FAILURE, "errno", failure.errno.0.to_string());
            // Names of files are part of it, and may have ends of lines.
            let text: Vec<&str> = failure.text.split_whitespace().collect();
            clone.metadata.set(FAILURE, "error_msg", text.join(" "));
        }
    }
    let listed = clone.clone();
    if clone.state() == COMPLETE {
        clone.metadata.remove_section(SOURCE);
    }
    all.store(&clone).await?;
    clones::unlist(all, &listed).await
}

/// Whether another attempt may succeed without a change by a user.
fn is_passing(errno: Errno) -> bool {
    [Errno::IO, Errno::TIMEDOUT, Errno::CANCELED, Errno::STALE, Errno::BLOCKLISTED].contains(&errno)
}

async fn copy_content(all: &Subvolumes<'_>, clone: &Subvolume) -> Result<(), Failure> {
    let source = clones::source_of(all, clone).await?.ok_or_else(|| {
        Failure::missing(format!("the source of clone '{}' does not exist", clone.name))
    })?;
    let snapshot = clone.metadata.get(SOURCE, "snapshot").unwrap_or_default();
    let (from, stat) = clones::content_at(all, &source, snapshot).await?;
    let ticket = format!("{}/{}", paths::CLONES, clone.content_name());
    let copy = Copy::new(all.tree().clone(), &stat, &ticket);
    let step = || format!("copying to clone '{}'", clone.name);
    copy.directory(from.as_bytes(), clone.content().as_bytes(), &stat).await.during(step)?;
    Ok(())
}
