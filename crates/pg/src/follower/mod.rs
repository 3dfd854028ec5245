//! A copy that is not the primary's: it answers the primary, follows its log, and stores its writes.

mod follow;
mod replica;
mod stage;

pub(crate) use follow::{send_info, send_log};
pub(crate) use stage::{Follower, FollowerStage};
