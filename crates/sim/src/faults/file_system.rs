//! Faults of metadata servers and of clients of the file system.

use super::plans::{crash, until_mended};
use crate::cast::Cast;
use crate::fault::{Fault, Kind, Plan};
use crate::fault_mix::FaultMix;
use engine::Duration;
use stdx::Prng;

const HALT_MS_MAX: u64 = 20_000;

pub(super) fn draw(prng: &mut Prng, kind: Kind, mix: &FaultMix, cast: &Cast) -> Plan {
    match kind {
        Kind::CrashServer => {
            let server = vec![*prng.choose(&cast.servers)];
            crash(prng, mix, server)
        }
        Kind::CrashFileClient => {
            let client = vec![*prng.choose(&cast.file_clients)];
            let (fault, back) = crash(prng, mix, client.clone());
            (if prng.chance(1, 2) { Fault::Vanish(client) } else { fault }, back)
        }
        _ => halt(prng, cast),
    }
}

fn halt(prng: &mut Prng, cast: &Cast) -> Plan {
    let all = if prng.chance(1, 2) { &cast.servers } else { &cast.file_clients };
    let node = vec![*prng.choose(all)];
    match prng.below(3) {
        0 => {
            let over = Duration::from_millis(1 + prng.below(HALT_MS_MAX));
            (Fault::Pause(node.clone()), vec![(over, Fault::Resume(node))])
        }
        1 => until_mended(prng, Fault::Partition(node), HALT_MS_MAX),
        _ => until_mended(prng, Fault::Muteness(node), HALT_MS_MAX),
    }
}
