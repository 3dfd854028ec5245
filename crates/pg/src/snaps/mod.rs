//! Clones of objects, which show their state at snapshots, and the index by which those of a removed
//! snapshot are found.
//!
//! A write that knows of a newer snapshot than the object does makes a *clone* first: the object as it
//! was, under the same name and the number of the newest snapshot. The object's [`SnapSet`], an attribute
//! of the head, lists its clones, the snapshots that each shows, and the data that each shares with the
//! next newer one. If the head is removed while there are clones, a *whiteout* stays in its place: an empty
//! object that clients cannot see.
//!
//! Clones never change. So their version identifies their content, and is kept in the set.
//!
//! Invariant: of each head that a copy stores, the copy's index has all pairs of snapshot and clone.
//! It may have others, of heads that were removed or have changed; users of the index check the head.

mod extents;
mod index;
mod set;

pub use extents::Extents;
pub(crate) use index::{INDEX_PREFIX, index_range};
pub use index::{decode_index_key, index_key, index_keys_of, index_pairs, is_index_key};
pub use set::{At, SNAPSET_ATTR, SnapClone, SnapSet};
