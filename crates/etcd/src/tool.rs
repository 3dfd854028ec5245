//! Blocking requests to an etcd, one after another.

use crate::client::Client;
use crate::options::EtcdOptions;
use anyhow::{Result, anyhow};
use control::{CommitError, Entry, Revision, Transaction};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// How long commands wait for an etcd that does not answer.
const TOOL_PATIENCE: Duration = Duration::from_secs(10);

/// For commands that ask one thing after the other.
pub struct EtcdTool {
    runtime: Runtime,
    client: Client,
    transactions: u64,
}

impl EtcdTool {
    /// Opens no connection yet.
    ///
    /// # Errors
    ///
    /// If the options contradict each other, or name files that cannot be read.
    pub fn open(options: &EtcdOptions) -> Result<Self> {
        let runtime = runtime()?;
        let client = {
            let _within = runtime.enter();
            Client::new(options, "command", machine::random_u64()?)?
        };
        Ok(EtcdTool { runtime, client, transactions: 0 })
    }

    /// All keys that begin with `prefix`, as of one revision.
    pub fn range(&self, prefix: &str) -> Result<(Vec<Entry>, Revision)> {
        let range = self.client.range(prefix, TOOL_PATIENCE);
        self.runtime.block_on(range).map_err(|status| anyhow!(self.client.reason(&status)))
    }

    /// As [`EtcdTool::try_commit`], for callers to whom all errors are alike.
    pub fn commit(&mut self, transaction: &Transaction) -> Result<Revision> {
        Ok(self.try_commit(transaction)?)
    }

    /// Commits a transaction, durably.
    pub fn try_commit(&mut self, transaction: &Transaction) -> Result<Revision, CommitError> {
        self.transactions += 1;
        let commit = self.client.commit(self.transactions, transaction, TOOL_PATIENCE);
        self.runtime.block_on(commit)
    }

    /// Writes as a monitor does.
    #[cfg(any(test, feature = "testing"))]
    pub fn open_fenced(options: &EtcdOptions) -> Result<Self> {
        let tool = EtcdTool::open(options)?;
        Ok(EtcdTool { client: tool.client.fenced(), ..tool })
    }
}

pub(crate) fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}
