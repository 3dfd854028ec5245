//! `fs subvolume`: the commands to make, list, resize and remove a subvolume.

use crate::attributes::{self, DataPlace, Resize, Wanted};
use crate::catalog::{CANCELED, COMPLETE, FAILED, RETAINED, Subvolume, Subvolumes, subvolumes_of};
use crate::earmarks;
use crate::failure::{During, Failure};
use crate::listing::own_names;
use crate::metadata::GLOBAL;
use crate::order::{Outcome, Printed, unknown};
use crate::paths;
use serde_json::{Value, json};
use types::Errno;

/// The directory of former contents.
const FORMER: &str = ".trash";

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
            let resize = Resize::of(all.order())?;
            resize.apply(all.tree(), subvolume.content(), &stat, "subvolume").await
        }
        "pin" => {
            let subvolume = all.named().await?;
            subvolume.must_be_complete("pin")?;
            attributes::pin(all.tree(), all.order(), subvolume.content()).await
        }
        _ => Err(unknown(all.order())),
    }
}

impl Subvolumes<'_> {
    async fn create(&self) -> Outcome {
        let (group, name) = (self.order().text("group_name"), self.order().text("sub_name"));
        let wanted = Wanted::of(self.order())?;
        earmarks::check(self.order().text("earmark"))?;
        let parent = self.group_for_new(group).await?;
        match self.find(group, name).await? {
            Some(subvolume) if subvolume.is_retained() => {
                self.make(subvolume, wanted.below(&parent)).await?;
            }
            Some(subvolume) => {
                subvolume.must_be_complete("create")?;
                wanted.apply(self.tree(), self.order(), subvolume.content(), false).await?;
                earmarks::give(self, subvolume.content()).await?;
            }
            None => {
                self.make(Subvolume::new(group, name)?, wanted.below(&parent)).await?;
            }
        }
        Ok(Printed::none())
    }

    /// Makes a new content, and stores the metadata that names it.
    async fn make(&self, mut subvolume: Subvolume, wanted: Wanted) -> Result<(), Failure> {
        let wanted = wanted.in_namespace(self.namespace());
        let path = self.make_content(&subvolume, wanted.mode()).await?;
        wanted.apply(self.tree(), self.order(), &path, true).await?;
        earmarks::give(self, &path).await?;
        self.describe(&mut subvolume, "subvolume", &path, COMPLETE);
        self.store(&subvolume).await
    }

    /// The namespace of the data of an isolated subvolume, which no other one has.
    fn namespace(&self) -> Option<String> {
        let (group, name) = (self.order().text("group_name"), self.order().text("sub_name"));
        let id = self.tree().steps().inputs().ids[0];
        let namespace = match group.is_empty() {
            true => format!("fsvolumens_{name}"),
            false => format!("fsvolumens_{id}"),
        };
        Some(namespace).filter(|_| self.order().flag("namespace_isolated"))
    }

    async fn remove(&self) -> Outcome {
        let is_forced = self.order().flag("force");
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
            !own_names(self.tree(), &subvolume.snapshot_directory()).await?.is_empty();
        let retains = self.order().flag("retain_snapshots");
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
        self.tree().mkdirs(&parent, 0o700).await.during(step)?;
        self.tree().mkdirs(paths::TRASH, 0o755).await.during(step)?;
        let link = format!("{}/{name}", paths::TRASH);
        match self.tree().symlink(&link, format!("/{former}").as_bytes()).await {
            Ok(_) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno).during(step),
        }
        match self.tree().rename(&content, &former).await {
            // A repeated command, whose former attempt has ended here.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno).during(step),
        }
        subvolume.metadata.set(GLOBAL, "path", "");
        subvolume.set_state(RETAINED);
        self.store(subvolume).await
    }

    async fn list(&self) -> Outcome {
        let names = subvolumes_of(self.tree(), self.order().text("group_name")).await?;
        let names: Vec<Value> = names.into_iter().map(|name| json!({ "name": name })).collect();
        Ok(Printed::json(&json!(names)))
    }

    async fn exist(&self) -> Outcome {
        let names = subvolumes_of(self.tree(), self.order().text("group_name")).await?;
        let text = if names.is_empty() { "no subvolume exists" } else { "subvolume exists" };
        Ok(Printed::text(text))
    }

    async fn info(&self) -> Outcome {
        let subvolume = self.named().await?;
        let mut info = match subvolume.is_retained() {
            true => json!({}),
            false => {
                let stat = self.content(&subvolume).await?;
                let (tree, path) = (self.tree(), subvolume.content());
                let place = DataPlace::of(tree, self.order(), path, &stat).await?;
                let mut info = attributes::info(self.order(), &stat, &place);
                info["path"] = json!(format!("/{path}"));
                info["pool_namespace"] = json!(place.namespace);
                info["earmark"] = json!(earmarks::of(&stat)?);
                info
            }
        };
        info["type"] = json!(subvolume.kind());
        info["features"] = json!(subvolume.features());
        info["state"] = json!(subvolume.state());
        Ok(Printed::json(&info))
    }
}
