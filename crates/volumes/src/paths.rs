//! Paths of volumes, as Ceph lays them out.
//!
//! ```text
//! volumes/GROUP/                       a group; `_nogroup` is that of subvolumes without one
//! volumes/GROUP/NAME/.meta             metadata of a subvolume
//! volumes/GROUP/NAME/UUID/             its content
//! volumes/GROUP/NAME/.trash/UUID/      a former content, whose snapshots are retained
//! volumes/_GROUP:NAME.meta             entities that may use a subvolume
//! volumes/$ID.meta                     subvolumes that an entity may use
//! volumes/_deleting/UUID               a subvolume that is being deleted, or a link to a former content
//! volumes/_index/clone/UUID            a link to a clone whose copy is not complete
//! volumes/_index/lock                  locks of workers (not of Ceph)
//! ```

/// The directory of all.
pub(crate) const PREFIX: &str = "volumes";
/// The group of subvolumes without one.
pub(crate) const NO_GROUP: &str = "_nogroup";
/// The trash.
pub(crate) const TRASH: &str = "volumes/_deleting";
/// The directory of lists.
pub(crate) const INDEX: &str = "volumes/_index";
/// The file of locks.
pub(crate) const LOCK: &str = "volumes/_index/lock";
/// Clones whose copies are not complete.
pub(crate) const CLONES: &str = "volumes/_index/clone";
/// Names below the prefix that are no groups.
pub(crate) const INTERNAL: [&str; 3] = [NO_GROUP, "_index", "_deleting"];

/// The directory of a group.
pub(crate) fn group(group: &str) -> String {
    format!("{PREFIX}/{}", if group.is_empty() { NO_GROUP } else { group })
}

/// The directory of a subvolume.
pub(crate) fn subvolume(group_name: &str, name: &str) -> String {
    format!("{}/{name}", group(group_name))
}

/// The file of entities that may use a subvolume.
pub(crate) fn users_of(group: &str, name: &str) -> String {
    format!("{PREFIX}/_{group}:{name}.meta")
}

/// The file of subvolumes that an entity may use.
pub(crate) fn used_by(id: &str) -> String {
    format!("{PREFIX}/${id}.meta")
}

/// Group and name of the subvolume with a path that begins with a slash.
pub(crate) fn parse(path: &str) -> Option<(String, String)> {
    let mut parts = path.trim_start_matches('/').split('/');
    let (prefix, group, name) = (parts.next()?, parts.next()?, parts.next()?);
    if prefix != PREFIX || name.is_empty() {
        return None;
    }
    let group = if group == NO_GROUP { "" } else { group };
    Some((group.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_ceph() {
        assert_eq!(subvolume("", "a"), "volumes/_nogroup/a");
        assert_eq!(subvolume("csi", "a"), "volumes/csi/a");
        assert_eq!(users_of("", "a"), "volumes/_:a.meta");
        assert_eq!(used_by("x"), "volumes/$x.meta");
        assert_eq!(parse("/volumes/_nogroup/a"), Some((String::new(), "a".to_owned())));
        assert_eq!(parse("/volumes/csi/a/uuid"), Some(("csi".to_owned(), "a".to_owned())));
        assert_eq!(parse("/other/csi/a"), None);
    }
}
