//! Monitor capabilities that Ceph accepts and refuses, and the requests that they allow.

use super::*;

const GOOD: &[&str] = &[
    "allow *",
    "allow all",
    "allow  r",
    " allow\t   rwx ",
    "\tallow\nrwx\t",
    "allow r fsname=a",
    "allow service=foo x",
    "allow service=\"froo\" x",
    "allow service foo  w , allow service bar x",
    "allow service \" foo \" w;allow service foo-bar r",
    "allow profile osd",
    "allow profile \"mds-bootstrap\", allow *",
    "profile osd, profile 'any name'",
    "allow command \"a b c\"",
    "allow command abc with arg=foo arg2=bar",
    "allow command abc with arg=foo arg2 prefix \"bar bingo\" arg3 regex \"^[0-9a-z.]*$\"",
    "allow command abc with arg regex \"(invalid regex\"",
    "allow command abc.def with arg=\"baz.xx\", allow service foo r",
    "allow * network 1.2.3.4/24",
    "allow * network [aa:bb::1]/128",
    "allow service=foo x network 1.2.3.4/16",
    "allow command abc network 1.2.3.4/8",
    "allow profile mon network 1.2.3.4/32",
];

const BAD: &[&str] = &[
    "",
    "allow",
    "allow*",
    "allow r foo",
    "foo allow *",
    "allow profile",
    "allow profile foo rwx",
    "allow profile foo bar rwx",
    "allow service bar",
    "allow command baz x",
    "allow r w",
    "ALLOW r",
    "allow rwx,",
    "allow rwx x",
    "allow r pool foo r",
    "allow wwx",
    "allow command foo a prefix b",
    "allow command foo with a prefixb",
    "allow command foo with a = prefix b",
    "allow command foo with a prefix b c",
];

#[test]
fn valid_text_is_accepted_and_invalid_text_refused() {
    for text in GOOD {
        MonCaps::parse(text).unwrap_or_else(|error| panic!("{error}"));
    }
    for text in BAD {
        assert!(MonCaps::parse(text).is_err(), "{text}");
    }
}

#[test]
fn errors_name_the_position_and_the_expected_word() {
    assert_eq!(
        MonCaps::parse("allow service bar").unwrap_err().to_string(),
        "mon capability parse failed, stopped at '' of 'allow service bar': expected a blank"
    );
}

struct Asker {
    name: EntityName,
    peer: Option<IpAddr>,
}

impl Asker {
    fn new(name: &str) -> Self {
        Asker { name: name.parse().unwrap(), peer: "10.1.2.3".parse().ok() }
    }

    fn service(&self, caps: &str, service: &str, letters: &str) -> bool {
        let needed = Rwx::from_letters(letters);
        MonCaps::parse(caps).unwrap().allows_service(&self.name, service, needed, self.peer)
    }

    fn command(&self, caps: &str, command: &str, arguments: &[(&str, &str)]) -> bool {
        let arguments =
            arguments.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let access = MonAccess {
            name: &self.name,
            service: "none",
            command,
            arguments: &arguments,
            needed: Rwx::ALL,
            peer: self.peer,
        };
        MonCaps::parse(caps).unwrap().allows(&access)
    }
}

#[test]
fn permissions_add_up_over_grants() {
    let client = Asker::new("client.x");
    assert!(client.service("allow r, allow w", "osd", "rw"));
    assert!(!client.service("allow r", "osd", "rw"));
    assert!(client.service("allow service osd rw", "osd", "rw"));
    assert!(!client.service("allow service osd rw", "mon", "r"));
    assert!(!client.service("allow service osd rw", "osd", "x"));
    assert!(client.service("allow *", "anything", "rwx"));
}

#[test]
fn blanket_grants_do_not_open_the_key_value_store() {
    let client = Asker::new("client.x");
    assert!(!client.service("allow rwx", "config-key", "r"));
    assert!(!client.service("allow rwx fsname=a", "config-key", "r"));
    assert!(client.service("allow service config-key r", "config-key", "r"));
    assert!(client.service("allow *", "config-key", "rw"));
    assert!(MonCaps::parse("allow *").unwrap().allows_all());
    assert!(!MonCaps::parse("allow rwx").unwrap().allows_all());
    assert!(!MonCaps::parse("allow service x *").unwrap().allows_all());
}

#[test]
fn commands_are_allowed_by_prefix_and_arguments() {
    let client = Asker::new("client.x");
    let caps = "allow command \"osd pool\" with pool=a size prefix 3 who regex \"c[0-9]+\"";
    let arguments = [("pool", "a"), ("size", "30"), ("who", "c12")];
    assert!(client.command(caps, "osd pool", &arguments));
    assert!(!client.command(caps, "osd", &arguments));
    for changed in [("pool", "b"), ("size", "13"), ("who", "xc12"), ("who", "c12x")] {
        let mut other = arguments.to_vec();
        other.push(changed);
        assert!(!client.command(caps, "osd pool", &other), "{changed:?}");
    }
    assert!(!client.command(caps, "osd pool", &arguments[..2]));
    let broken = "allow command a with b regex \"(\"";
    assert!(!client.command(broken, "a", &[("b", "(")]));
}

#[test]
fn networks_confine_grants() {
    let client = Asker::new("client.x");
    assert!(client.service("allow r network 10.0.0.0/8", "mon", "r"));
    assert!(!client.service("allow * network 11.0.0.0/8", "mon", "r"));
    assert!(client.service("allow * network 11.0.0.0/8, allow r", "mon", "r"));
    assert!(!client.service("profile rbd network 11.0.0.0/8", "mon", "r"));
}

#[test]
fn profiles_allow_what_their_holders_need() {
    let client = Asker::new("client.x");
    for profile in ["rbd", "rbd-read-only", "simple-rados-client", "fs-client", "cephfs-mirror"] {
        let caps = format!("profile {profile}");
        assert!(["mon", "osd", "pg"].iter().all(|service| client.service(&caps, service, "r")));
        assert!(!client.service(&caps, "osd", "w"), "{profile}");
        assert!(!client.service(&caps, "auth", "r"), "{profile}");
    }
    assert!(client.service("profile role-definer", "auth", "rwx"));
    assert!(!client.service("profile role-definer", "osd", "r"));
    assert!(client.service("profile read-only", "osd", "r"));
    assert!(client.service("allow profile read-write", "osd", "rw"));
    assert!(!client.service("profile read-write", "auth", "x"));
    assert!(!client.service("profile crash", "osd", "r"));
    assert!(!client.service("profile unheard-of", "mon", "r"));
    assert!(Asker::new("osd.1").service("profile osd", "osd", "rwx"));
    assert!(Asker::new("mgr.a").service("profile mgr", "config-key", "rw"));
}

#[test]
fn an_rbd_client_may_shut_out_one_client_but_no_host() {
    let client = Asker::new("client.x");
    let add = |command: &str, operation: &str, addr: &str| {
        let operation_name = command.strip_prefix("osd ").unwrap().to_owned() + "op";
        client.command("profile rbd", command, &[(&operation_name, operation), ("addr", addr)])
    };
    assert!(add("osd blocklist", "add", "10.0.0.1:0/123"));
    assert!(add("osd blacklist", "add", "10.0.0.1:0/123"));
    assert!(!add("osd blocklist", "rm", "10.0.0.1:0/123"));
    assert!(!add("osd blocklist", "add", "10.0.0.1"));
    assert!(!add("osd blocklist", "add", "10.0.0.1:0/123/4"));
    // Without a nonce, or with nonce zero, an address stands for a whole host; a range for many hosts.
    assert!(!add("osd blocklist", "add", "10.0.0.1:0/0"));
    assert!(!add("osd blacklist", "add", "10.0.0.1:0/000"));
    assert!(add("osd blocklist", "add", "10.0.0.1:0/100"));
    let range = [("blocklistop", "add"), ("addr", "10.0.0.0/8"), ("range", "range")];
    assert!(!client.command("profile rbd", "osd blocklist", &range));
}

#[test]
fn daemons_reach_only_their_own_keys() {
    let osd = Asker::new("osd.1");
    let key = |key: &str| osd.command("allow profile osd", "config-key get", &[("key", key)]);
    assert!(key("daemon-private/osd.1/x"));
    assert!(!key("daemon-private/osd.10/x"));
    assert!(!key("mgr/secret"));
}

#[test]
fn daemons_may_report_their_crashes_and_remove_none() {
    for (name, caps) in [("osd.1", "allow profile osd"), ("mds.a", "allow profile mds")] {
        let daemon = Asker::new(name);
        assert!(daemon.command(caps, "crash post", &[]), "{name}");
        assert!(!daemon.command(caps, "crash rm", &[("id", "x")]), "{name}");
    }
}

#[test]
fn bootstrap_profiles_make_keys_of_their_kind_only() {
    let asker = Asker::new("client.bootstrap-rbd");
    let make = |entity: &str, osd: &str| {
        let arguments = [("entity", entity), ("caps_mon", "profile rbd"), ("caps_osd", osd)];
        asker.command("profile bootstrap-rbd", "auth get-or-create", &arguments)
    };
    assert!(make("client.a", "profile rbd"));
    assert!(make("client.a", "profile rbd pool=x, profile rbd-read-only pool='y'"));
    assert!(!make("client.a", "allow *"));
    assert!(!make("client.a", "profile rbd, allow *"));
    assert!(!make("osd.1", "profile rbd"));
    let with_mgr = |mgr: &str| {
        let caps = [("caps_mon", "profile rbd"), ("caps_osd", "profile rbd"), ("caps_mgr", mgr)];
        let arguments = [&[("entity", "client.a")], &caps[..]].concat();
        asker.command("profile bootstrap-rbd", "auth get-or-create", &arguments)
    };
    assert!(with_mgr("profile rbd") && with_mgr("profile rbd pool=x"));
    assert!(!with_mgr("allow *"));
    let mgr = Asker::new("client.bootstrap-mgr");
    let arguments = [("entity", "mgr.x"), ("caps_mon", "allow profile mgr")];
    assert!(mgr.command("profile bootstrap-mgr", "auth get-or-create", &arguments));
    assert!(mgr.command("profile bootstrap-osd", "osd new", &[]));
}
