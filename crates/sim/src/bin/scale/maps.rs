//! Sizes of maps and incrementals, and the CPU time to make, encode, decode and apply them.

use super::cluster::{self, Shape, addrs, change};
use super::report::{Report, bytes, fastest, resident, timed};
use codec::EncodeFor;
use maps::{Incremental, OsdMap};
use types::features::SUPPORTED;
use types::{OsdId, PgId, PoolId};

const RUNS: usize = 5;
/// Upmap items of one round of balancing.
const BALANCING_ROUND: u32 = 1_000;

/// Measures encoding, decoding and changes of the map.
pub fn measure(map: &OsdMap, shape: Shape, report: &mut Report) {
    report.section("Maps");
    let encoded = map.to_bytes(SUPPORTED);
    report.line("full map", bytes(encoded.len()));
    let mut crush = codec::Writer::new();
    map.crush.encode_for(&mut crush, SUPPORTED);
    report.line("of which CRUSH", bytes(crush.into_bytes().len()));
    report.time("full map: encode", fastest(RUNS, || drop(map.to_bytes(SUPPORTED))));
    let decode = || drop(codec::decode_all::<OsdMap>("map", &encoded).expect("it decodes"));
    report.time("full map: decode", fastest(RUNS, decode));
    report.time("full map: clone", fastest(RUNS, || drop(map.clone())));
    let before = resident();
    let copies: Vec<OsdMap> = (0..RUNS).map(|_| map.clone()).collect();
    report.line("full map: memory", bytes((resident() - before) / copies.len()));
    let changes = [
        ("one OSD boots", boot(map)),
        ("a rack of 500 goes down", cluster::rack_goes_down(map, shape).0),
        ("a rack of 500 goes out", cluster::rack_goes_out(map, shape).0),
        ("a round of balancing, 1,000 exchanges", balancing(map)),
        ("temporary sets for 1,000 groups", temporary(map)),
        ("one OSD's CRUSH weight", reweight(map)),
    ];
    for (what, increment) in changes {
        let encoded = increment.to_bytes(SUPPORTED);
        report.line(format!("{what}: increment"), bytes(encoded.len()));
        let decode =
            || codec::decode_all::<Incremental>("increment", &encoded).expect("it decodes");
        report.time(format!("{what}: decode"), fastest(RUNS, || drop(decode())));
        let mut copies: Vec<OsdMap> = (0..RUNS).map(|_| map.clone()).collect();
        let apply = || copies.pop().map(|mut map| timed(|| map.apply(&increment)).1);
        let took = std::iter::from_fn(apply).min().unwrap_or_default();
        report.time(format!("{what}: apply"), took);
        let (_, took) = timed(|| increment.clone().seal(map).expect("it fits"));
        report.time(format!("{what}: make (apply to a copy, checksum)"), took);
    }
}

fn boot(map: &OsdMap) -> Incremental {
    let osd = OsdId(0);
    change(map, |increment| {
        increment.mark_up(osd, addrs(osd), addrs(osd), addrs(osd), addrs(osd));
        increment.new_xinfo.insert(osd, map.osd(osd).expect("it exists").xinfo);
    })
    .0
}

fn balancing(map: &OsdMap) -> Incremental {
    let max = map.max_osd();
    change(map, |increment| {
        for seed in 0..BALANCING_ROUND {
            let (from, to) = (OsdId(seed as i32 % max), OsdId((seed as i32 + 500) % max));
            increment.new_pg_upmap_items.insert(PgId { pool: PoolId(1), seed }, vec![(from, to)]);
        }
    })
    .0
}

fn temporary(map: &OsdMap) -> Incremental {
    let max = map.max_osd();
    change(map, |increment| {
        for seed in 0..BALANCING_ROUND {
            let osds = (0..3).map(|n| OsdId((seed as i32 + n * 500) % max)).collect();
            increment.new_pg_temp.insert(PgId { pool: PoolId(1), seed }, osds);
        }
    })
    .0
}

/// A change of one weight.
pub fn reweight(map: &OsdMap) -> Incremental {
    let mut crush = (*map.crush).clone();
    let name = "osd.7";
    let location = crush::Location::parse(["host=host0"]).expect("it is a type");
    crush.update_item(7, 0x8000, name, &location).expect("osd.7 is there");
    change(map, |increment| increment.crush = Some(crush.into())).0
}
