//! Capabilities at OSDs that capabilities of an entity at a metadata server need.

use crate::attributes::DataPlace;
use crate::catalog::Subvolumes;
use crate::failure::{During, Failure};
use crate::paths;

/// Level and path of a capability at a server.
pub(crate) fn level_and_path(part: &str) -> (&str, &str) {
    let mut words = part.split_whitespace().skip(1);
    let level = words.next().unwrap_or_default();
    let path = words.find_map(|word| word.strip_prefix("path=")).unwrap_or_default();
    (level, path.trim_matches('"'))
}

/// A capability at a server, and what it needs at OSDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) level: String,
    /// The pool, which it needs as a whole; `None` if it may be any.
    pub(crate) pool: Option<String>,
}

impl Need {
    /// Needs of capabilities at a server. One for a path into a namespace needs no pool as a whole.
    pub(crate) async fn of<'a>(
        all: &Subvolumes<'_>,
        mds: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<Need>, Failure> {
        let mut needs = Vec::new();
        for part in mds {
            let place = place_of(all, part).await?;
            let needs_whole = place.as_ref().is_none_or(|place| place.namespace.is_empty());
            let (level, pool) = (level_and_path(part).0.to_owned(), place.map(|place| place.pool));
            needs.extend(needs_whole.then_some(Need { level, pool }));
        }
        Ok(needs)
    }
}

/// The place of the data that a capability at a server is for. It is not known of paths that are not those of
/// subvolumes, where directories have layouts of their own, or that lead nowhere today.
async fn place_of(all: &Subvolumes<'_>, mds: &str) -> Result<Option<DataPlace>, Failure> {
    let path = level_and_path(mds).1.trim_matches('/');
    if paths::parse(path).is_none() {
        return Ok(None);
    }
    match all.tree().find(path).await.during(|| format!("looking at /{path}"))? {
        Some(stat) => Ok(Some(DataPlace::of(all.tree(), all.order(), path, &stat).await?)),
        None => Ok(None),
    }
}

/// The pool that a capability at OSDs names.
fn pool_in(osd: &str) -> Option<&str> {
    osd.split_whitespace().find_map(|word| word.strip_prefix("pool="))
}

/// Whether a capability at OSDs may be needed by others at a server. A namespace belongs to one subvolume,
/// but a pool as a whole to many. Levels that are not given here may need any.
pub(crate) fn is_needed(osd: &str, needs: &[Need]) -> bool {
    let level = level_and_path(osd).0;
    let is_level = |other: &str| other == level || !["r", "rw"].contains(&other);
    let is_pool = |pool: &Option<String>| pool.is_none() || pool.as_deref() == pool_in(osd);
    !osd.contains(" namespace=")
        && needs.iter().any(|need| is_level(&need.level) && is_pool(&need.pool))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(level: &str, pool: Option<&str>) -> Need {
        Need { level: level.to_owned(), pool: pool.map(str::to_owned) }
    }

    #[test]
    fn a_pool_is_needed_by_those_whose_data_is_there_and_a_namespace_by_its_subvolume_alone() {
        assert!(is_needed("allow rw pool=x", &[need("rw", None)]));
        assert!(is_needed("allow rw pool=x", &[need("*", None)]));
        assert!(!is_needed("allow rw pool=x", &[need("r", None)]));
        assert!(!is_needed("allow rw pool=x namespace=n", &[need("rw", None)]));
        assert!(is_needed("allow rw pool=x", &[need("rw", Some("y")), need("rw", Some("x"))]));
        assert!(!is_needed("allow rw pool=x", &[need("rw", Some("y"))]));
    }
}
