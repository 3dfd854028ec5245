//! The use of quotas, as clients know it.

use engine::{Duration, Time};
use namespace::{Ino, Statistics};
use std::collections::{BTreeMap, BTreeSet};
use wire::QuotaInfo;

/// Clients are told of changes of others at most so often.
const INTERVAL: Duration = Duration::from_secs(1);

/// Bytes and entries that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Use {
    bytes: u64,
    entries: u64,
}

impl Use {
    /// Clients count a directory among its own entries.
    fn of(sum: &Statistics) -> Self {
        Use { bytes: sum.bytes, entries: sum.files.saturating_add(sum.directories) }
    }
}

/// Quotas of which the use has changed, and the use that clients were told.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    /// The use that each client was told last, by directory and client.
    told: BTreeMap<(Ino, u64), Use>,
    /// Directories of which the use has changed, and not all clients may know.
    changed: BTreeSet<Ino>,
    /// Those of them that have changed since the last look.
    fresh: BTreeSet<Ino>,
    /// Directories with little left, below which no client creates asynchronously.
    near: BTreeSet<Ino>,
    /// When all clients are told next.
    due: Time,
}

impl Quotas {
    /// The use of directories has changed.
    pub fn note(&mut self, directories: impl IntoIterator<Item = Ino>) {
        for directory in directories {
            self.changed.insert(directory);
            self.fresh.insert(directory);
        }
    }

    /// Directories of which the use has changed since this was asked last.
    pub fn take_fresh(&mut self) -> BTreeSet<Ino> {
        std::mem::take(&mut self.fresh)
    }

    /// Little is left of a directory's quota, or not; returns whether it has just become so.
    pub fn set_near(&mut self, ino: Ino, is_near: bool) -> bool {
        match is_near {
            true => self.near.insert(ino),
            false => {
                self.near.remove(&ino);
                false
            }
        }
    }

    /// Forgets directories that are gone.
    pub fn retain_near(&mut self, exists: impl Fn(Ino) -> bool) {
        self.near.retain(|ino| exists(*ino));
    }

    /// Clients may create asynchronously below these directories again, whatever is left.
    pub fn forget_near(&mut self, directories: impl IntoIterator<Item = Ino>) {
        for ino in directories {
            self.near.remove(&ino);
        }
    }

    /// Whether nothing has changed since all clients were told.
    pub fn is_told(&self) -> bool {
        self.changed.is_empty()
    }

    /// Directories of which the use has changed.
    pub fn changed(&self) -> BTreeSet<Ino> {
        self.changed.clone()
    }

    /// Whether all clients are told now.
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.due
    }

    /// When all clients are told next, if anything has changed.
    pub fn poll_timeout(&self) -> Option<Time> {
        (!self.changed.is_empty()).then_some(self.due)
    }

    /// All clients know what they must; those that hold a directory no more need not.
    pub fn all_told(&mut self, now: Time, is_holder: impl Fn(Ino, u64) -> bool) {
        self.due = now + INTERVAL;
        self.changed.clear();
        self.told.retain(|(ino, client), _| is_holder(*ino, *client));
    }

    /// A client is told the use of a directory.
    pub fn told(&mut self, ino: Ino, client: u64, sum: &Statistics) {
        self.told.insert((ino, client), Use::of(sum));
    }

    /// Whether a client must know the use of a directory.
    pub fn is_news(&self, ino: Ino, client: u64, quota: &QuotaInfo, sum: &Statistics) -> bool {
        is_news(quota, self.told.get(&(ino, client)).copied(), Use::of(sum))
    }
}

/// Entries before the end of a quota from which on clients ask before they create.
const NEAR_ENTRIES: u64 = 1024;

/// Whether a sixteenth of a quota is left, or 1,024 entries.
pub(crate) fn is_near(quota: &QuotaInfo, sum: &Statistics) -> bool {
    let used = Use::of(sum);
    let (files, bytes) = (quota.max_files, quota.max_bytes);
    let files_left = files.saturating_sub(used.entries);
    files > 0 && files_left <= (files >> 4).max(NEAR_ENTRIES)
        || bytes > 0 && bytes.saturating_sub(used.bytes) <= bytes >> 4
}

/// Whether a sixteenth of the rest is used up, or nearly nothing is left.
fn is_news(quota: &QuotaInfo, told: Option<Use>, now: Use) -> bool {
    let Some(told) = told else { return true };
    let is_much = |bound: u64, told: u64, now: u64| bound.abs_diff(told) >> 4 < now.abs_diff(told);
    let (files, bytes) = (quota.max_files, quota.max_bytes);
    let files_matter =
        files > 0 && (now.entries >= files || is_much(files, told.entries, now.entries));
    let is_nearly_full = now.bytes > bytes - (bytes >> 3);
    let bytes_matter = bytes > 0 && (is_nearly_full || is_much(bytes, told.bytes, now.bytes));
    told != now && (files_matter || bytes_matter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_left_of_a_quota_since_now_once() {
        let mut quotas = Quotas::default();
        let seen = [true, true, false, true].map(|is_near| quotas.set_near(Ino(7), is_near));
        assert_eq!(seen, [true, false, false, true]);
        quotas.forget_near([Ino(7)]);
        assert!(quotas.set_near(Ino(7), true), "a directory may have come below it");
        quotas.note([Ino(7)]);
        assert_eq!((quotas.take_fresh().len(), quotas.take_fresh().len()), (1, 0));
        assert_eq!(quotas.changed().len(), 1);
    }

    #[test]
    fn clients_are_told_when_a_sixteenth_of_the_rest_is_used() {
        let quota = QuotaInfo { max_bytes: 1 << 20, max_files: 0 };
        let used = |bytes| Use { bytes, entries: 1 };
        assert!(is_news(&quota, None, used(0)), "nothing is known");
        assert!(!is_news(&quota, Some(used(0)), used(1 << 16)));
        assert!(is_news(&quota, Some(used(0)), used((1 << 16) + 1)));
        assert!(!is_news(&quota, Some(used(1 << 19)), used((1 << 19) + (1 << 15))));
        assert!(is_news(&quota, Some(used(1 << 19)), used((1 << 19) + (1 << 15) + 1)));
        let last = (1 << 20) - (1 << 17);
        assert!(is_news(&quota, Some(used(last)), used(last + 1)), "nearly full");
        assert!(!is_news(&quota, Some(used(last + 1)), used(last + 1)), "known");
        let files = QuotaInfo { max_bytes: 0, max_files: 5 };
        let entries = |entries| Use { bytes: 0, entries };
        assert!(is_news(&files, Some(entries(3)), entries(4)));
        assert!(is_news(&files, Some(entries(5)), entries(6)));
    }
}
