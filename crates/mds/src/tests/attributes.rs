//! Attributes of new inodes, and of those that a client changes by itself.

use super::*;
use wire::inode_stat::{decode_xattrs, encode_xattrs};

#[test]
fn a_new_inode_has_the_attributes_that_its_client_gives_it() {
    let mut world = World::new(&[1]);
    let xattrs = [(Bytes::from("system.posix_acl_access"), Bytes::from("rules"))].into();
    let data = encode_xattrs(&xattrs);
    let path2 = FilePath { ino: 0, path: "there".into() };
    for new in [
        create("file"),
        mkdir("dir"),
        ClientRequest { path2, ..request(ClientOp::SYMLINK, "link") },
    ] {
        let stat = world.ask(1, ClientRequest { data: data.clone(), ..new }).target.unwrap();
        assert_eq!(decode_xattrs(&stat.xattrs).unwrap(), xattrs);
    }
    let of =
        |name: &'static str, value: Vec<u8>| encode_xattrs(&[(name.into(), value.into())].into());
    for (data, error) in [
        ("no attributes".into(), Errno::INVAL),
        (of("ceph.dir.pin", vec![b'1']), Errno::INVAL),
        (of("user.x", vec![0; 70_000]), Errno::NOSPC),
    ] {
        let refused = world.ask(1, ClientRequest { data, ..create("other") });
        assert_eq!(refused.result, error.negative());
    }
}

#[test]
fn the_count_of_a_directory_grows_behind_changes_that_its_client_has_not_told() {
    let mut world = World::new(&[1]);
    let dir = world.ask(1, mkdir("dir")).target.unwrap();
    assert!(dir.cap.caps.contains(CapBits::AUTH_EXCL), "it may change the mode by itself");
    // By each such change it makes the number greater by one.
    let counted = dir.change_attr + 100;
    let made = world.ask(1, create("dir/file")).dentry.unwrap().directory;
    assert!(made.change_attr > counted, "{} {counted}", made.change_attr);
}
