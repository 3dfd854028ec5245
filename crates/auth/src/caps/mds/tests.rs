//! Capabilities for metadata servers: grants by text, and what they allow.

use super::*;

#[test]
fn valid_text_is_kept_as_it_is() {
    for text in [
        "allow",
        "allow *",
        "allow r",
        "allow rw path=/foo",
        "allow rw fsname=a path=\"/my dir\" root_squash",
        "allow rwps path=/ uid=1000 gids=1000,1001",
        "allow rw fsname=a, allow r fsname=b",
        "allow r network 10.0.0.0/8",
    ] {
        assert_eq!(MdsCaps::parse(text).unwrap().text(), text);
    }
}

#[test]
fn invalid_text_is_refused_where_it_goes_wrong() {
    for (text, rest) in [
        ("allow w", "w"),
        ("allow rw path=", ""),
        ("allow rw uid=x", "x"),
        ("allow rw gids=9", "gids=9"),
        ("allow rw;", ""),
        ("", ""),
        ("deny *", "deny *"),
    ] {
        let error = MdsCaps::parse(text).unwrap_err();
        let CapsError::Syntax { rest: found, .. } = error else { panic!("{error}") };
        assert_eq!(found, rest, "{text}");
    }
}

fn names(path: &str) -> Vec<&[u8]> {
    path.split('/').filter(|name| !name.is_empty()).map(str::as_bytes).collect()
}

#[test]
fn reach_is_the_most_that_a_grant_of_this_file_system_and_network_gives() {
    use MdsLevel::*;
    for (text, path, level) in [
        ("allow", "/a", Write),
        ("allow *", "/", Write),
        ("allow rwps", "/a/b", Write),
        ("allow r", "/a", Read),
        ("allow rw path=/a", "/", Nothing),
        ("allow rw path=/a", "/ab", Nothing),
        ("allow rw path=a/", "/a/b", Write),
        ("allow r, allow rw path=/a", "/a/b", Write),
        ("allow r, allow rw path=/a", "/b", Read),
        ("allow rw root_squash", "/b", CheckedWrite),
        ("allow rw uid=7", "/b", CheckedWrite),
        ("allow rw fsname=cephfs", "/", Write),
        ("allow rw fsname=other", "/", Nothing),
        ("allow rw network 10.0.0.0/8", "/", Write),
        ("allow rw network 11.0.0.0/8", "/", Nothing),
    ] {
        let caps = MdsCaps::parse(text).unwrap().within("cephfs", "10.1.2.3".parse().ok());
        assert_eq!(caps.level_at(&names(path)), level, "{text} {path}");
    }
    assert_eq!(MdsCaps::granted(&AuthCaps::new("")).unwrap().level_at(&[]), Nothing);
}

#[test]
fn requests_are_allowed_by_one_grant_with_path_user_and_mode() {
    let inode = |uid, gid, mode| Ownership { uid, gid, mode };
    let root = (0, 0, &[][..]);
    let user = (1000, 1000, &[4u64][..]);
    // text, caller, inode, reads, writes, whether it is allowed
    let cases = [
        ("allow r", root, inode(0, 0, 0o755), true, false, true),
        ("allow r", root, inode(0, 0, 0o755), false, true, false),
        ("allow rw", user, inode(0, 0, 0o700), true, true, true),
        ("allow rw root_squash", root, inode(0, 0, 0o755), true, false, true),
        ("allow rw root_squash", root, inode(0, 0, 0o755), false, true, false),
        ("allow rw root_squash", user, inode(0, 0, 0o755), false, true, true),
        ("allow rw root_squash", (1000, 0, &[]), inode(0, 0, 0o777), false, true, false),
        ("allow rw uid=1000", root, inode(0, 0, 0o777), true, false, false),
        ("allow rw uid=1000", user, inode(1000, 0, 0o200), false, true, true),
        ("allow rw uid=1000", user, inode(1000, 0, 0o200), true, true, false),
        ("allow rw uid=1000", user, inode(0, 4, 0o060), true, false, false),
        ("allow rw uid=1000 gids=4", user, inode(0, 4, 0o060), true, true, true),
        ("allow rw uid=1000 gids=4,5", user, inode(0, 5, 0o060), true, false, false),
        ("allow rw uid=1000 gids=1000", user, inode(0, 4, 0o060), true, false, false),
        ("allow rw uid=1000 gids=4", (1000, 0, &[4]), inode(0, 0, 0o060), true, false, false),
        ("allow rw uid=1000 gids=9", user, inode(1000, 9, 0o666), true, false, false),
        ("allow rw uid=1000", user, inode(0, 0, 0o004), true, false, true),
        ("allow rw uid=1000", user, inode(0, 0, 0o004), true, true, false),
        ("allow rw uid=0", root, inode(7, 7, 0), true, true, true),
    ];
    for (text, (uid, gid, groups), inode, reads, writes, is_allowed) in cases {
        let caller = Caller { uid, gid, groups };
        let access = MdsAccess {
            caller,
            path: &names("/a"),
            inode,
            new_owner: None,
            created: None,
            reads,
            writes,
            requires_owner: false,
            sets_policy: false,
            changes_snapshots: false,
        };
        let caps = MdsCaps::parse(text).unwrap();
        assert_eq!(caps.allow(&access), is_allowed, "{text} {access:?}");
    }
}

#[test]
fn a_named_user_changes_mode_and_owner_of_its_own_inodes_only() {
    let caps = MdsCaps::parse("allow rw uid=1000 gids=1000,4").unwrap();
    let allows = |owner: u32, new_owner| {
        caps.allow(&MdsAccess {
            caller: Caller { uid: 1000, gid: 1000, groups: &[4] },
            path: &[],
            inode: Ownership { uid: owner, gid: 1000, mode: 0o466 },
            new_owner,
            created: None,
            reads: false,
            writes: true,
            requires_owner: true,
            sets_policy: false,
            changes_snapshots: false,
        })
    };
    assert!(allows(1000, None), "its mode does not matter");
    assert!(!allows(1001, None));
    assert!(allows(1000, Some((1000, 4))));
    assert!(!allows(1000, Some((1000, 5))), "it is not in the group");
    assert!(!allows(1000, Some((0, 1000))));
}

#[test]
fn only_the_star_administers() {
    for (text, administers) in [
        ("allow *", true),
        ("allow", true),
        ("allow r, allow all fsname=a", true),
        ("allow rwfps", false),
        ("allow * path=/a", false),
        ("allow * root_squash", false),
        ("allow * uid=1", false),
    ] {
        assert_eq!(MdsCaps::parse(text).unwrap().administers(), administers, "{text}");
    }
    assert!(!MdsCaps::default().administers());
}

#[test]
fn layouts_quotas_and_snapshots_need_their_flags() {
    for (text, may_set_policy, may_change_snapshots) in [
        ("allow *", true, true),
        ("allow", true, true),
        ("allow rwp", true, false),
        ("allow rwfps path=/a", true, true),
        ("allow rw", false, false),
        ("allow rws", false, true),
        ("allow rwp path=/b, allow rw", false, false),
    ] {
        let caps = MdsCaps::parse(text).unwrap();
        let allows = |sets_policy, changes_snapshots| {
            caps.allow(&MdsAccess {
                caller: Caller::default(),
                path: &names("/a"),
                inode: Ownership::default(),
                new_owner: None,
                created: None,
                reads: false,
                writes: true,
                requires_owner: false,
                sets_policy,
                changes_snapshots,
            })
        };
        assert_eq!(allows(true, false), may_set_policy, "{text}");
        assert_eq!(allows(false, true), may_change_snapshots, "{text}");
    }
}
