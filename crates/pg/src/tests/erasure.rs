//! Groups with shards: members at positions, and what they have of an object.

mod copies;
mod crashes;
mod drops;
mod gaps;
mod parted;
mod peering;
mod rebuilds;
mod rules;
mod split;
mod writes;
