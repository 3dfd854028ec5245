//! Queries of a map, and edits that `crushtool` cannot make.

use crush::{
    AddRuleError, ClassError, CrushMap, ITEM_NONE, InsertError, Location, Op, Profile, RemoveError,
    RenameError, RuleKind, SimpleRule, TreeView, weight::WEIGHT_ONE,
};

fn location(text: &str) -> Location {
    Location::parse(text.split_whitespace()).unwrap()
}

/// Hosts a, b and c with two devices each; even devices are ssd, odd ones hdd.
fn cluster() -> CrushMap {
    let mut map = CrushMap::new();
    for device in 0..6 {
        let host = ["a", "b", "c"][device as usize / 2];
        let place = location(&format!("root=default host={host}"));
        map.insert_item(device, WEIGHT_ONE, &format!("osd.{device}"), &place).unwrap();
        map.set_device_class(device, if device % 2 == 0 { "ssd" } else { "hdd" }).unwrap();
    }
    map
}

fn rule<'a>(name: &'a str, kind: RuleKind, class: Option<&'a str>) -> SimpleRule<'a> {
    SimpleRule { name, root: "default", failure_domain: "host", class, kind }
}

/// `parent/child:weight` for each line of the tree.
fn lines(map: &CrushMap, view: &TreeView) -> Vec<String> {
    let name = |item| map.item_name(item).unwrap_or("?");
    let line = |item: &crush::TreeItem| {
        let parent = item.parent.map_or("", name);
        format!("{parent}/{}:{}", name(item.id), item.weight / WEIGHT_ONE)
    };
    view.items(map, |_| true).iter().map(line).collect()
}

#[test]
fn a_new_map_has_cephs_types_and_optimal_tunables() {
    let map = CrushMap::new();
    assert_eq!(map.tunables.profile(), Some(Profile::Jewel));
    assert_eq!(
        (map.type_id("osd"), map.type_id("host"), map.type_id("root")),
        (Some(0), Some(1), Some(11))
    );
    assert_eq!(map.max_devices(), 0);
    assert_eq!(crush::requirements::minimum_required_version(&map), "jewel");
    assert!(TreeView::default().items(&map, |_| true).is_empty());
}

#[test]
fn the_tree_lists_siblings_by_class_and_name() {
    let map = cluster();
    let host = |name: &str, hdd, ssd| {
        [format!("default/{name}:2"), format!("{name}/osd.{hdd}:1"), format!("{name}/osd.{ssd}:1")]
    };
    let expected = [
        vec!["/default:6".to_string()],
        host("a", 1, 0).into(),
        host("b", 3, 2).into(),
        host("c", 5, 4).into(),
    ];
    assert_eq!(lines(&map, &TreeView::default()), expected.concat());
    let root = map.item_id("default");
    let items = TreeView { root, ..TreeView::default() }.items(&map, |device| device == 3);
    assert_eq!(items.iter().map(|item| item.depth).collect::<Vec<_>>(), [0, 1, 1, 2, 1]);
    let hidden =
        TreeView { hide_empty: true, ..TreeView::default() }.items(&map, |device| device == 3);
    assert_eq!(hidden.len(), 3);
    let with_shadows = lines(&map, &TreeView { shadows: true, ..TreeView::default() });
    assert!(with_shadows.contains(&"b~ssd/osd.2:1".to_string()), "{with_shadows:?}");
}

#[test]
fn lookups_agree_with_the_tree() {
    let map = cluster();
    let host = map.item_id("b").unwrap();
    assert_eq!(map.parent(2), Some(host));
    let pair = |type_name: &str, name: &str| (type_name.to_string(), name.to_string());
    assert_eq!(map.full_location(2), [pair("host", "b"), pair("root", "default")]);
    assert_eq!(map.ancestor_of_type(2, 11), map.item_id("default"));
    assert_eq!(map.devices_below(host).into_iter().collect::<Vec<_>>(), [2, 3]);
    assert!(map.subtree_contains(host, 3) && !map.subtree_contains(host, 4));
    assert_eq!(map.item_weight(host), Some(2 * WEIGHT_ONE));
    assert_eq!(map.visible_roots().into_iter().collect::<Vec<_>>(), [-1 - 1]);
    assert_eq!(map.devices_of_class("ssd").into_iter().collect::<Vec<_>>(), [0, 2, 4]);
}

#[test]
fn rules_with_a_class_choose_only_from_it() {
    let mut map = cluster();
    let ssd = map.add_simple_rule(&rule("fast", RuleKind::Replicated, Some("ssd"))).unwrap();
    let erasure = map.add_simple_rule(&rule("ec", RuleKind::Erasure, None)).unwrap();
    let weights = [WEIGHT_ONE; 6];
    for x in 0..50 {
        let mut devices = map.do_rule(ssd, x, 3, &weights, None);
        devices.sort();
        assert_eq!(devices, [0, 2, 4]);
        let shards = map.do_rule(erasure, x, 4, &weights, None);
        assert_eq!(shards.len(), 4);
        assert_eq!(shards.iter().filter(|&&shard| shard == ITEM_NONE).count(), 1, "three hosts");
    }
    let ops: Vec<Op> = map.rule(erasure).unwrap().steps.iter().map(|step| step.op).collect();
    let expected =
        [Op::SET_CHOOSELEAF_TRIES, Op::SET_CHOOSE_TRIES, Op::TAKE, Op::CHOOSELEAF_INDEP, Op::EMIT];
    assert_eq!(ops, expected);
}

#[test]
fn shadows_keep_their_ids_over_changes_of_the_tree() {
    let mut map = cluster();
    let fast = map.add_simple_rule(&rule("fast", RuleKind::Replicated, Some("ssd"))).unwrap();
    let start = map.rule(fast).unwrap().takes().next().unwrap();
    map.insert_item(6, WEIGHT_ONE, "osd.6", &location("root=default rack=r host=d")).unwrap();
    map.set_device_class(6, "ssd").unwrap();
    map.move_bucket(map.item_id("a").unwrap(), &location("root=default rack=r")).unwrap();
    map.rename_bucket("default", "main").unwrap();
    assert_eq!(map.item_name(start), Some("main~ssd"));
    assert_eq!(map.devices_below(start).into_iter().collect::<Vec<_>>(), [0, 2, 4, 6]);
    for device in [0, 2, 4, 6] {
        map.remove_device_class(device).unwrap();
    }
    assert_eq!(map.item_name(start), Some("main~ssd"), "the rule keeps the class alive");
    map.remove_rule(fast);
    assert_eq!(map.item_name(start), None);
}

#[test]
fn a_linked_bucket_lives_in_two_places_until_it_is_unlinked() {
    let mut map = cluster();
    let host = map.item_id("a").unwrap();
    let other = map.add_bucket("other", 11).unwrap();
    map.link_bucket(host, &location("root=other")).unwrap();
    assert_eq!(map.item_weight(other), Some(2 * WEIGHT_ONE));
    map.set_item_weight(0, 3 * WEIGHT_ONE).unwrap();
    assert_eq!(map.item_weight(other), Some(4 * WEIGHT_ONE));
    map.unlink_item_under(host, other).unwrap();
    assert_eq!(map.item_weight(other), Some(0));
    assert_eq!(map.item_weight(host), Some(4 * WEIGHT_ONE));
    map.remove_item(other).unwrap();
    assert_eq!(map.item_id("other"), None);
}

#[test]
fn a_failed_edit_names_its_cause_and_changes_nothing() {
    let mut map = cluster();
    map.add_simple_rule(&rule("plain", RuleKind::Replicated, None)).unwrap();
    let before = map.clone();
    let (root, host) = (map.item_id("default").unwrap(), map.item_id("a").unwrap());

    let error = map.insert_item(9, WEIGHT_ONE, "osd.9", &location("host=default")).unwrap_err();
    assert!(matches!(error, InsertError::WrongType { .. }), "{error}");
    let error = map.insert_item(9, WEIGHT_ONE, "osd.9", &location("planet=earth")).unwrap_err();
    assert!(matches!(error, InsertError::NoBucket { .. }), "{error}");
    let error = map.insert_item(9, WEIGHT_ONE, "osd.0", &location("root=default")).unwrap_err();
    assert_eq!(error, InsertError::NameTaken { name: "osd.0".into(), holder: 0 });
    let error = map.link_bucket(host, &location("root=default")).unwrap_err();
    assert_eq!(error, InsertError::AlreadyBelow { item: host, bucket: root });
    let error = map.move_bucket(root, &location("host=a")).unwrap_err();
    assert_eq!(error, InsertError::Loop { item: root, bucket: host });
    assert_eq!(map.remove_item(host), Err(RemoveError::NotEmpty { bucket: host, items: 2 }));
    assert_eq!(map.remove_item(77), Err(RemoveError::NoSuchItem { item: 77 }));
    let other = ClassError::OtherClass { device: 0, class: "ssd".into() };
    assert_eq!(map.set_device_class(0, "hdd"), Err(other));
    let error = map.rename_bucket("osd.0", "x").unwrap_err();
    assert_eq!(error, RenameError::NotABucket { name: "osd.0".into() });
    let error = map.add_simple_rule(&rule("new", RuleKind::Erasure, Some("tape"))).unwrap_err();
    assert_eq!(error, AddRuleError::NoSuchClass { class: "tape".into() });
    assert!(map.set_item_weight(0, u32::MAX).is_err());
    assert_eq!(map, before);
}

#[test]
fn a_root_that_a_rule_starts_from_stays() {
    let mut map = CrushMap::new();
    let root = map.add_bucket("default", 11).unwrap();
    map.add_simple_rule(&rule("plain", RuleKind::Replicated, None)).unwrap();
    assert_eq!(map.remove_item(root), Err(RemoveError::InUse { bucket: root }));
    assert!(map.remove_rule(0));
    assert_eq!(map.remove_item(root), Ok(()));
}
