//! The capabilities that each operation, command and message needs
//! (docs/internals/capabilities.md).

use super::lone::{Lone, POOL};
use super::{append, failed};
use crate::commands::groups as group_commands;
use crate::{commands, leases};
use bytes::Bytes;
use engine::Message;
use types::features::SUPPORTED;
use types::{EntityType, Errno, PgId, PoolId};
use wire::copy::CopySource;
use wire::internal::{RotatingSecrets, ScrubOrder};
use wire::op::OpCode;
use wire::osd_op::CopyFromArguments;
use wire::{MessageBody, ObjectLocator, OsdMapMessage, OsdOp};

fn copy_from(pool: PoolId, namespace: &str, name: &str) -> OsdOp {
    let mut locator = ObjectLocator::pool(pool);
    locator.namespace = Bytes::copy_from_slice(namespace.as_bytes());
    let object = Bytes::copy_from_slice(name.as_bytes());
    let source = CopySource { object, locator, truncate: None };
    let arguments = CopyFromArguments { snap: types::SnapId::HEAD, ..Default::default() };
    OsdOp::copy_from(arguments, &source)
}

/// The capabilities an operation needs, by its name; every named operation must be here.
fn needed(name: &str) -> &'static str {
    match name {
        "read" | "sync_read" | "sparse-read" | "mapext" | "stat" | "checksum" | "cmpext" => "r",
        "assert-version" | "isdirty" | "tmapget" | "masktrunc" | "copy-get" => "r",
        "getxattr" | "getxattrs" | "cmpxattr" | "omap-get-keys" | "omap-get-vals" => "r",
        "omap-get-header" | "omap-get-vals-by-keys" | "omap-cmp" => "r",
        "list-snaps" | "list-watchers" | "notify" | "notify-ack" => "r",
        "cache-flush" | "cache-evict" | "cache-try-flush" | "set-chunk" => "r",
        "tier-flush" | "tier-evict" => "r",
        "pgls" | "pgls-filter" | "pgnls" | "pgnls-filter" | "scrubls" => "r",
        "pg-hitset-ls" | "pg-hitset-get" => "r",
        "write" | "writefull" | "append" | "write-same" | "zero" | "truncate" => "w",
        "trimtrunc" | "settrunc" | "create" | "delete" | "rollback" | "startsync" => "w",
        "setxattr" | "setxattrs" | "resetxattrs" | "rmxattr" | "omap-set-vals" => "w",
        "omap-set-header" | "omap-clear" | "omap-rm-keys" | "omap-rm-key-range" => "w",
        "set-alloc-hint" | "tmapput" | "undirty" | "cache-pin" | "cache-unpin" => "w",
        "set-redirect" | "tier-promote" | "unset-manifest" => "w",
        "tmapup" | "tmap2omap" | "watch" | "copy-from" | "copy-from2" => "rw",
        "call" => "x",
        other => panic!("{other:?} is not in the table"),
    }
}

#[test]
fn every_operation_is_refused_to_those_who_may_too_little() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    assert_eq!(lone.call(admin, "a", append(4)), Some(0));
    let all = (0..=u16::MAX).map(OpCode).filter_map(|code| Some((code, code.name()?)));
    for (code, name) in all {
        let needed = needed(name);
        for granted in ["r", "w", "rw", "x", "rx", "wx"] {
            let op = match code {
                OpCode::CALL => OsdOp::call("version", "read", b""),
                OpCode::COPY_FROM | OpCode::COPY_FROM2 => {
                    OsdOp { code, ..copy_from(POOL, "", "source") }
                }
                _ => OsdOp::new(code),
            };
            let conn = lone.client(&format!("allow {granted}"));
            let result = lone.call(conn, "a", vec![op]);
            let suffices = needed.chars().all(|needed| granted.contains(needed));
            let is_refused = result == failed(Errno::PERM);
            assert_eq!(is_refused, !suffices, "{name} with {granted:?}: {result:?}");
        }
    }
}

#[test]
fn a_copy_needs_to_read_its_source_in_pool_namespace_and_by_name() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    assert_eq!(lone.call(admin, "a-source", append(4)), Some(0));
    assert_eq!(lone.call(admin, "b-source", append(4)), Some(0));
    let own = |name: &str| copy_from(POOL, "", name);
    for (caps, op, expected) in [
        ("allow w", own("a-source"), failed(Errno::PERM)),
        ("allow rw pool=pool", own("a-source"), Some(0)),
        ("allow rw pool=pool", copy_from(PoolId(9), "", "a-source"), failed(Errno::PERM)),
        ("allow rw", copy_from(PoolId(9), "", "a-source"), failed(Errno::NOENT)),
        ("allow rw object_prefix a", own("a-source"), Some(0)),
        ("allow rw object_prefix a", own("b-source"), failed(Errno::PERM)),
        ("allow w object_prefix a, allow r object_prefix b", own("b-source"), Some(0)),
        ("allow w object_prefix a, allow r object_prefix b", own("a-source"), failed(Errno::PERM)),
        (
            "allow w object_prefix a, allow r namespace=open",
            copy_from(POOL, "open", "x"),
            failed(Errno::NOENT),
        ),
        (
            "allow w object_prefix a, allow r namespace=open",
            copy_from(POOL, "closed", "x"),
            failed(Errno::PERM),
        ),
        (
            "allow w object_prefix a, allow r tag other key=value",
            own("a-source"),
            failed(Errno::PERM),
        ),
    ] {
        let conn = lone.client(caps);
        assert_eq!(lone.call(conn, "a-target", vec![op]), expected, "{caps}");
    }
}

#[test]
fn what_scrubs_found_is_for_those_who_may_read_the_whole_pool() {
    let mut lone = Lone::new();
    for (caps, may) in [
        ("allow r", true),
        ("allow r pool=pool", true),
        ("allow r namespace=a", false),
        ("allow r namespace=\"\"", false),
        ("allow r object_prefix a", false),
    ] {
        let conn = lone.client(caps);
        let result = lone.call(conn, "a", vec![OsdOp::new(OpCode::SCRUBLS)]);
        assert_eq!(result != failed(Errno::PERM), may, "{caps}: {result:?}");
    }
}

#[test]
fn every_command_is_for_those_who_may_do_everything() {
    let mut lone = Lone::new();
    let conn = lone.client("allow rwx");
    let own = commands::table::COMMANDS.iter().map(|(prefix, _)| *prefix);
    let of_groups = group_commands::COMMANDS.iter().map(|(prefix, ..)| *prefix);
    for prefix in own.chain(of_groups).chain(["pg"]) {
        let reply = lone.command(conn, &format!(r#"{{"prefix": "{prefix}", "pgid": "1.0"}}"#));
        assert_eq!(reply.result, Errno::ACCES.negative(), "{prefix}");
    }
}

#[test]
fn what_monitors_and_osds_say_is_not_taken_from_clients() {
    let mut lone = Lone::new();
    let client = lone.client("allow *");
    let pg = PgId { pool: PoolId(9), seed: 0 };
    let epoch = lone.map.epoch;
    let header = pg::message::Header::replicated(pg, epoch, epoch);
    let newest = epoch.next();
    let maps = OsdMapMessage {
        fsid: lone.map.fsid,
        newest,
        full: [(newest, lone.map.to_bytes(SUPPORTED))].into(),
        ..OsdMapMessage::default()
    };
    let secrets = RotatingSecrets { service: EntityType::OSD.0.into(), secrets: Bytes::new() };
    let order = ScrubOrder { fsid: lone.map.fsid, pgs: Vec::new(), deep: true, repair: true };
    let options = [("osd_max_backfills".to_owned(), "77".to_owned())].into();
    let ask = codec::encode_to_bytes(&(epoch, 1u64, 1u64, 1u64));
    for message in [
        pg::message::Body::Query.encode(&header),
        Message::new(leases::REQUEST, 1, 1, ask.clone()),
        Message::new(leases::GRANT, 1, 1, ask),
        maps.encode(SUPPORTED),
        secrets.encode(SUPPORTED),
        order.encode(SUPPORTED),
        wire::Config { options }.encode(SUPPORTED),
    ] {
        lone.deliver(client, message);
    }
    assert_eq!((&lone.spoken[..], &lone.links[..]), (&[][..], &[][..]));
    assert_eq!(lone.osd.map().epoch, epoch);
    assert_ne!(lone.osd.options().max_backfills, 77);
    assert!(lone.osd.groups().all(|group| group.scrub_order().is_none()));
}
