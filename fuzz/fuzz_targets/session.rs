//! Whatever a peer sends to an accepting session ends in an event, never in a panic.
//!
//! The input is a list of steps: control frames with right checksums, or raw bytes.

#![no_main]

use bytes::Bytes;
use engine::{AuthVerdict, Policy, Time};
use libfuzzer_sys::fuzz_target;
use msgr::{Config, Event, MODE_CRC, Session};
use std::sync::Arc;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType};

const BANNER: &[u8] =
    b"ceph v2\n\x10\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";

fuzz_target!(|input: &[u8]| {
    let Some((flags, mut bytes)) = input.split_first() else { return };
    let addr: EntityAddr = "v2:10.0.0.1:6800/0".parse().expect("a constant");
    let mut config = Config::daemon(EntityType::OSD, 1, EntityAddrVec::one(addr));
    if flags & 1 == 1 {
        config.lossless_peers = EntityType::ANY;
    }
    let mut now = Time(1_000_000_000_000);
    let mut session = Session::accept(Arc::new(config), now, addr, 7);
    if flags & 2 == 0 {
        session.handle_received(now, Bytes::from_static(BANNER));
        drain(&mut session, now);
    }
    while let Some((length, rest)) = bytes.split_first() {
        let length = usize::from(*length).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        bytes = rest;
        let frame = if flags & 4 == 0 { frame(piece) } else { piece.to_vec() };
        session.handle_received(now, frame.into());
        drain(&mut session, now);
        now.0 += 1_000_000;
    }
    now.0 += 100_000_000_000;
    session.handle_timeout(now);
    drain(&mut session, now);
    assert!(session.queued_bytes() < 1 << 20);
});

fn drain(session: &mut Session, now: Time) {
    while let Some(event) = session.poll_event() {
        match event {
            Event::AuthRequest(_) => session.handle_auth_verdict(now, verdict()),
            Event::Introduced(_) => {
                session.admit(None);
            }
            Event::Opened(_) => {
                assert!(matches!(session.policy(), Policy::Lossy | Policy::Lossless))
            }
            _ => {}
        }
    }
    session.poll_transmit(&mut Vec::new());
}

fn verdict() -> AuthVerdict {
    AuthVerdict::Done {
        name: EntityName::client("admin"),
        global_id: 7,
        mode: MODE_CRC,
        payload: Bytes::new(),
        session_key: Bytes::new(),
        connection_secret: Bytes::new(),
        caps: Bytes::new(),
    }
}

/// A frame of one segment with correct checksums: its first byte is the tag.
fn frame(piece: &[u8]) -> Vec<u8> {
    let Some((tag, segment)) = piece.split_first() else { return Vec::new() };
    let mut frame = vec![*tag, 1];
    frame.extend((segment.len() as u32).to_le_bytes());
    frame.extend(8u16.to_le_bytes());
    frame.resize(28, 0);
    frame.extend(crc32c(0, &frame).to_le_bytes());
    frame.extend(segment);
    frame.extend(crc32c(u32::MAX, segment).to_le_bytes());
    frame
}

fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}
