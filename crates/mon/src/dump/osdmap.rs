//! Formatting of the OSD map.

use super::{addrs, pool};
use crate::command::number;
use maps::{Blocklist, Osd, OsdMap, OsdState, WEIGHT_IN};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{EntityAddrVec, OsdId, PgId, UTime};

/// A time; zero is shown as Ceph shows it.
pub fn stamp(time: UTime) -> String {
    if time == UTime::ZERO { "0.000000".to_owned() } else { time.to_iso() }
}

/// 16.16 fixed point as a number.
pub fn weight(fixed: u32) -> Value {
    number(f64::from(fixed) / f64::from(WEIGHT_IN))
}

fn float(value: f32) -> Value {
    number(f64::from(value))
}

/// `osd dump`
pub fn json(map: &OsdMap) -> Value {
    let mut object = Map::new();
    for part in [header(map), ratios(map), contents(map), overrides(map), tail(map)] {
        if let Value::Object(part) = part {
            object.extend(part);
        }
    }
    Value::Object(object)
}

fn header(map: &OsdMap) -> Value {
    let mut flags: Vec<&str> = map.flags.names().collect();
    let text = map.flags.to_string();
    flags.sort_unstable();
    json!({
        "epoch": map.epoch.0,
        "fsid": map.fsid.to_string(),
        "created": stamp(map.created),
        "modified": stamp(map.modified),
        "last_up_change": stamp(map.last_up_change),
        "last_in_change": stamp(map.last_in_change),
        "flags": text,
        "flags_num": map.flags.0,
        "flags_set": flags,
        "crush_version": map.crush_version,
    })
}

fn ratios(map: &OsdMap) -> Value {
    json!({
        "full_ratio": float(map.full_ratio),
        "backfillfull_ratio": float(map.backfillfull_ratio),
        "nearfull_ratio": float(map.nearfull_ratio),
        "cluster_snapshot": map.cluster_snapshot,
        "pool_max": map.pool_max.0,
        "max_osd": map.max_osd(),
        "require_min_compat_client": map.require_min_compat_client.name(),
        "min_compat_client": min_compat_client(map),
        "require_osd_release": map.require_osd_release.name(),
        "allow_crimson": map.allow_crimson,
    })
}

/// The oldest release whose clients support the features that this map uses.
pub fn min_compat_client(map: &OsdMap) -> &'static str {
    let upmapped = !map.pg_upmap.is_empty() || !map.pg_upmap_items.is_empty();
    match () {
        () if crush::requirements::minimum_required_version(&map.crush) == "squid" => "squid",
        () if !map.pg_upmap_primaries.is_empty() => "reef",
        () if upmapped || map.crush.choose_args().next().is_some() => "luminous",
        () => "jewel",
    }
}

fn contents(map: &OsdMap) -> Value {
    let pools = map.pools.iter().map(|(id, pool)| pool::json(map, *id, pool));
    let xinfo = map.existing_osds().map(|(id, osd)| {
        json!({
            "osd": id.0,
            "down_stamp": stamp(osd.xinfo.down_stamp),
            "laggy_probability": number(f64::from(osd.xinfo.laggy_probability) / f64::from(u32::MAX)),
            "laggy_interval": osd.xinfo.laggy_interval,
            "features": osd.xinfo.features,
            "old_weight": weight(osd.xinfo.old_weight),
            "last_purged_snaps_scrub": stamp(osd.xinfo.last_purged_snaps_scrub),
            "dead_epoch": osd.xinfo.dead_epoch.0,
        })
    });
    json!({
        "pools": pools.collect::<Vec<_>>(),
        "osds": map.existing_osds().map(|(id, one)| osd(id, one)).collect::<Vec<_>>(),
        "osd_xinfo": xinfo.collect::<Vec<_>>(),
    })
}

/// One OSD, as in `osd info`.
pub fn osd(id: OsdId, osd: &Osd) -> Value {
    let mut states: Vec<&str> = osd.state.names().collect();
    states.sort_unstable();
    let mut object = Map::new();
    let parts = [
        json!({
            "osd": id.0,
            "uuid": osd.uuid.to_string(),
            "up": u8::from(osd.is_up()),
            "in": u8::from(osd.is_in()),
            "weight": weight(osd.weight),
            "primary_affinity": weight(osd.primary_affinity),
            "last_clean_begin": osd.info.last_clean_begin.0,
            "last_clean_end": osd.info.last_clean_end.0,
            "up_from": osd.info.up_from.0,
            "up_thru": osd.info.up_thru.0,
            "down_at": osd.info.down_at.0,
            "lost_at": osd.info.lost_at.0,
        }),
        json!({
            "public_addrs": addrs::vector(&osd.client_addrs),
            "cluster_addrs": addrs::vector(&osd.cluster_addrs),
            "heartbeat_back_addrs": addrs::vector(&osd.heartbeat_back_addrs),
            "heartbeat_front_addrs": addrs::vector(&osd.heartbeat_front_addrs),
            "public_addr": addrs::legacy(&osd.client_addrs),
            "cluster_addr": addrs::legacy(&osd.cluster_addrs),
            "heartbeat_back_addr": addrs::legacy(&osd.heartbeat_back_addrs),
            "heartbeat_front_addr": addrs::legacy(&osd.heartbeat_front_addrs),
            "state": states,
        }),
    ];
    for part in parts {
        if let Value::Object(part) = part {
            object.extend(part);
        }
    }
    Value::Object(object)
}

fn ids(osds: &[OsdId]) -> Vec<i32> {
    osds.iter().map(|osd| osd.0).collect()
}

fn overrides(map: &OsdMap) -> Value {
    let lists = |entries: &BTreeMap<PgId, Vec<OsdId>>| -> Vec<Value> {
        let entry =
            |(pg, osds): (&PgId, &Vec<OsdId>)| json!({ "pgid": pg.to_string(), "osds": ids(osds) });
        entries.iter().map(entry).collect()
    };
    let items = map.pg_upmap_items.iter().map(|(pg, items)| {
        let pair = |(from, to): &(OsdId, OsdId)| json!({ "from": from.0, "to": to.0 });
        json!({ "pgid": pg.to_string(), "mappings": items.iter().map(pair).collect::<Vec<_>>() })
    });
    let primaries = map.pg_upmap_primaries.iter();
    let primaries =
        primaries.map(|(pg, osd)| json!({ "pgid": pg.to_string(), "primary_osd": osd.0 }));
    let primary_temp = map.primary_temp.iter();
    let primary_temp =
        primary_temp.map(|(pg, osd)| json!({ "pgid": pg.to_string(), "osd": osd.0 }));
    json!({
        "pg_upmap": lists(&map.pg_upmap),
        "pg_upmap_items": items.collect::<Vec<_>>(),
        "pg_upmap_primaries": primaries.collect::<Vec<_>>(),
        "pg_temp": lists(&map.pg_temp),
        "primary_temp": primary_temp.collect::<Vec<_>>(),
        "blocklist": blocklist(&map.blocklist),
        "range_blocklist": blocklist(&map.range_blocklist),
        "erasure_code_profiles": map.erasure_code_profiles,
    })
}

fn blocklist(list: &Blocklist) -> Value {
    let entries = list.iter().map(|(addr, until)| (addrs::plain(addr), json!(stamp(*until))));
    Value::Object(entries.collect())
}

fn tail(map: &OsdMap) -> Value {
    let queue = |snaps: &BTreeMap<types::PoolId, maps::SnapIntervals>| -> Vec<Value> {
        let interval =
            |(begin, length): (types::SnapId, u64)| json!({ "begin": begin.0, "length": length });
        let pool = |(id, intervals): (&types::PoolId, &maps::SnapIntervals)| json!({ "pool": id.0, "snaps": intervals.intervals().map(interval).collect::<Vec<_>>() });
        snaps.iter().map(pool).collect()
    };
    json!({
        "removed_snaps_queue": queue(&map.removed_snaps_queue),
        "new_removed_snaps": queue(&map.new_removed_snaps),
        "new_purged_snaps": queue(&map.new_purged_snaps),
        "crush_node_flags": held(&map.crush_node_flags, |id| map.crush.item_name(id)),
        "device_class_flags": held(&map.device_class_flags, |id| map.crush.class_name(id)),
        "stretch_mode": {
            "stretch_mode_enabled": map.stretch.enabled,
            "stretch_bucket_count": map.stretch.bucket_count,
            "degraded_stretch_mode": map.stretch.degraded,
            "recovering_stretch_mode": map.stretch.recovering,
            "stretch_mode_bucket": map.stretch.bucket,
        },
    })
}

/// Plain `osd dump`.
pub fn plain(map: &OsdMap) -> String {
    let mut text = format!(
        "epoch {}\nfsid {}\ncreated {}\nmodified {}\nflags {}\ncrush_version {}\nfull_ratio {}\n\
         backfillfull_ratio {}\nnearfull_ratio {}\nrequire_min_compat_client {}\n\
         min_compat_client {}\nrequire_osd_release {}\nstretch_mode_enabled {}\n",
        map.epoch,
        map.fsid,
        stamp(map.created),
        stamp(map.modified),
        map.flags,
        map.crush_version,
        map.full_ratio,
        map.backfillfull_ratio,
        map.nearfull_ratio,
        map.require_min_compat_client,
        min_compat_client(map),
        map.require_osd_release,
        map.stretch.enabled,
    );
    for (id, one) in &map.pools {
        text += &pool::line(map, *id, one);
    }
    text += &format!("max_osd {}\n", map.max_osd());
    for (id, osd) in map.existing_osds() {
        text += &osd_line(id, osd);
    }
    for (pg, items) in &map.pg_upmap_items {
        let pairs: Vec<String> = items.iter().map(|(from, to)| format!("{from},{to}")).collect();
        text += &format!("pg_upmap_items {pg} [{}]\n", pairs.join(","));
    }
    for (pg, osds) in &map.pg_temp {
        text += &format!("pg_temp {pg} {:?}\n", ids(osds));
    }
    for (addr, until) in &map.blocklist {
        text += &format!("blocklist {} expires {}\n", addrs::plain(addr), stamp(*until));
    }
    text
}

/// One OSD, as a line of `osd dump`.
pub fn osd_line(id: OsdId, osd: &Osd) -> String {
    let info = &osd.info;
    let bracketed = |addrs: &EntityAddrVec| match addrs.0.len() {
        1 => format!("[{addrs}]"),
        _ => addrs.to_string(),
    };
    format!(
        "osd.{id} {} {} weight {}{} up_from {} up_thru {} down_at {} last_clean_interval [{},{}) {} \
         {} {} {}\n",
        if osd.is_up() { "up  " } else { "down" },
        if osd.is_in() { "in " } else { "out" },
        weight(osd.weight),
        match osd.primary_affinity {
            WEIGHT_IN => String::new(),
            affinity => format!(" primary_affinity {}", weight(affinity)),
        },
        info.up_from,
        info.up_thru,
        info.down_at,
        info.last_clean_begin,
        info.last_clean_end,
        bracketed(&osd.client_addrs),
        bracketed(&osd.cluster_addrs),
        osd.state,
        osd.uuid,
    )
}

/// Flags of buckets or device classes, by name.
fn held<'a>(flags: &BTreeMap<i32, OsdState>, name: impl Fn(i32) -> Option<&'a str>) -> Value {
    let named = |(id, flags): (&i32, &OsdState)| {
        let name = name(*id).map_or_else(|| id.to_string(), str::to_owned);
        (name, json!(flags.names().collect::<Vec<_>>()))
    };
    Value::Object(flags.iter().map(named).collect())
}
