//! Groups and subvolumes as they are stored: their directories and metadata.
//!
//! A subvolume exists when its metadata is stored, which is the last step of making it; it is gone when its
//! directory is renamed into the trash.

use crate::failure::{During, Failure};
use crate::metadata::{BYTES_MAX, GLOBAL, Metadata};
use crate::order::Order;
use crate::paths;
use crate::tree::{Tree, is_directory};
use bytes::Bytes;
use types::Errno;
use wire::InodeStat;

/// The version of metadata that is written, and the newest that is read.
const VERSION: &str = "2";
/// Permissions of the metadata's file.
const METADATA_MODE: u32 = 0o640;
/// Bytes of a name in a directory.
const NAME_MAX: usize = 255;
pub(crate) const COMPLETE: &str = "complete";
pub(crate) const RETAINED: &str = "snapshot-retained";
pub(crate) const PENDING: &str = "pending";
pub(crate) const IN_PROGRESS: &str = "in-progress";
pub(crate) const CANCELED: &str = "canceled";
pub(crate) const FAILED: &str = "failed";

/// Whether a name in a group's directory is no subvolume's.
pub(crate) fn is_internal(name: &str) -> bool {
    name.starts_with('.')
}

/// A subvolume.
#[derive(Debug, Clone)]
pub(crate) struct Subvolume {
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) metadata: Metadata,
}

impl Subvolume {
    /// One that is not stored yet.
    pub(crate) fn new(group: &str, name: &str) -> Result<Self, Failure> {
        // The file of its users is written under this name and renamed.
        let longest = format!("{}.tmp", paths::users_of(group, name));
        if longest.len() - paths::PREFIX.len() - 1 > NAME_MAX {
            let text = format!(
                "the names of subvolume '{name}' and of its group are too long together: choose shorter ones"
            );
            return Err(Failure::new(Errno::NAMETOOLONG, text));
        }
        let (group, name) = (group.to_owned(), name.to_owned());
        Ok(Subvolume { group, name, metadata: Metadata::default() })
    }

    /// The directory with its metadata.
    pub(crate) fn directory(&self) -> String {
        paths::subvolume(&self.group, &self.name)
    }

    pub(crate) fn state(&self) -> &str {
        self.metadata.get(GLOBAL, "state").unwrap_or_default()
    }

    pub(crate) fn kind(&self) -> &str {
        self.metadata.get(GLOBAL, "type").unwrap_or("subvolume")
    }

    fn version(&self) -> &str {
        self.metadata.get(GLOBAL, "version").unwrap_or(VERSION)
    }

    /// The directory with its content, without a slash before it.
    pub(crate) fn content(&self) -> &str {
        self.metadata.get(GLOBAL, "path").unwrap_or_default().trim_start_matches('/')
    }

    /// The failure of what needs a content.
    pub(crate) fn has_no_content(&self) -> Failure {
        Failure::missing(format!("mount path missing for subvolume '{}'", self.name))
    }

    /// Name of the content's directory.
    pub(crate) fn content_name(&self) -> &str {
        self.content().rsplit('/').next().unwrap_or_default()
    }

    /// The directory of which snapshots are taken: that of the whole subvolume since version 2.
    pub(crate) fn snapshot_directory(&self) -> String {
        match self.version() {
            "1" => self.content().to_owned(),
            _ => self.directory(),
        }
    }

    pub(crate) fn is_retained(&self) -> bool {
        self.state() == RETAINED
    }

    /// Whether a copy into it is not complete, and goes on.
    pub(crate) fn is_being_cloned(&self) -> bool {
        [PENDING, IN_PROGRESS].contains(&self.state())
    }

    /// Refuses operations that need the content.
    pub(crate) fn must_be_complete(&self, operation: &str) -> Result<(), Failure> {
        let name = &self.name;
        match self.state() {
            COMPLETE => Ok(()),
            RETAINED => Err(Failure::missing(format!(
                "subvolume '{name}' is removed and has only snapshots retained"
            ))),
            state => Err(Failure::new(
                Errno::AGAIN,
                format!("subvolume '{name}' is not ready for operation {operation}: it is {state}"),
            )),
        }
    }

    pub(crate) fn features(&self) -> Vec<&'static str> {
        let mut features = vec!["snapshot-clone", "snapshot-autoprotect"];
        features.extend((self.version() != "1").then_some("snapshot-retention"));
        features
    }

    pub(crate) fn set_state(&mut self, state: &str) {
        self.metadata.set(GLOBAL, "state", state);
    }
}

/// The subvolumes of a volume, for one order.
#[derive(Debug)]
pub(crate) struct Subvolumes<'a> {
    tree: &'a Tree,
    order: &'a Order,
}

/// Refuses a name that is not a group's.
pub(crate) fn check_group(name: &str) -> Result<(), Failure> {
    if paths::INTERNAL.contains(&name) || name.starts_with('.') || name.starts_with('$') {
        let text = format!("'{name}' is an internal directory and not a valid group name.");
        return Err(Failure::invalid(text));
    }
    Ok(())
}

/// The directory of a group, which must be there. That of subvolumes without a group is made when the first
/// one is.
pub(crate) async fn group_directory(
    tree: &Tree,
    group: &str,
) -> Result<(String, InodeStat), Failure> {
    if !group.is_empty() {
        check_group(group)?;
    }
    let path = paths::group(group);
    match tree.find(&path).await.during(|| format!("looking for /{path}"))? {
        Some(stat) if is_directory(&stat) => Ok((path, stat)),
        _ => Err(Failure::missing(format!("subvolume group '{group}' does not exist"))),
    }
}

/// Names of the subvolumes of a group; none if it is the default one and not there.
pub(crate) async fn subvolumes_of(tree: &Tree, group: &str) -> Result<Vec<String>, Failure> {
    let path = match group_directory(tree, group).await {
        Err(Failure { errno: Errno::NOENT, .. }) if group.is_empty() => return Ok(Vec::new()),
        found => found?.0,
    };
    let entries = tree.list(&path).await.during(|| format!("listing /{path}"))?;
    let mut names: Vec<String> = entries
        .into_iter()
        .filter(|(name, stat)| is_directory(stat) && !is_internal(name))
        .map(|(name, _)| name)
        .collect();
    names.sort();
    Ok(names)
}

impl<'a> Subvolumes<'a> {
    pub(crate) fn new(tree: &'a Tree, order: &'a Order) -> Self {
        Subvolumes { tree, order }
    }

    pub(crate) fn tree(&self) -> &Tree {
        self.tree
    }

    pub(crate) fn order(&self) -> &Order {
        self.order
    }

    /// A subvolume; `None` if it is not there, or was never made to the end.
    pub(crate) async fn find(&self, group: &str, name: &str) -> Result<Option<Subvolume>, Failure> {
        let path = format!("{}/.meta", paths::subvolume(group, name));
        let read = self.tree.read(&path).await;
        self.subvolume(group, name, &path, read)
    }

    /// A subvolume as a snapshot of its directory shows it.
    pub(crate) async fn find_at(
        &self,
        today: &Subvolume,
        snapshot: &str,
    ) -> Result<Option<Subvolume>, Failure> {
        let path = format!("{snapshot}/.meta");
        let read = self.tree.read_snapshot(&path).await;
        self.subvolume(&today.group, &today.name, &path, read)
    }

    /// A subvolume by the file of its metadata.
    fn subvolume(
        &self,
        group: &str,
        name: &str,
        path: &str,
        read: Result<Bytes, Errno>,
    ) -> Result<Option<Subvolume>, Failure> {
        let content = match read {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            read => read.during(|| format!("reading /{path}"))?,
        };
        let text = std::str::from_utf8(&content).ok();
        let metadata = text.and_then(Metadata::parse).ok_or_else(|| {
            let text = format!("/{path} is no metadata of a subvolume: look at it, or restore it");
            Failure::invalid(text)
        })?;
        let version = metadata.get(GLOBAL, "version").unwrap_or(VERSION);
        if !["1", VERSION].contains(&version) {
            let text = format!(
                "subvolume '{name}' has metadata of version {version}; this release knows 1 and {VERSION}"
            );
            return Err(Failure::new(Errno::NOTSUPP, text));
        }
        Ok(Some(Subvolume { group: group.to_owned(), name: name.to_owned(), metadata }))
    }

    /// A subvolume that must be there.
    pub(crate) async fn load(&self, group: &str, name: &str) -> Result<Subvolume, Failure> {
        group_directory(self.tree, group).await.map_err(|failure| match group.is_empty() {
            true => Failure::missing(format!("subvolume '{name}' does not exist")),
            false => failure,
        })?;
        let found = self.find(group, name).await?;
        found.ok_or_else(|| Failure::missing(format!("subvolume '{name}' does not exist")))
    }

    /// The subvolume that the command names.
    pub(crate) async fn named(&self) -> Result<Subvolume, Failure> {
        self.load(self.order.text("group_name"), self.order.text("sub_name")).await
    }

    /// Attributes of a subvolume's content.
    pub(crate) async fn content(&self, subvolume: &Subvolume) -> Result<InodeStat, Failure> {
        let path = subvolume.content();
        if path.is_empty() {
            // An empty path would be the root.
            return Err(subvolume.has_no_content());
        }
        let found = self.tree.find(path).await.during(|| format!("looking at /{path}"))?;
        found.ok_or_else(|| subvolume.has_no_content())
    }

    /// Stores a subvolume's metadata.
    pub(crate) async fn store(&self, subvolume: &Subvolume) -> Result<(), Failure> {
        let path = format!("{}/.meta", subvolume.directory());
        let text = subvolume.metadata.text();
        if text.len() > BYTES_MAX {
            let text =
                format!("/{path} would have more than {BYTES_MAX} bytes: remove some of its keys");
            return Err(Failure::new(Errno::FBIG, text));
        }
        if !subvolume.metadata.is_read_from(&text) {
            let text = format!(
                "/{path} would not be read as it is written: a key or value is not plain text"
            );
            return Err(Failure::invalid(text));
        }
        let stored = self.tree.replace(&path, Bytes::from(text), METADATA_MODE).await;
        stored.during(|| format!("writing /{path}"))
    }

    /// The directory of a group, which is made if it is that of subvolumes without one.
    pub(crate) async fn group_for_new(&self, group: &str) -> Result<InodeStat, Failure> {
        if group.is_empty() {
            let path = paths::group("");
            self.tree.mkdirs(&path, 0o755).await.during(|| format!("making /{path}"))?;
        }
        Ok(group_directory(self.tree, group).await?.1)
    }

    /// Makes the directories of a subvolume and of its content; returns the path of the latter. Contents that
    /// an attempt before has left are removed.
    pub(crate) async fn make_content(
        &self,
        subvolume: &Subvolume,
        mode: u32,
    ) -> Result<String, Failure> {
        let directory = subvolume.directory();
        let step = || format!("making /{directory}");
        match self.tree.mkdir(&directory, 0o755).await {
            Ok(_) => {}
            Err(Errno::EXIST) if subvolume.metadata == Metadata::default() => {
                for (name, stat) in self.tree.list(&directory).await.during(step)? {
                    if is_directory(&stat) {
                        // One with content is not of an attempt.
                        let _ = self.tree.rmdir(format!("{directory}/{name}")).await;
                    }
                }
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno).during(step),
        }
        let path = format!("{directory}/{}", self.tree.steps().inputs().ids[0]);
        self.tree.mkdir(&path, mode).await.during(|| format!("making /{path}"))?;
        Ok(path)
    }

    /// Fills in the facts that each subvolume has.
    pub(crate) fn describe(&self, subvolume: &mut Subvolume, kind: &str, path: &str, state: &str) {
        for (key, value) in [("version", VERSION), ("type", kind)] {
            subvolume.metadata.set(GLOBAL, key, value);
        }
        subvolume.metadata.set(GLOBAL, "path", format!("/{path}"));
        subvolume.set_state(state);
    }

    /// Moves a subvolume as a whole into the trash.
    pub(crate) async fn discard(&self, subvolume: &Subvolume) -> Result<(), Failure> {
        let step = || format!("moving subvolume '{}' into the trash", subvolume.name);
        self.tree.mkdirs(paths::TRASH, 0o755).await.during(step)?;
        let target = format!("{}/{}", paths::TRASH, self.tree.steps().inputs().ids[1]);
        let users = paths::users_of(&subvolume.group, &subvolume.name);
        match self.tree.unlink(&users).await {
            // A file whose name is too long was never made.
            Ok(()) | Err(Errno::NOENT | Errno::NAMETOOLONG) => {}
            Err(errno) => return Err(errno).during(step),
        }
        self.tree.rename(subvolume.directory(), &target).await.during(step)
    }
}
