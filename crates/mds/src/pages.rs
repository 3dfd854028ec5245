//! Pages of directories, and inodes in snapshots, as requests ask for them.

use bytes::Bytes;
use namespace::{Ino, PageStart};
use types::SnapId;
use wire::ClientRequest;
use wire::client_request::ReaddirArguments;

/// Most entries of a page of a directory. Of more, the client asks for the next page.
const PAGE_MAX: usize = 1024;
/// Most bytes of a page, as in Ceph. Of more, the client asks for the next page; one entry is always there.
const PAGE_MAX_BYTES: usize = 512 << 10;

/// A page of a directory that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownPage {
    /// Its beginning.
    pub start: PageStart,
    /// Most entries.
    pub max: usize,
    /// Most bytes, unless it is one entry.
    pub max_bytes: usize,
}

/// The page of a directory that a request asks for.
pub(crate) fn page_of(request: &ClientRequest) -> ShownPage {
    let arguments: ReaddirArguments = request.arguments.read();
    let after = request.path2.path.clone();
    let start = match (after.is_empty(), arguments.offset_hash) {
        (false, _) => PageStart::After(after),
        (true, 0) => PageStart::Begin,
        (true, hash) => PageStart::Hash(hash),
    };
    let bounded = |wanted: u32, bound: usize| match wanted as usize {
        0 => bound,
        wanted => wanted.min(bound),
    };
    let max = bounded(arguments.max_entries, PAGE_MAX);
    let max_bytes = bounded(arguments.max_bytes, PAGE_MAX_BYTES);
    ShownPage { start, max, max_bytes }
}

/// An inode, or what is in it, as a snapshot shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownSnapshot {
    /// The inode.
    pub ino: Ino,
    /// The snapshot; `None` for the one that the request takes or renames.
    pub snap: Option<SnapId>,
    /// The entry by which it was found in the snapshot: clients find it again by that.
    pub entry: Option<(Ino, Bytes)>,
    /// Names that lead to it from the directory of the snapshot.
    pub names: Vec<Bytes>,
}

impl ShownSnapshot {
    /// A directory, of which the request says or tells the snapshot.
    pub(crate) fn of_directory(ino: Ino) -> Self {
        ShownSnapshot { ino, snap: None, entry: None, names: Vec::new() }
    }
}
