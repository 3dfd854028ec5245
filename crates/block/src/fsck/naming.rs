//! Names of the objects in findings, from a last walk over the onodes.

use super::finding::Findings;
use super::owners::Owners;
use crate::keys::{self, Key};
use crate::object::Onode;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use store::{Collection, HeldChange};
use types::HObject;

pub(crate) struct Naming<'a> {
    owners: &'a Owners,
    /// Ids to be named; bounded by the number of findings kept.
    wanted: BTreeSet<u64>,
    names: BTreeMap<u64, (Option<Collection>, HObject)>,
    held: BTreeMap<u64, (Option<Collection>, HeldChange)>,
}

impl<'a> Naming<'a> {
    /// Collects the ids of the objects that findings are about.
    pub fn new(findings: &mut Findings, owners: &'a Owners) -> Self {
        let wanted = findings.subjects_mut().map(|subject| subject.id).collect();
        Naming { owners, wanted, names: BTreeMap::new(), held: BTreeMap::new() }
    }

    /// Set if there is an id to look up; otherwise the walk can be saved.
    pub fn is_needed(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Notes the name if the pair is an onode with a wanted id.
    pub fn visit(&mut self, key: &Bytes, value: &Bytes) {
        if let Ok((collection, held, id)) = keys::read_held(key)
            && self.wanted.contains(&id)
        {
            let collection = self.owners.get(collection, held.reversed_hash()).flatten();
            self.held.insert(id, (collection, held));
        }
        if !keys::prefix_range(b"O").contains(key) {
            return;
        }
        let (Ok(Key::Object { collection, object }), Ok(onode)) =
            (Key::read(key), Onode::decode(value))
        else {
            return;
        };
        if self.wanted.contains(&onode.id) {
            let collection = self.owners.get(collection, object.reversed_hash()).flatten();
            self.names.insert(onode.id, (collection, object));
        }
    }

    /// Writes the names found into the findings.
    pub fn finish(self, findings: &mut Findings) {
        for subject in findings.subjects_mut() {
            if let Some((collection, object)) = self.names.get(&subject.id) {
                (subject.collection, subject.object) = (*collection, Some(object.clone()));
            } else if let Some((collection, held)) = self.held.get(&subject.id) {
                (subject.collection, subject.held) = (*collection, Some(*held));
            }
        }
    }
}
