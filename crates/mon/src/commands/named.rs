//! Arguments that name pools and OSDs.

use crate::command::{Context, Refusal};
use types::{OsdId, PoolId};

/// Resolves the argument that names a pool; `ENOENT` if there is none of that name.
pub(super) fn pool_named(context: &Context<'_>, argument: &str) -> Result<PoolId, Refusal> {
    let name = context.arguments.text(argument);
    let id = context.state.osdmap.pool_id(name);
    id.ok_or_else(|| Refusal::missing(format!("unrecognized pool '{name}'")))
}

/// Resolves the argument that lists pools; `ENOENT` if one of them does not exist.
pub(super) fn pools_listed(context: &Context<'_>, argument: &str) -> Result<Vec<PoolId>, Refusal> {
    let id = |name: &String| {
        let id = context.state.osdmap.pool_id(name);
        id.ok_or_else(|| Refusal::missing(format!("unrecognized pool '{name}'")))
    };
    context.arguments.list(argument).iter().map(id).collect()
}

/// Parses a list of OSDs: `3`, `osd.3`, and `all` or `any` for the result of `or_all`.
pub(super) fn osds_listed(
    items: &[String],
    or_all: impl FnOnce() -> Vec<OsdId>,
) -> Result<Vec<OsdId>, Refusal> {
    if items.iter().any(|item| matches!(item.as_str(), "all" | "any" | "*")) {
        return Ok(or_all());
    }
    let parse = |item: &String| {
        let digits = item.strip_prefix("osd.").unwrap_or(item);
        let number: Option<i32> = digits.parse().ok().filter(|number| *number >= 0);
        number.map(OsdId).ok_or_else(|| {
            Refusal::invalid(format!("unable to parse osd id \"{item}\", expected osd.3 or 3"))
        })
    };
    items.iter().map(parse).collect()
}
