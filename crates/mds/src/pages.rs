//! Pages of directories, as requests ask for them.

use namespace::PageStart;
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
