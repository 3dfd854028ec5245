//! Transactions in flight, and how far they have stored the present interval.

/// The copy's transactions in the store.
#[derive(Debug, Default)]
pub(crate) struct StoreQueue {
    /// Transactions that the store has not completed, including the due one of `is_store_due`.
    pub commits_pending: usize,
    /// Set if the interval must be stored ([`crate::Pg::store_interval`]).
    pub is_store_due: bool,
    /// Whether the store has the present interval and the past ones.
    pub interval: IntervalStored,
}

/// How far the present interval and the past ones are in the store. The OSD stores no map before they are:
/// see [`crate::Pg::has_stored_interval`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IntervalStored {
    #[default]
    Durable,
    /// With the transaction of this number.
    OnWay(u64),
    /// In memory only: the copy could not store them, or not yet.
    No,
}

impl StoreQueue {
    /// A transaction was not stored, and those after it may not be.
    pub fn note_failed(&mut self) {
        if let IntervalStored::OnWay(_) = self.interval {
            self.interval = IntervalStored::No;
        }
    }
}
