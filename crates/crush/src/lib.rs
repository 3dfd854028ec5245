//! CRUSH: from a placement group's number to the devices that hold it.
//!
//! A [`CrushMap`] is a forest of weighted buckets over devices, with rules that say how to walk
//! it. [`CrushMap::do_rule`] is a pure function that every client and daemon computes alike; one
//! different bit and a client sends requests to the wrong device. The crate also carries Ceph's encoding of
//! the map (`CrushWrapper`) and the edits that a monitor makes to it.
//!
//! Invariants of every map that was decoded or edited here:
//! * A bucket's children exist, the buckets are free of cycles, and no walk from a root passes
//!   more than [`TREE_DEPTH_MAX`] levels.
//! * The bucket in slot `i` has id `-1 - i`; devices have ids from zero.
//! * Weights of a bucket, and the replacement weights in choose args, are as many as its items.
//! * A failed edit changes nothing.
//!
//! It deliberately does not know pools, placement groups, upmaps, or whether a device is up.

#![warn(missing_docs)]

mod bucket;
mod choose_args;
mod decode;
mod edit;
mod encode;
pub mod hash;
mod invariants;
mod location;
mod logarithm;
mod map;
mod mapper;
mod names;
pub mod requirements;
mod rule;
mod straw;
mod tree;
mod tunables;
mod validate;
pub mod weight;

pub use bucket::{Algorithm, Bucket, BucketError};
pub use choose_args::{ChooseArg, ChooseArgMap, DEFAULT_CHOOSE_ARGS};
pub use edit::{
    AddRuleError, ClassError, ErasureRule, InsertError, RemoveError, RenameError, RuleKind,
    SimpleRule, SwapError, WeightError,
};
pub use location::{Location, ParseLocationError};
pub use logarithm::crush_ln;
pub use map::CrushMap;
pub use mapper::Workspace;
pub use names::is_valid_name;
pub use rule::{Op, RULES_MAX, Rule, RuleType, Step};
pub use tree::{TreeItem, TreeView};
pub use tunables::{Profile, Tunables};
pub use validate::{TREE_DEPTH_MAX, TREE_NODES_MAX, TreeError};

/// A position for which no device was found (`CRUSH_ITEM_NONE`).
pub const ITEM_NONE: i32 = 0x7fff_ffff;

/// The type of devices, the leaves of every tree.
pub const TYPE_DEVICE: u16 = 0;
