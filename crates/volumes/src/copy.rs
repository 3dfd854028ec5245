//! A copy of a tree as a snapshot shows it: directories, files with their holes, hard and symbolic links,
//! owners, permissions, times, and extended attributes.
//!
//! Times are set last, so that a file whose size and times are those of its source is complete, and is passed
//! over when the copy is begun again.

use crate::tree::{Attributes, Tree, is_directory, is_file, is_link};
use bytes::Bytes;
use fsclient::{Answer, Call};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use types::Errno;
use wire::InodeStat;
use wire::inode_stat::decode_xattrs;

/// Bytes of a read.
const PIECE: u64 = 1 << 20;
/// Reads of one file that are under way at once.
const AHEAD: usize = 4;
/// Files that are copied at once.
const FILES: usize = 8;
/// Files with several names whose copies are remembered; names beyond become files of their own.
const LINKS_MAX: usize = 1 << 20;
/// Parts of the work between two looks at whether the copy is still wanted.
const LOOK_EVERY: u64 = 16;
const PERMISSIONS: u32 = 0o7777;

/// A copy.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    tree: Tree,
    /// Paths of copies, by inodes of files that have several names.
    links: Rc<RefCell<BTreeMap<u64, Vec<u8>>>>,
    copied: Rc<Cell<u64>>,
    total: u64,
    /// The copy goes on as long as this path exists.
    ticket: Rc<str>,
    looks: Rc<Cell<u64>>,
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    [path, b"/", name].concat()
}

/// A directory on the way down: where the listing goes on.
struct Level {
    from: Vec<u8>,
    to: Vec<u8>,
    /// The inode of the copy.
    made: u64,
    stat: InodeStat,
    after: Option<Bytes>,
    /// Directories of the last page that were not copied yet.
    below: Vec<(Bytes, InodeStat)>,
}

impl Copy {
    /// A copy of all below an inode, which ends when a path does not exist any more.
    pub(crate) fn new(tree: Tree, root: &InodeStat, ticket: &str) -> Self {
        let (links, copied, looks) = (Rc::default(), Rc::default(), Rc::default());
        Copy { tree, links, copied, total: root.rbytes, ticket: ticket.into(), looks }
    }

    /// # Errors
    ///
    /// ECANCELED if the copy is to end.
    async fn goes_on(&self) -> Result<(), Errno> {
        let looks = self.looks.get();
        self.looks.set(looks + 1);
        let is_wanted = match looks % LOOK_EVERY {
            0 => self.tree.find(&*self.ticket).await?.is_some(),
            _ => true,
        };
        let is_over = self.tree.steps().is_cancelled() || !is_wanted;
        if is_over { Err(Errno::CANCELED) } else { Ok(()) }
    }

    /// Copies a directory into one that is there.
    ///
    /// # Errors
    ///
    /// ECANCELED if the procedure is to end.
    pub(crate) async fn directory(
        &self,
        from: &[u8],
        to: &[u8],
        stat: &InodeStat,
    ) -> Result<(), Errno> {
        let level = |from: Vec<u8>, to: Vec<u8>, made: u64, stat: InodeStat| Level {
            from,
            to,
            made,
            stat,
            after: Some(Bytes::new()),
            below: Vec::new(),
        };
        let top = self.tree.stat(to).await?.ino;
        let mut stack = vec![level(from.to_vec(), to.to_vec(), top, stat.clone())];
        while let Some(top) = stack.last_mut() {
            self.goes_on().await?;
            if let Some((name, stat)) = top.below.pop() {
                let (from, to) = (joined(&top.from, &name), joined(&top.to, &name));
                let made = match self.tree.mkdir(&to, 0o700).await {
                    Err(Errno::EXIST) => self.tree.stat(&to).await.map(|stat| stat.ino),
                    made => made,
                };
                stack.push(level(from, to, made?, stat));
            } else if let Some(after) = top.after.take() {
                let (entries, next) = self.tree.page(&top.from, &after).await?;
                let (below, others) = entries.into_iter().partition(|(_, stat)| is_directory(stat));
                (top.below, top.after) = (below, next);
                let to = top.to.clone();
                self.entries(&to, others).await?;
            } else {
                // Entries change the times of a directory, so its own are set behind them.
                let done = stack.pop().expect("the top of the stack was looked at");
                self.attributes(done.made, &done.stat).await?;
            }
        }
        Ok(())
    }

    /// Copies entries that are no directories, some at a time.
    async fn entries(&self, to: &[u8], entries: Vec<(Bytes, InodeStat)>) -> Result<(), Errno> {
        for window in entries.chunks(FILES) {
            self.goes_on().await?;
            let mut copies: Vec<Pin<Box<dyn Future<Output = Result<(), Errno>>>>> = Vec::new();
            for (name, stat) in window {
                let (copy, stat) = (self.clone(), stat.clone());
                let to = joined(to, name);
                if stat.nlink > 1 && is_file(&stat) {
                    // In turn, so that the second name finds the copy of the first.
                    copy.linked(to, &stat).await?;
                } else {
                    copies.push(Box::pin(async move { copy.entry(&to, &stat).await }));
                }
            }
            all(copies).await?;
        }
        Ok(())
    }

    async fn linked(&self, to: Vec<u8>, stat: &InodeStat) -> Result<(), Errno> {
        let known = self.links.borrow().get(&stat.ino).cloned();
        let Some(known) = known else {
            self.entry(&to, stat).await?;
            let mut links = self.links.borrow_mut();
            if links.len() < LINKS_MAX {
                links.insert(stat.ino, to);
            }
            return Ok(());
        };
        let is_there = match (self.tree.find(&to).await?, self.tree.find(&known).await?) {
            (Some(there), Some(known)) => there.ino == known.ino,
            _ => false,
        };
        if !is_there {
            self.free(&to).await?;
            self.tree.link_at(&known, &to).await?;
        }
        Ok(())
    }

    /// Removes what an attempt before has left at a path.
    async fn free(&self, path: &[u8]) -> Result<(), Errno> {
        match self.tree.unlink(path).await {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Copies a file or a symbolic link. Other kinds are left out, as in Ceph.
    async fn entry(&self, to: &[u8], stat: &InodeStat) -> Result<(), Errno> {
        if !is_file(stat) && !is_link(stat) {
            return Ok(());
        }
        if let Some(there) = self.tree.find(to).await? {
            if is_complete(&there, stat) {
                self.count(stat.size);
                return Ok(());
            }
            self.free(to).await?;
        }
        let made = match is_link(stat) {
            true => self.tree.symlink(to, &stat.symlink).await?,
            false => self.file(to, stat).await?,
        };
        self.attributes(made, stat).await
    }

    fn count(&self, bytes: u64) {
        self.copied.set(self.copied.get().saturating_add(bytes));
        self.tree.steps().report(self.copied.get(), self.total);
    }

    /// Copies a file; returns the inode of the copy.
    async fn file(&self, to: &[u8], stat: &InodeStat) -> Result<u64, Errno> {
        let made = self.tree.create(to).await?;
        let copied = self.content(&made, stat).await;
        let closed = self.tree.close(made.ino).await;
        copied?;
        closed.map(|()| made.ino)
    }

    /// Copies the bytes of a file. Pieces of zeros become holes, except the last one, which gives the size.
    async fn content(&self, to: &InodeStat, stat: &InodeStat) -> Result<(), Errno> {
        let offsets: Vec<u64> = (0..stat.size.div_ceil(PIECE)).map(|piece| piece * PIECE).collect();
        for window in offsets.chunks(AHEAD) {
            let read = |offset: &u64| Call::ReadSnapshotRange {
                stat: Box::new(stat.clone()),
                offset: *offset,
                length: PIECE,
            };
            let steps = self.tree.steps();
            let tickets: Vec<_> = window.iter().map(|offset| steps.begin(read(offset))).collect();
            for (offset, ticket) in window.iter().zip(tickets) {
                let Answer::Data(data) = steps.finish(ticket).await? else {
                    return Err(Errno::IO);
                };
                let length = data.len() as u64;
                let is_last = offset + length >= stat.size;
                if is_last || data.iter().any(|byte| *byte != 0) {
                    self.tree.write(to, *offset, data).await?;
                }
                self.count(length);
            }
            self.goes_on().await?;
        }
        Ok(())
    }

    /// Gives an inode the attributes of its source. A name may lead to another inode by now.
    async fn attributes(&self, made: u64, stat: &InodeStat) -> Result<(), Errno> {
        if !stat.xattrs.is_empty() {
            let xattrs = decode_xattrs(&stat.xattrs).map_err(|_| Errno::IO)?;
            for (name, value) in xattrs.into_iter().filter(|(name, _)| !name.starts_with(b"ceph."))
            {
                self.tree.set_xattr_of(made, &name, value).await?;
            }
        }
        let mode = Some(stat.mode & PERMISSIONS).filter(|_| !is_link(stat));
        let owner = Some((stat.uid, stat.gid));
        let times = Some((stat.atime, stat.mtime));
        self.tree.set_of(made, Attributes { mode, owner, times }).await
    }
}

/// Whether a copy is complete: times are set last.
fn is_complete(there: &InodeStat, stat: &InodeStat) -> bool {
    there.mode == stat.mode
        && there.size == stat.size
        && there.mtime == stat.mtime
        && (there.uid, there.gid) == (stat.uid, stat.gid)
        && there.symlink == stat.symlink
}

/// Runs all to their ends; returns the first error in their order.
async fn all(
    mut futures: Vec<Pin<Box<dyn Future<Output = Result<(), Errno>>>>>,
) -> Result<(), Errno> {
    let mut outcomes: Vec<Option<Result<(), Errno>>> = vec![None; futures.len()];
    poll_fn(|context| {
        for (future, outcome) in futures.iter_mut().zip(&mut outcomes) {
            if outcome.is_none()
                && let Poll::Ready(done) = future.as_mut().poll(context)
            {
                *outcome = Some(done);
            }
        }
        if outcomes.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outcomes.into_iter().flatten().collect()
}
