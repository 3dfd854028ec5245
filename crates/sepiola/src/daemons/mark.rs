//! The mark of how far a monitor has seen its control store go, in the monitor's own directory.
//!
//! It is written, durably, before the monitor hears of what it marks, so no map is told to anybody that a
//! store which is restored later could make again unnoticed. A mark that cannot be written holds nothing up:
//! then OSDs that hold newer maps are what shows that a store went back.

use access::DataDir;
use anyhow::{Context, Result};
use control::{Completion, Observer, Request};
use machine::write_file;
use mon::{HighWater, HighWaterGauge};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const MODE: u32 = 0o600;

/// Loads the high-water marks of earlier runs. An unreadable file counts as empty and is replaced by the next
/// write.
pub fn load(dir: &DataDir) -> Result<HighWater> {
    let path = dir.high_water();
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HighWater::default()),
        read => read.with_context(|| format!("reading {}", path.display()))?,
    };
    let mark = serde_json::from_str(&text);
    Ok(mark.unwrap_or_else(|error| {
        tracing::error!(path = %path.display(), %error, "the mark of the control store is unreadable");
        HighWater::default()
    }))
}

/// Keeps the mark up with what goes between a monitor and its store.
#[derive(Debug)]
pub struct MarkKeeper {
    path: PathBuf,
    gauge: HighWaterGauge,
    /// The last write failed, and that was told.
    is_behind: bool,
}

impl MarkKeeper {
    /// Continues from the mark of earlier runs.
    pub fn new(dir: &DataDir) -> Result<Self> {
        let gauge = HighWaterGauge::new(load(dir)?);
        Ok(MarkKeeper { path: dir.high_water(), gauge, is_behind: false })
    }

    fn write(&self) -> Result<()> {
        write_file(&self.path, &serde_json::to_string(self.gauge.mark())?, MODE)?;
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.with_context(|| format!("making {} durable", self.path.display()))
    }
}

impl Observer for MarkKeeper {
    fn observe_request(&mut self, request: &Request) {
        self.gauge.asked(request);
    }

    fn observe_completion(&mut self, completion: &Completion) {
        let is_raised = self.gauge.told(completion);
        if !is_raised && !self.is_behind {
            return;
        }
        match self.write() {
            Ok(()) => self.is_behind = false,
            Err(error) if !self.is_behind => {
                let error = format!("{error:#}");
                tracing::error!(error, "a control store that is restored later may go unnoticed");
                self.is_behind = true;
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use control::Event;

    fn map(epoch: u32) -> Completion {
        let key = format!("osdmap/full/{epoch:010}");
        let event = Event { key, value: Some(Bytes::from_static(b"map")), revision: 1 };
        Completion::Changed { events: vec![event] }
    }

    fn directory(name: &str) -> DataDir {
        let path = std::env::temp_dir().join(format!("sepiola-{name}-{}", std::process::id()));
        let dir = DataDir::new(&path);
        dir.create().unwrap();
        dir
    }

    #[test]
    fn the_mark_is_there_when_the_monitor_hears_and_in_the_next_run() {
        let dir = directory("mark");
        assert_eq!(load(&dir).unwrap(), HighWater::default());
        let mut keeper = MarkKeeper::new(&dir).unwrap();
        keeper.observe_completion(&map(7));
        let kept = load(&dir).unwrap();
        assert_eq!(&kept, keeper.gauge.mark());
        assert_ne!(kept, HighWater::default());
        // The next run begins with it, and an older map does not lower it.
        let mut next = MarkKeeper::new(&dir).unwrap();
        next.observe_completion(&map(5));
        assert_eq!(load(&dir).unwrap(), kept);
        fs::write(dir.high_water(), "{").unwrap();
        assert_eq!(load(&dir).unwrap(), HighWater::default());
        fs::remove_dir_all(dir.path()).unwrap();
    }

    #[test]
    fn a_mark_that_could_not_be_written_is_written_later() {
        let dir = directory("mark-late");
        let mut keeper = MarkKeeper::new(&dir).unwrap();
        // The temporary file cannot be created.
        let obstacle = dir.high_water().with_extension("new");
        fs::create_dir(&obstacle).unwrap();
        keeper.observe_completion(&map(7));
        assert_eq!(load(&dir).unwrap(), HighWater::default());
        fs::remove_dir(&obstacle).unwrap();
        keeper.observe_completion(&Completion::Missed);
        assert_eq!(&load(&dir).unwrap(), keeper.gauge.mark());
        fs::remove_dir_all(dir.path()).unwrap();
    }
}
