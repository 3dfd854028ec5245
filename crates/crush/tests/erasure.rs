//! Rules of erasure code profiles, compared with those that a monitor of Ceph 20.2.4 made.
//!
//! `golden/erasure-tentacle.map` has twelve hosts in four racks, and one rule for each profile in [`RULES`].
//! `mappings.rs` compares what the rules choose.

use codec::decode_all;
use crush::{AddRuleError, CrushMap, ErasureRule, RuleType, requirements};
use types::features;

const MAP: &[u8] = include_bytes!("golden/erasure-tentacle.map");

/// Name, failure domain, class, domains, devices in each.
type Profile = (&'static str, &'static str, Option<&'static str>, u16, u16);

const RULES: [Profile; 7] = [
    ("e42", "host", None, 0, 0),
    ("e83", "host", None, 0, 0),
    ("e83osd", "osd", Some("ssd"), 0, 0),
    ("limited", "host", None, 8, 0),
    ("msr42", "host", None, 3, 2),
    ("msr83", "rack", None, 4, 3),
    ("msrssd", "host", Some("ssd"), 6, 2),
];

fn wanted(
    (name, failure_domain, class, domains, devices_per_domain): Profile,
) -> ErasureRule<'static> {
    ErasureRule { name, root: "default", failure_domain, class, domains, devices_per_domain }
}

#[test]
fn rules_of_profiles_are_those_of_cephs_monitor() {
    let cephs: CrushMap = decode_all("crush map", MAP).unwrap();
    for profile in RULES {
        let mut ours = cephs.clone();
        let id = ours.rule_id(profile.0).unwrap();
        assert!(ours.remove_rule(id));
        assert_eq!(ours.add_erasure_rule(&wanted(profile)), Ok(id));
        assert_eq!(ours.rule(id).map(|rule| &rule.steps), cephs.rule(id).map(|rule| &rule.steps));
        assert_eq!(ours.rule(id), cephs.rule(id), "{profile:?}");
    }
}

#[test]
fn several_devices_in_a_domain_need_clients_that_know_such_rules() {
    let mut map: CrushMap = decode_all("crush map", MAP).unwrap();
    assert_eq!(requirements::minimum_required_version(&map), "squid");
    for (id, name) in [(5, "msr42"), (6, "msr83"), (7, "msrssd")] {
        assert_eq!(map.rule(id).unwrap().rule_type, RuleType::MSR_INDEP);
        assert_eq!(map.rule_id(name), Some(id));
        assert!(map.remove_rule(id));
    }
    assert_eq!(requirements::minimum_required_version(&map), "jewel");
    let requires = |map: &CrushMap| requirements::required_features(map) & features::CRUSH_MSR;
    assert_ne!(requires(&map), features::CRUSH_MSR);
}

#[test]
fn a_rule_that_names_unknown_things_is_refused() {
    let mut map: CrushMap = decode_all("crush map", MAP).unwrap();
    let one = ErasureRule { name: "new", ..wanted(RULES[4]) };
    let refused = |map: &mut CrushMap, rule| map.add_erasure_rule(&rule).unwrap_err();
    let root = refused(&mut map, ErasureRule { root: "nowhere", ..one });
    assert_eq!(root, AddRuleError::NoSuchRoot { root: "nowhere".into() });
    let domain = refused(&mut map, ErasureRule { failure_domain: "shelf", ..one });
    assert_eq!(domain, AddRuleError::NoSuchType { failure_domain: "shelf".into() });
    let class = refused(&mut map, ErasureRule { class: Some("nvme"), ..one });
    assert_eq!(class, AddRuleError::NoSuchClass { class: "nvme".into() });
    let name = refused(&mut map, ErasureRule { name: "e42", ..one });
    assert_eq!(name, AddRuleError::NameTaken { name: "e42".into() });
}
