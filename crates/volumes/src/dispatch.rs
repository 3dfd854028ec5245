//! Execution of an order: the procedure, by the words of the command.

use crate::catalog::Subvolumes;
use crate::failure::Failure;
use crate::fence::{Lock, Part};
use crate::order::{Order, Outcome, unknown};
use crate::procedure::{Inputs, Procedure, Steps};
use crate::tree::Tree;
use crate::{access, clones, earmarks, groups, snapshots, subvolumes, users, volume};

/// Last words of commands that change nothing.
const READING: [&str; 7] = ["authorized_list", "exist", "get", "getpath", "info", "ls", "status"];

impl Order {
    /// The procedure that carries it out. Its outcome comes when all changes are durable.
    pub fn procedure(self, inputs: Inputs) -> Procedure<Outcome> {
        Procedure::new(inputs, move |steps| self.run(steps))
    }

    async fn run(self, steps: Steps) -> Outcome {
        steps.lock().await;
        let tree = Tree::new(steps);
        // Metadata is replaced as a whole, so reading it needs no lock.
        let lock = match self.changes() {
            true => Some(Lock::take(&tree, Part::Metadata).await?),
            false => None,
        };
        let printed = self.dispatch(&tree).await;
        // Also after a failure: an answer such as "it does not exist" must not be forgotten by a crash.
        let synced = tree.sync().await;
        if let Some(lock) = lock {
            lock.release(&tree).await;
        }
        let printed = printed?;
        synced.map_err(|errno| {
            let text = "the change was made, and may not be stored: repeat the command";
            Failure::new(errno, text)
        })?;
        Ok(printed)
    }

    /// Whether the command may change something.
    fn changes(&self) -> bool {
        let action = self.prefix.rsplit(' ').next().unwrap_or_default();
        !READING.contains(&action)
    }

    async fn dispatch(&self, tree: &Tree) -> Outcome {
        let words = self.prefix.strip_prefix("fs ").unwrap_or_default();
        let (family, action) = words.split_once(' ').unwrap_or((words, ""));
        let subvolumes = Subvolumes::new(tree, self);
        match family {
            "volume" => volume::run(tree, self).await,
            "subvolumegroup" => Box::pin(groups::run(tree, self, action)).await,
            "clone" => Box::pin(clones::run(&subvolumes, action)).await,
            "subvolume" => match action {
                "authorize" | "deauthorize" | "authorized_list" | "evict" => {
                    Box::pin(access::run(&subvolumes, action)).await
                }
                _ if action.starts_with("snapshot ") => {
                    Box::pin(snapshots::run(&subvolumes, action)).await
                }
                _ if action.starts_with("earmark ") => {
                    let action = action.strip_prefix("earmark ").unwrap_or_default();
                    Box::pin(earmarks::run(&subvolumes, action)).await
                }
                _ if action.starts_with("metadata ") => {
                    Box::pin(users::run(&subvolumes, action)).await
                }
                _ => Box::pin(subvolumes::run(&subvolumes, action)).await,
            },
            _ => Err(unknown(self)),
        }
    }
}
