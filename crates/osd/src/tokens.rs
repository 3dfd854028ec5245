//! The context of each request to the store, by which its completion finds its place.

use crate::execute::Need;
use crate::operations::keys::ObjectKey;
use pg::Tag;
use pg::scrub::{MemberTag, RoundTag};
use types::{HObject, PgShard};

/// A request to the store that is not complete, with the context that its completion needs.
#[derive(Debug)]
pub(crate) enum Token {
    Collections,
    Group {
        pg: PgShard,
        serial: u64,
        tag: Tag,
        /// Bytes that it adds, if it is a commit.
        bytes: u64,
    },
    /// The state of an object, for its context.
    State {
        object: ObjectKey,
    },
    /// A part of the state that a request needs.
    Need {
        request: u64,
        attempt: u32,
        need: Need,
    },
    /// A page of names for a listing.
    Listing {
        request: u64,
        attempt: u32,
    },
    /// Metadata of a listed head, which may be a whiteout.
    Listed {
        request: u64,
        attempt: u32,
        object: HObject,
    },
    /// A page of the index of clones, for a removed snapshot.
    Trim {
        pg: PgShard,
        generation: u64,
    },
    Usage,
    MapLoaded,
    MapStored,
    /// A block of a benchmark, of so many bytes; zero for the final removal of its objects.
    Bench {
        bytes: u64,
    },
    Scrub {
        pg: PgShard,
        serial: u64,
        tag: ScrubTag,
    },
}

/// The purpose of a scrub's request to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScrubTag {
    LoadStamps,
    StoreStamps,
    StoreIndex,
    Round(u64, RoundTag),
    Member(MemberTag),
}

impl Token {
    /// Bytes that the request adds to the store.
    pub fn commit_bytes(&self) -> u64 {
        match self {
            Token::Group { bytes, .. } | Token::Bench { bytes } => *bytes,
            _ => 0,
        }
    }

    /// Whether a failure of the device takes the OSD out of service: a failed write, or a failed
    /// read of metadata.
    pub fn is_vital(&self) -> bool {
        match self {
            Token::Group { tag, .. } => {
                use pg::Tag::{Index, Load, ScanObject, ScanPage};
                tag.is_commit() || matches!(tag, Load | Index | ScanPage(_) | ScanObject(..))
            }
            Token::Collections | Token::MapStored | Token::Bench { .. } | Token::Usage => true,
            Token::State { .. } | Token::Need { need: Need::Clone(_), .. } => true,
            Token::Need { .. }
            | Token::Listing { .. }
            | Token::Listed { .. }
            | Token::Trim { .. }
            | Token::MapLoaded
            | Token::Scrub { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pg::Tag;

    #[test]
    fn a_failed_listing_takes_the_osd_out_of_service_and_damaged_data_does_not() {
        let pg = PgShard::default();
        for (tag, is_vital) in [
            (Tag::ScanPage(1), true),
            (Tag::ScanObject(1, 0), true),
            (Tag::Load, true),
            (Tag::Progress, true),
            (Tag::Source(1), false),
        ] {
            let token = Token::Group { pg, serial: 1, tag, bytes: 0 };
            assert_eq!(token.is_vital(), is_vital, "{tag:?}");
        }
    }
}
