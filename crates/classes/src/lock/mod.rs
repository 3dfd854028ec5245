//! Class `lock`: advisory locks kept in attributes of an object (`cls_lock`).
//!
//! A lock has a name and lives in the attribute `lock.<name>` as a `lock_info_t`. Its holders
//! ("lockers") are told apart by client and cookie. Locks may expire; expired lockers are dropped
//! whenever the lock is read. An ephemeral lock takes the object with it when it is released.

mod methods;
mod values;

pub(crate) use methods::CLASS;

#[cfg(test)]
mod tests;
