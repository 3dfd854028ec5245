//! OSD capabilities that Ceph accepts and refuses, and the requests that they allow.

use super::*;

const GOOD: &[&str] = &[
    "allow *",
    "allow all",
    "allow r",
    "allow rwx",
    "allow r pool foo ",
    "allow r pool=foo",
    "allow pool foo r",
    "allow wx pool taco object_prefix with_underscores",
    "allow pool taco object_prefix obj wx",
    "allow rwx pool 'two words'",
    "allow rwx pool \"it's quoted\"",
    "allow rwx pool a.b-c, allow r pool d",
    "allow rwx pool a ;allow r pool b; allow w",
    "allow class-read",
    "allow class-read class-write",
    "allow rw class-write pool foo",
    "allow pool images class rbd foo",
    "allow class name \"method with 'marks\"",
    " \tallow\nrwx\tpool \n taco\t",
    "allow class-read object_prefix rbd_children, allow pool vms rwx",
    "allow pool a namespace n rwx, allow pool b namespace=m r",
    "allow pool a namespace=n* rwx",
    "allow pool a namespace=\"\" rwx; allow pool b namespace '' object_prefix c r",
    "allow rwx namespace=n tag cephfs data=fs",
    "allow rwx namespace n tag cephfs data =fs network 127.0.0.1/8",
    "allow rwx tag app key  =   value",
    "allow all tag app all=all",
    "allow * tag app *=*",
    "profile rbd",
    "profile abc, profile=abc pool=b, profile abc pool b namespace=c",
    "profile rbd network 127.0.0.1/8",
    "allow rwx network ::1/128",
    "allow rwx network [ff::1]/128",
    "allow pool foo rwx network 1.2.3.4/24",
];

/// Invalid text with the offset that the error reports.
const BAD: &[(&str, &str)] = &[
    ("", ""),
    ("r", "r"),
    ("ALLOW r", "ALLOW r"),
    ("allow", ""),
    ("allow*", "*"),
    ("allow r poolfoo", "foo"),
    ("allow r w", "w"),
    ("allow rwx x", "x"),
    ("allow rwx,", ""),
    ("allow r pool foo r", "r"),
    ("allow wwx pool taco", "wx pool taco"),
    ("allow rwx pool 'open", "'open"),
    ("allow rwx pool ''", "''"),
    ("allow rwx object_prefix a pool b", "pool b"),
    ("allow rwx auid 123", "auid 123"),
    ("allow rwx pool foo,, allow r", ", allow r"),
    (";allow rwx", ";allow rwx"),
    ("allow rwx namespace", ""),
    ("allow namespace=foo", ""),
    ("allow rwx namespace=f*oo", "oo"),
    ("allow rwx tag app key value", "value"),
    ("allow profile rbd", "profile rbd"),
];

#[test]
fn valid_text_is_accepted() {
    for text in GOOD {
        OsdCaps::parse(text).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn invalid_text_is_refused_where_it_goes_wrong() {
    for (text, expected) in BAD {
        let error = OsdCaps::parse(text).unwrap_err();
        let CapsError::Syntax { rest, .. } = &error else { panic!("{error}") };
        assert_eq!(rest, expected, "{error}");
    }
}

#[test]
fn errors_name_the_position_and_the_expected_word() {
    assert_eq!(
        OsdCaps::parse("allow r pool foo r").unwrap_err().to_string(),
        "osd capability parse failed, stopped at 'r' of 'allow r pool foo r': expected ',' or the end"
    );
}

fn try_access(caps: &str, change: impl FnOnce(&mut OsdAccess<'_>)) -> bool {
    let applications = BTreeMap::from([
        ("cephfs".to_owned(), BTreeMap::from([("data".to_owned(), "fs_a".to_owned())])),
        ("rbd".to_owned(), BTreeMap::new()),
    ]);
    let mut access = OsdAccess {
        pool_name: "pool",
        applications: &applications,
        namespace: "",
        object: "object",
        may_read: false,
        may_write: false,
        classes: &[],
        peer: Some("10.1.2.3".parse().unwrap()),
    };
    change(&mut access);
    OsdCaps::parse(caps).unwrap().allows(&access)
}

fn reads(caps: &str) -> bool {
    try_access(caps, |access| access.may_read = true)
}

fn writes(caps: &str) -> bool {
    try_access(caps, |access| access.may_write = true)
}

const LISTED: ClassCall<'_> = ClassCall {
    class: "lock",
    method: "get_info",
    reads: true,
    writes: false,
    allowed_by_default: true,
};

fn calls(caps: &str, calls: &[ClassCall<'_>]) -> bool {
    OsdCaps::parse(caps).unwrap().allows(&OsdAccess {
        pool_name: "pool",
        applications: &BTreeMap::new(),
        namespace: "",
        object: "rbd_header.1",
        may_read: false,
        may_write: false,
        classes: calls,
        peer: None,
    })
}

#[test]
fn only_the_star_allows_all() {
    assert!(OsdCaps::parse("allow *").unwrap().allows_all());
    assert!(OsdCaps::parse("allow r, allow *").unwrap().allows_all());
    assert!(OsdCaps::allow_all().allows_all());
    for text in ["allow rwx", "allow * pool a", "allow * namespace=''", "allow * network ::/0"] {
        assert!(!OsdCaps::parse(text).unwrap().allows_all(), "{text}");
    }
    assert!(!OsdCaps::default().allows_all());
}

#[test]
fn permissions_of_one_grant_must_suffice() {
    assert!(reads("allow r") && !writes("allow r"));
    assert!(writes("allow w") && !reads("allow w"));
    assert!(!reads("allow x") && !writes("allow class-read"));
    let both = |access: &mut OsdAccess<'_>| (access.may_read, access.may_write) = (true, true);
    assert!(try_access("allow rw", both));
    assert!(!try_access("allow r, allow w", both));
    assert!(try_access("allow r", |_| ()));
    assert!(!try_access("allow r pool other", |_| ()));
}

#[test]
fn grants_are_confined_to_their_objects() {
    assert!(reads("allow r pool pool") && !reads("allow r pool poo"));
    assert!(reads("allow r object_prefix obj") && !reads("allow r object_prefix bj"));
    assert!(reads("allow r pool x, allow r pool pool object_prefix object"));
    assert!(!reads("allow r pool pool object_prefix objects"));
}

#[test]
fn namespaces_match_whole_or_by_prefix() {
    let in_namespace = |caps: &str, namespace: &str| {
        OsdCaps::parse(caps).unwrap().allows(&OsdAccess {
            pool_name: "pool",
            applications: &BTreeMap::new(),
            namespace,
            object: "object",
            may_read: true,
            may_write: false,
            classes: &[],
            peer: None,
        })
    };
    assert!(in_namespace("allow r", "any") && in_namespace("allow r", ""));
    assert!(in_namespace("allow r namespace=a", "a"));
    assert!(!in_namespace("allow r namespace=a", "ab") && !in_namespace("allow r namespace=a", ""));
    assert!(
        in_namespace("allow r namespace=a*", "ab") && in_namespace("allow r namespace=a*", "a")
    );
    assert!(!in_namespace("allow r namespace=a*", "ba"));
    assert!(
        in_namespace("allow r namespace=\"\"", "") && !in_namespace("allow r namespace=''", "a")
    );
    assert!(in_namespace("profile rbd pool=pool namespace=n", "n"));
    assert!(!in_namespace("profile rbd pool=pool namespace=n", "m"));
}

#[test]
fn tags_select_pools_by_application_metadata() {
    assert!(reads("allow r tag cephfs data=fs_a"));
    assert!(!reads("allow r tag cephfs data=fs_b"));
    assert!(reads("allow r tag cephfs data=*") && !reads("allow r tag cephfs metadata=*"));
    assert!(reads("allow r tag cephfs *=fs_a") && !reads("allow r tag cephfs *=fs_b"));
    assert!(reads("allow r tag rbd *=*") && !reads("allow r tag rgw *=*"));
}

#[test]
fn networks_confine_grants() {
    assert!(reads("allow r network 10.0.0.0/8"));
    assert!(!reads("allow r network 11.0.0.0/8"));
    assert!(!reads("allow * network 11.0.0.0/8"));
    assert!(reads("profile rbd network 10.1.2.0/24"));
    assert!(!reads("profile rbd network 10.1.3.0/24"));
    assert!(!try_access("allow r network 10.0.0.0/8", |access| access.peer = None));
}

#[test]
fn classes_on_the_list_need_execute_others_their_name() {
    let unlisted = ClassCall { class: "own", allowed_by_default: false, ..LISTED };
    let writing = ClassCall { writes: true, ..LISTED };
    assert!(calls("allow x", &[LISTED, writing]));
    assert!(calls("allow class-read", &[LISTED]) && !calls("allow class-read", &[writing]));
    assert!(!calls("allow rwx", &[unlisted]));
    assert!(calls("allow *", &[unlisted]) && calls("allow * pool pool", &[unlisted]));
    assert!(calls("allow class own", &[unlisted]));
    assert!(calls("allow class own get_info", &[unlisted]));
    assert!(!calls("allow class own set_info", &[unlisted]));
    assert!(!calls("allow rw", &[LISTED]));
    // Several grants may each contribute class calls.
    assert!(calls("allow class own, allow class-read", &[unlisted, LISTED]));
    assert!(!calls("allow class own, allow r", &[unlisted, LISTED]));
}

#[test]
fn rbd_profiles_allow_all_that_images_need() {
    let call = |method| ClassCall { class: "rbd", method, ..LISTED };
    let attach = ClassCall { writes: true, ..call("child_attach") };
    let create = ClassCall { writes: true, ..call("create") };
    assert!(calls("profile rbd pool=pool", &[create]));
    assert!(!calls("profile rbd pool=other", &[create]));
    assert!(calls("profile rbd-read-only pool=pool", &[call("get_size")]));
    assert!(!calls("profile rbd-read-only pool=pool", &[create]));
    assert!(calls("profile rbd-read-only pool=pool", &[attach]));
    assert!(reads("profile rbd pool=pool") && writes("profile rbd"));
    assert!(reads("profile rbd-read-only") && !writes("profile rbd-read-only"));
    let elsewhere = |caps: &str, object: &'static str| {
        try_access(caps, |access| (access.object, access.may_read) = (object, true))
    };
    assert!(elsewhere("profile rbd pool=other", "rbd_info"));
    assert!(!elsewhere("profile rbd pool=other", "rbd_directory"));
    assert!(reads("profile read-only") && !writes("profile read-only"));
    assert!(writes("profile read-write") && !reads("profile unheard-of"));
}

#[test]
fn a_ticket_without_text_grants_nothing() {
    let nothing = OsdCaps::granted(&AuthCaps::default()).unwrap();
    assert_eq!(nothing, OsdCaps::default());
    let all = AuthCaps { allow_all: true, text: String::new() };
    assert!(OsdCaps::granted(&all).unwrap().allows_all());
    assert!(OsdCaps::granted(&AuthCaps::new("allow *")).unwrap().allows_all());
    assert!(OsdCaps::granted(&AuthCaps::new("allow everything")).is_err());
}
