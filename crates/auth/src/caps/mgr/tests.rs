//! Manager capabilities that Ceph accepts and refuses, and the requests that they allow.

use super::*;

fn arguments(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn asks(caps: &str, module: &str, command: &str, pairs: &[(&str, &str)], letters: &str) -> bool {
    MgrCaps::parse(caps).unwrap().allows(&MgrAccess {
        service: "mgr",
        module,
        command,
        arguments: &arguments(pairs),
        needed: Rwx::from_letters(letters),
        peer: "10.1.2.3".parse().ok(),
    })
}

#[test]
fn valid_text_is_accepted() {
    for text in [
        "allow *",
        "allow rwx",
        " allow  r ",
        "allow service=foo x, allow command \"a b\"",
        "allow command bar with k1=v1 k2 prefix v2",
        "allow module bar with k1 = v1 k2=v2 rw; allow module baz *",
        "profile rbd pool=rbd namespace prefix a",
        "allow profile rbd-read-only network 10.0.0.0/8",
        "profile osd, profile mds, profile crash, profile read-only",
    ] {
        MgrCaps::parse(text).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn invalid_text_is_refused() {
    for text in
        ["", "allow", "allow module foo", "allow command foo x", "allow r w", "module foo r"]
    {
        assert!(MgrCaps::parse(text).is_err(), "{text}");
    }
    let error = |text: &str| MgrCaps::parse(text).unwrap_err().to_string();
    assert!(error("profile rdb").ends_with("unrecognized profile 'rdb'"));
    assert!(error("profile rbd size=1").ends_with("'rbd' does not recognize key 'size'"));
}

#[test]
fn grants_are_confined_to_their_subject() {
    assert!(asks("allow *", "any", "any", &[], "rwx"));
    assert!(asks("allow r, allow w", "any", "any", &[], "rw"));
    assert!(asks("allow service mgr r", "", "", &[], "r"));
    assert!(!asks("allow service osd r", "", "", &[], "r"));
    assert!(asks("allow command \"pg dump\"", "", "pg dump", &[], "rwx"));
    assert!(!asks("allow command \"pg dump\" with a=b", "", "pg dump", &[], "r"));
    assert!(asks("profile crash", "", "crash post", &[], "rw"));
    assert!(!asks("profile osd", "", "pg dump", &[], "r"));
    assert!(!asks("allow * network 11.0.0.0/8", "", "", &[], "r"));
}

#[test]
fn a_module_judges_the_arguments_of_its_commands_itself() {
    let caps = "profile rbd pool=images";
    assert!(asks(caps, "rbd_support", "rbd task list", &[], "rw"));
    assert!(asks(caps, "rbd_support", "", &[("pool", "images")], "rw"));
    assert!(!asks(caps, "rbd_support", "", &[("pool", "other")], "r"));
    assert!(!asks(caps, "telemetry", "", &[("pool", "images")], "r"));
    assert!(!asks("profile rbd-read-only", "rbd_support", "", &[], "w"));
}
