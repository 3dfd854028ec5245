//! Commands as the monitor gets them: the first byte chooses one, the rest is its arguments in JSON.

#![no_main]

use auth::{CephxPolicy, Entropy, KeyType};
use bytes::Bytes;
use engine::{ConnId, Daemon, Message, Output, Peer, Time};
use libfuzzer_sys::fuzz_target;
use mon::control::MemControl;
use mon::{AuthMode, Monitor, Parameters, Settings};
use std::sync::OnceLock;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, ParticipantName, features};
use wire::{MessageBody, MonCommand};

const NOW: Time = Time(1_700_000_000_000_000_000);
const CONN: ConnId = ConnId(ConnId::ACCEPTED);

/// Those with arguments that are worth a try.
const COMMANDS: &[&str] = &[
    "status",
    "health",
    "df",
    "osd dump",
    "osd tree",
    "osd map",
    "osd find",
    "osd reweight",
    "osd crush move",
    "osd crush add-bucket",
    "osd crush reweight",
    "osd crush set-device-class",
    "osd crush rule create-replicated",
    "osd pool create",
    "osd pool set",
    "osd pool get",
    "osd pool rename",
    "osd pool application enable",
    "osd pool set-quota",
    "osd pool delete",
    "osd erasure-code-profile set",
    "osd blocklist",
    "osd out",
    "osd down",
    "osd set",
    "osd new",
    "osd setcrushmap",
    "pg dump",
    "pg ls",
    "auth get-or-create",
    "auth caps",
    "auth import",
    "config set",
    "config rm",
    "config-key set",
    "log",
    "get_command_descriptions",
];

fuzz_target!(|input: &[u8]| {
    let Some((choice, arguments)) = input.split_first() else { return };
    let Ok(arguments) = std::str::from_utf8(arguments) else { return };
    let (mut monitor, mut control) = monitor();
    let peer = Peer {
        participant: ParticipantName::new(EntityType::OSD, 0),
        name: EntityName::osd(0),
        addrs: EntityAddrVec::default(),
        features: features::SUPPORTED,
        caps: Bytes::new(),
        seen_addr: EntityAddr::default(),
    };
    monitor.handle_opened(NOW, CONN, peer);
    let prefix = COMMANDS[usize::from(*choice) % COMMANDS.len()];
    let command = match arguments.is_empty() {
        true => format!(r#"{{"prefix":"{prefix}"}}"#),
        false => format!(r#"{{"prefix":"{prefix}",{arguments}}}"#),
    };
    let fsid = monitor.fsid();
    let command = MonCommand { version: 0, fsid, command: vec![command], input: Bytes::new() };
    monitor.handle_message(NOW, CONN, command.encode(features::SUPPORTED).with_tid(1));
    settle(&mut monitor, &mut control);
});

fn monitor() -> (Monitor, MemControl) {
    let addr: EntityAddr = "v2:10.0.0.1:3300/0".parse().expect("a constant");
    let addrs = EntityAddrVec::one(addr);
    let parameters = Parameters {
        mon_name: "a".to_owned(),
        mon_addrs: addrs.clone(),
        mgr_name: "x".to_owned(),
        mgr_addrs: addrs.clone(),
        osd_count: 3,
        host: "fuzz".to_owned(),
        failure_domain: "osd".to_owned(),
        device_class: None,
        pool_size: 3,
        key_type: KeyType::Aes,
    };
    static MADE: OnceLock<MemControl> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let mut entropy = Entropy::from_seed([7; 32]);
        let made = mon::bootstrap(&parameters, NOW.wall(), &mut entropy).expect("constants");
        let mut control = MemControl::new();
        control.commit(&made.transaction).expect("the store is empty");
        control
    });
    let mut control = made.clone();
    let settings = Settings {
        mon_name: "a".to_owned(),
        mon_addrs: addrs.clone(),
        mgr_name: "x".to_owned(),
        mgr_addrs: addrs,
        auth: AuthMode::None,
        connection_modes: vec![1, 2],
        cephx: CephxPolicy::default(),
        hostname: "fuzz".to_owned(),
    };
    let mut monitor = Monitor::new(settings, [7; 32]);
    settle(&mut monitor, &mut control);
    (monitor, control)
}

fn settle(monitor: &mut Monitor, control: &mut MemControl) -> Vec<Message> {
    let mut sent = Vec::new();
    while let Some(output) = monitor.poll_output() {
        match output {
            Output::Storage(request) => {
                let completion = control.execute(&request);
                monitor.handle_completion(NOW, completion);
            }
            Output::Send { message, .. } => sent.push(message),
            _ => {}
        }
    }
    sent
}
