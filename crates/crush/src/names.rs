//! Names of numbered things, in both directions.

use std::collections::BTreeMap;

/// An id → name map with its reverse. Decoded maps may give two ids one name; the reverse
/// then leads to the highest of them, as in Ceph.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    by_id: BTreeMap<i32, String>,
    by_name: BTreeMap<String, i32>,
}

impl Names {
    /// Name of an id.
    pub fn name(&self, id: i32) -> Option<&str> {
        self.by_id.get(&id).map(String::as_str)
    }

    /// Id of a name; the highest one if several ids have it.
    pub fn id(&self, name: &str) -> Option<i32> {
        self.by_name.get(name).copied()
    }

    /// Number of ids that have names.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// All ids with their names, by rising id.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (i32, &str)> {
        self.by_id.iter().map(|(&id, name)| (id, name.as_str()))
    }

    /// The highest id that has a name.
    pub fn id_max(&self) -> Option<i32> {
        self.by_id.last_key_value().map(|(&id, _)| id)
    }

    /// Gives an id a name in place of its former one.
    pub fn set(&mut self, id: i32, name: impl Into<String>) {
        let name = name.into();
        self.remove(id);
        self.by_id.insert(id, name.clone());
        let holder = self.by_name.entry(name).or_insert(id);
        *holder = id.max(*holder);
    }

    /// Removes the name of an id.
    pub fn remove(&mut self, id: i32) {
        let Some(name) = self.by_id.remove(&id) else { return };
        if self.by_name.get(&name) == Some(&id) {
            self.by_name.remove(&name);
            self.restore_duplicate(name);
        }
    }

    fn restore_duplicate(&mut self, name: String) {
        // Without duplicates both directions have the same size, and there is nothing to search.
        if self.by_id.len() == self.by_name.len() {
            return;
        }
        if let Some(id) = self.by_id.iter().rev().find(|(_, other)| **other == name) {
            self.by_name.insert(name, *id.0);
        }
    }
}

/// The reverse direction follows from the forward one.
impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.by_id == other.by_id
    }
}

impl Eq for Names {}

impl FromIterator<(i32, String)> for Names {
    fn from_iter<I: IntoIterator<Item = (i32, String)>>(pairs: I) -> Self {
        let mut names = Names::default();
        pairs.into_iter().for_each(|(id, name)| names.set(id, name));
        names
    }
}

/// True if `name` may name an item or a type. Names of shadow buckets contain a character that is not
/// allowed.
pub fn is_valid_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_name_leads_to_the_highest_id_that_still_has_it() {
        let mut names: Names =
            [(1, "a".into()), (3, "a".into()), (2, "a".into())].into_iter().collect();
        assert_eq!(names.id("a"), Some(3));
        names.remove(3);
        assert_eq!(names.id("a"), Some(2));
        names.set(2, "b");
        assert_eq!((names.id("a"), names.id("b")), (Some(1), Some(2)));
        names.remove(1);
        assert_eq!(names.id("a"), None);
    }
}
