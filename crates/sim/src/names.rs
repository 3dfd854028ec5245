//! Names and numbers of monitors and pools, which are the same in all scenarios.

use types::PoolId;

/// Names of the monitors, by rank.
pub const MON_NAMES: [&str; 3] = ["a", "b", "c"];
/// The pool that clients use.
pub const POOL: &str = "data";
/// Id of [`POOL`], which is the first pool.
pub const POOL_ID: PoolId = PoolId(1);
/// The replicated pool beside an erasure-coded [`POOL`].
pub const BESIDE: &str = "beside";
/// Id of [`BESIDE`], which is the second pool.
pub const BESIDE_ID: PoolId = PoolId(2);
/// The erasure-coded pool beside [`POOL`] whose objects are only appended to.
pub const APPENDED: &str = "appended";
/// Exists in scenarios with a quota, which it exceeds.
pub const QUOTA_POOL: &str = "quota";
/// Number of objects in [`QUOTA_POOL`].
pub const QUOTA_OBJECTS: usize = 3;
/// The autoscaler sets its number of groups.
pub const SCALED_POOL: &str = "scaled";
