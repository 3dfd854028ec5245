//! Transfers of objects between copies: reads for other members, and pieces that are stored here.
//!
//! They serve whatever the role of this copy wants with them. What a transfer came to is returned, and the
//! role goes on with it.

mod changed;
mod jobs;
mod receive;
mod source;

pub(crate) use changed::{base_read, receive_rows};
pub(crate) use jobs::{Ended, Receiver, Transfers};
pub(crate) use receive::{
    is_what_is_needed, overwrite_missing, piece_refused, receive, stored_piece,
};
pub(crate) use source::{
    handle_list, push_piece, scan, scan_object, scan_page, settled, source_read,
};
