//! `fs subvolume`: a subvolume with its metadata, and the commands to make, list, resize and remove it.
//!
//! A subvolume exists when its metadata is stored, which is the last step of making it; it is gone when its
//! directory is renamed into the trash.

use crate::attributes::{self, Resize, Wanted};
use crate::failure::{During, Failure};
use crate::metadata::{BYTES_MAX, GLOBAL, Metadata};
use crate::order::{Order, Outcome, Printed, unknown};
use crate::tree::{Tree, is_directory};
use crate::{groups, paths, snapshots};
use bytes::Bytes;
use serde_json::{Value, json};
use types::Errno;
use wire::InodeStat;

/// The version of metadata that is written, and the newest that is read.
const VERSION: &str = "2";
/// Permissions of the metadata's file.
const METADATA_MODE: u32 = 0o640;
pub(crate) const COMPLETE: &str = "complete";
pub(crate) const RETAINED: &str = "snapshot-retained";
pub(crate) const PENDING: &str = "pending";
pub(crate) const IN_PROGRESS: &str = "in-progress";
pub(crate) const CANCELED: &str = "canceled";
pub(crate) const FAILED: &str = "failed";
/// The directory of former contents.
const FORMER: &str = ".trash";

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

    fn features(&self) -> Vec<&'static str> {
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

pub(crate) async fn run(all: &Subvolumes<'_>, action: &str) -> Outcome {
    match action {
        "create" => all.create().await,
        "rm" => all.remove().await,
        "ls" => all.list().await,
        "exist" => all.exist().await,
        "getpath" => {
            let subvolume = all.named().await?;
            subvolume.must_be_complete("getpath")?;
            Ok(Printed::text(format!("/{}", subvolume.content())))
        }
        "info" => all.info().await,
        "resize" => {
            let subvolume = all.named().await?;
            subvolume.must_be_complete("resize")?;
            let stat = all.content(&subvolume).await?;
            let resize = Resize::of(all.order)?;
            resize.apply(all.tree, subvolume.content(), &stat, "subvolume").await
        }
        "pin" => {
            let subvolume = all.named().await?;
            subvolume.must_be_complete("pin")?;
            attributes::pin(all.tree, all.order, subvolume.content()).await
        }
        _ => Err(unknown(all.order)),
    }
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
        let directory = paths::subvolume(group, name);
        let path = format!("{directory}/.meta");
        let content = match self.tree.read(&path).await {
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
        groups::directory(self.tree, group).await.or_else(|failure| match group.is_empty() {
            true => Err(Failure::missing(format!("subvolume '{name}' does not exist"))),
            false => Err(failure),
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
        let found = self.tree.find(path).await.during(|| format!("looking at /{path}"))?;
        found.ok_or_else(|| {
            Failure::missing(format!("mount path missing for subvolume '{}'", subvolume.name))
        })
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
        let stored = self.tree.replace(&path, Bytes::from(text), METADATA_MODE).await;
        stored.during(|| format!("writing /{path}"))
    }

    /// The directory of a group, which is made if it is that of subvolumes without one.
    pub(crate) async fn group_for_new(&self, group: &str) -> Result<InodeStat, Failure> {
        if group.is_empty() {
            let path = paths::group("");
            self.tree.mkdirs(&path, 0o755).await.during(|| format!("making /{path}"))?;
        }
        Ok(groups::directory(self.tree, group).await?.1)
    }

    async fn create(&self) -> Outcome {
        let (group, name) = (self.order.text("group_name"), self.order.text("sub_name"));
        let wanted = Wanted::of(self.order)?;
        let parent = self.group_for_new(group).await?;
        match self.find(group, name).await? {
            Some(subvolume) if subvolume.is_retained() => {
                self.make(subvolume, wanted.below(&parent)).await?;
            }
            Some(subvolume) => {
                subvolume.must_be_complete("create")?;
                wanted.apply(self.tree, self.order, subvolume.content(), false).await?;
            }
            None => {
                let (group, name) = (group.to_owned(), name.to_owned());
                let subvolume = Subvolume { group, name, metadata: Metadata::default() };
                self.make(subvolume, wanted.below(&parent)).await?;
            }
        }
        Ok(Printed::none())
    }

    /// Makes a new content, and stores the metadata that names it.
    async fn make(&self, mut subvolume: Subvolume, wanted: Wanted) -> Result<(), Failure> {
        let wanted = wanted.in_namespace(self.namespace());
        let path = self.make_content(&subvolume, wanted.mode()).await?;
        wanted.apply(self.tree, self.order, &path, true).await?;
        self.describe(&mut subvolume, "subvolume", &path, COMPLETE);
        self.store(&subvolume).await
    }

    /// The namespace of the data of an isolated subvolume, which no other one has.
    fn namespace(&self) -> Option<String> {
        let (group, name) = (self.order.text("group_name"), self.order.text("sub_name"));
        let id = self.tree.steps().inputs().ids[0];
        let namespace = match group.is_empty() {
            true => format!("fsvolumens_{name}"),
            false => format!("fsvolumens_{id}"),
        };
        Some(namespace).filter(|_| self.order.flag("namespace_isolated"))
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
            Ok(()) => {}
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

    async fn remove(&self) -> Outcome {
        let is_forced = self.order.flag("force");
        let mut subvolume = match self.named().await {
            Err(Failure { errno: Errno::NOENT, .. }) if is_forced => return Ok(Printed::none()),
            found => found?,
        };
        if subvolume.is_being_cloned() {
            let text = format!(
                "subvolume '{}': clone in-progress -- please cancel the clone and retry",
                subvolume.name
            );
            return Err(Failure::new(Errno::AGAIN, text));
        }
        if [FAILED, CANCELED].contains(&subvolume.state()) && !is_forced {
            return Err(subvolume.must_be_complete("rm").unwrap_err());
        }
        let has_snapshots =
            !snapshots::own_names(self.tree, &subvolume.snapshot_directory()).await?.is_empty();
        let retains = self.order.flag("retain_snapshots");
        match (has_snapshots, retains) {
            (true, true) => self.retain(&mut subvolume).await?,
            (true, false) => {
                let text = format!("subvolume '{}' has snapshots", subvolume.name);
                return Err(Failure::new(Errno::NOTEMPTY, text));
            }
            (false, _) => self.discard(&subvolume).await?,
        }
        Ok(Printed::none())
    }

    /// Moves a subvolume as a whole into the trash.
    pub(crate) async fn discard(&self, subvolume: &Subvolume) -> Result<(), Failure> {
        let step = || format!("moving subvolume '{}' into the trash", subvolume.name);
        self.tree.mkdirs(paths::TRASH, 0o755).await.during(step)?;
        let target = format!("{}/{}", paths::TRASH, self.tree.steps().inputs().ids[1]);
        let users = paths::users_of(&subvolume.group, &subvolume.name);
        match self.tree.unlink(&users).await {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno).during(step),
        }
        self.tree.rename(subvolume.directory(), &target).await.during(step)
    }

    /// Removes the content and retains the snapshots. The content stays within the subvolume, so that its
    /// snapshots are those of where it lies, and a link in the trash leads to it.
    async fn retain(&self, subvolume: &mut Subvolume) -> Result<(), Failure> {
        if subvolume.is_retained() {
            return Ok(());
        }
        let step = || format!("retaining the snapshots of subvolume '{}'", subvolume.name);
        let (content, name) = (subvolume.content().to_owned(), subvolume.content_name().to_owned());
        let former = format!("{}/{FORMER}/{name}", subvolume.directory());
        let parent = format!("{}/{FORMER}", subvolume.directory());
        self.tree.mkdirs(&parent, 0o700).await.during(step)?;
        self.tree.mkdirs(paths::TRASH, 0o755).await.during(step)?;
        let link = format!("{}/{name}", paths::TRASH);
        match self.tree.symlink(&link, format!("/{former}").as_bytes()).await {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno).during(step),
        }
        match self.tree.rename(&content, &former).await {
            // A repeated command, whose former attempt has ended here.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno).during(step),
        }
        subvolume.metadata.set(GLOBAL, "path", "");
        subvolume.set_state(RETAINED);
        self.store(subvolume).await
    }

    async fn list(&self) -> Outcome {
        let names = groups::subvolumes_of(self.tree, self.order.text("group_name")).await?;
        let names: Vec<Value> = names.into_iter().map(|name| json!({ "name": name })).collect();
        Ok(Printed::json(&json!(names)))
    }

    async fn exist(&self) -> Outcome {
        let names = groups::subvolumes_of(self.tree, self.order.text("group_name")).await?;
        let text = if names.is_empty() { "no subvolume exists" } else { "subvolume exists" };
        Ok(Printed::text(text))
    }

    async fn info(&self) -> Outcome {
        let subvolume = self.named().await?;
        let mut info = match subvolume.is_retained() {
            true => json!({}),
            false => {
                let stat = self.content(&subvolume).await?;
                let mut info = attributes::info(self.order, &stat);
                info["path"] = json!(format!("/{}", subvolume.content()));
                info["pool_namespace"] = json!(stat.layout.namespace);
                info
            }
        };
        info["type"] = json!(subvolume.kind());
        info["features"] = json!(subvolume.features());
        info["state"] = json!(subvolume.state());
        Ok(Printed::json(&info))
    }
}
