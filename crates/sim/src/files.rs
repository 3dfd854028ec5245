//! The file system of a scenario: its shape, and the names that its users know.

use fsclient::Call;
use stdx::Prng;

/// Percent of the seeds that have a file system, unless the caller wants another share.
pub const PERCENT_USUAL: u64 = 25;
/// Separates its draws from all others.
pub const SALT: u64 = 0xf11e_5eed_0007;
/// Most bytes of a write. Each begins at the place where the file has its content.
pub const FILE_BYTES_MAX: usize = 128;
/// Places of the content, by inode: clients ask for the right to write so far.
const STARTS: [u64; 4] = [0, 0, 24 << 20, 100 << 20];
const DIRECTORIES: [&str; 2] = ["a", "b"];
const NAMES: u64 = 3;

/// Servers and clients of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// Metadata servers: one serves, the others stand by.
    pub servers: usize,
    /// Clients.
    pub clients: usize,
    /// Mean time between calls of one client, in microseconds.
    pub think_us: u64,
    /// So often the server dies soon after it has answered.
    pub strikes: usize,
    /// Time in milliseconds for which a new server waits for clients of the former one.
    pub reconnect_ms: u64,
    /// Clients set quotas of directories.
    pub has_quotas: bool,
    /// Clients take, read and remove snapshots of directories.
    pub has_snapshots: bool,
    /// The metadata pool is full for a while at the end.
    pub has_full_pool: bool,
}

/// The file system of a seed, if it has one.
pub fn draw(seed: u64, percent: u64) -> Option<FileSystem> {
    let mut prng = Prng::new(seed ^ SALT);
    let p = &mut prng;
    let is_drawn = p.below(100) < percent;
    is_drawn.then(|| FileSystem {
        servers: 1 + p.below(3) as usize,
        clients: 2 + p.below(3) as usize,
        think_us: *p.choose(&[5_000, 20_000, 100_000]),
        strikes: *p.choose(&[0, 3, 10]),
        reconnect_ms: *p.choose(&[2_000, 2_000, 8_000, 60_000]),
        has_snapshots: p.chance(2, 3),
        has_quotas: p.chance(1, 3),
        has_full_pool: p.chance(1, 4),
    })
}

/// Special traits of a seed with a file system, or without one.
pub fn traits(shape: Option<FileSystem>) -> [(&'static str, bool); 4] {
    [
        ("a file system", shape.is_some()),
        ("quotas of directories", shape.is_some_and(|shape| shape.has_quotas)),
        ("snapshots of directories", shape.is_some_and(|shape| shape.has_snapshots)),
        ("a full metadata pool", shape.is_some_and(|shape| shape.has_full_pool)),
    ]
}

impl FileSystem {
    /// Where a file has its content, in bytes from its beginning. Bounds of quotas are far smaller, and a
    /// look into a snapshot reads a file from its first byte.
    pub fn start_of(&self, ino: u64) -> u64 {
        let is_far = !self.has_quotas && !self.has_snapshots;
        if is_far { STARTS[ino as usize % STARTS.len()] } else { 0 }
    }
}

/// All paths of files that users use.
pub fn all_files() -> impl Iterator<Item = String> {
    let places = std::iter::once("").chain(DIRECTORIES);
    places.flat_map(|place| (0..NAMES).map(move |name| join(place, name)))
}

/// All directories that users use, with the root.
pub fn all_directories() -> impl Iterator<Item = String> {
    std::iter::once("").chain(DIRECTORIES).map(str::to_owned)
}

/// The path of something in a directory.
pub fn below(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Some directory.
pub fn draw_directory(prng: &mut Prng) -> String {
    place(prng).to_owned()
}

/// Some directory that is not the root.
pub fn draw_subdirectory(prng: &mut Prng) -> String {
    (*prng.choose(&DIRECTORIES)).to_owned()
}

/// A quota of some directory, or none any more.
pub fn draw_quota(p: &mut Prng) -> Call {
    let directory = draw_directory(p);
    let max_files = *p.choose(&[0, 0, 2, 3, 5]);
    let max_bytes = *p.choose(&[0, 0, 0, 64, 300]);
    Call::SetQuota { directory, max_bytes, max_files }
}

/// The directory of a path.
pub fn parent(path: &str) -> String {
    path.rsplit_once('/').map_or(String::new(), |(parent, _)| parent.to_owned())
}

fn place(prng: &mut Prng) -> &'static str {
    match prng.below(3) {
        0 => "",
        number => DIRECTORIES[number as usize - 1],
    }
}

/// Some file.
pub fn draw_file(prng: &mut Prng) -> String {
    let place = place(prng);
    join(place, prng.below(NAMES))
}

fn join(place: &str, name: u64) -> String {
    below(place, &format!("f{name}"))
}
