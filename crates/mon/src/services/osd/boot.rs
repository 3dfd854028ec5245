//! Decision about one booting OSD.

use super::membership::Membership;
use crate::change::Change;
use crate::cluster_version;
use crate::commands::crush_create_or_move;
use crate::failures::judge_past;
use crate::job::{Boot, Effects};
use crate::keys;
use crate::numbers::HOLDS_SHARDS;
use crate::service::DecideCx;
use crate::state::OSD_ID_MAX;
use maps::{Osd, OsdState, Pool, WEIGHT_IN};
use types::{EntityAddrVec, OsdId, Uuid};
use wire::OsdBoot;

/// Marks a booting OSD up, unless something speaks against it.
pub(super) fn run(
    membership: &mut Membership,
    cx: &DecideCx<'_>,
    boot: &Boot,
    change: &mut Change,
) -> Effects {
    let Boot { conn, addrs, message: boot } = boot;
    let osd = boot.superblock.whoami;
    if !(0..OSD_ID_MAX).contains(&osd.0) {
        tracing::warn!(%osd, "the number of an OSD is out of range");
        return Effects::default();
    }
    if let Some(reason) = refusal(membership, cx, addrs, boot) {
        tracing::warn!(%osd, reason, "an OSD may not boot");
        return Effects::default();
    }
    let inform = (*conn, boot.superblock.newest_map.next());
    let map = &cx.state.osdmap;
    if map.is_up(osd) {
        if map.client_addrs(osd) == Some(addrs) {
            // The same incarnation boots again: it missed the answer.
            return Effects { informs: vec![inform], ..Effects::default() };
        }
        // An unnoticed restart: the old incarnation is marked down in an epoch of its own.
        change.mark_down(cx.state, osd);
        return Effects { again: true, ..Effects::default() };
    }
    mark_up(cx, addrs, boot, change);
    Effects { informs: vec![inform], ..Effects::default() }
}

/// The reason why an OSD may not boot.
fn refusal(
    membership: &mut Membership,
    cx: &DecideCx<'_>,
    addrs: &EntityAddrVec,
    boot: &OsdBoot,
) -> Option<&'static str> {
    let (map, osd) = (&cx.state.osdmap, boot.superblock.whoami);
    let of_cluster = boot.superblock.cluster_fsid;
    if of_cluster != map.fsid && of_cluster != Uuid::default() {
        return Some("it belongs to another cluster");
    }
    if map.osd(osd).is_some_and(|known| known.state.contains(OsdState::DESTROYED)) {
        return Some("it was destroyed; `sepiola osd replace` makes it anew");
    }
    let registered = map.osd(osd).map(|known| known.uuid).unwrap_or_default();
    let store = boot.superblock.osd_fsid;
    if ![registered, Uuid::default()].contains(&store) && registered != Uuid::default() {
        return Some("its store was replaced by another");
    }
    if map.holds(osd, OsdState::NOUP) {
        return Some("the flag noup is set");
    }
    if boot.superblock.newest_map > map.epoch {
        return Some("it has a newer map than the control store; see CONTROL_STORE_WENT_BACK");
    }
    if let Some(reason) = cluster_version::refusal(cx.state, &boot.metadata) {
        return Some(reason);
    }
    let has_shards = map.pools.values().any(Pool::is_erasure);
    if has_shards && !boot.metadata.contains_key(HOLDS_SHARDS) {
        return Some(
            "it keeps no shards, and there are erasure-coded pools; it needs a newer release",
        );
    }
    if map.is_up(osd) {
        return None;
    }
    let lived = map.osd(osd).is_some_and(|known| lived_on(known, addrs, boot));
    let waits = membership.delays_boot(cx, osd, lived);
    waits.then_some("it was marked down wrongly too often of late")
}

fn mark_up(cx: &DecideCx<'_>, addrs: &EntityAddrVec, boot: &OsdBoot, change: &mut Change) {
    let osd = boot.superblock.whoami;
    let state = cx.state;
    if osd.0 >= state.osdmap.max_osd() {
        let max_osd = &mut change.osdmap(state).new_max_osd;
        *max_osd = (*max_osd).max(Some(osd.0 + 1));
    }
    let host = boot.metadata.get("hostname").unwrap_or(&cx.settings.hostname);
    crush_create_or_move(state, change, osd, host);
    change.note(1, format!("osd.{osd} {addrs} boot"));
    let metadata = serde_json::to_vec(&boot.metadata).unwrap_or_default();
    if state.osd_metadata.get(&osd) != Some(&boot.metadata) {
        change.put(keys::osd_metadata(osd), metadata);
    }
    let refusal = keys::osd_refusal(osd);
    if state.config_keys.contains_key(&refusal) {
        change.delete(keys::config_key(&refusal));
    }
    let known = state.osdmap.osd(osd).cloned().unwrap_or_default();
    let incremental = change.osdmap(state);
    incremental.mark_up(
        osd,
        addrs.clone(),
        boot.cluster_addrs.clone(),
        boot.heartbeat_back_addrs.clone(),
        boot.heartbeat_front_addrs.clone(),
    );
    let store = boot.superblock.osd_fsid;
    if store != known.uuid && store != Uuid::default() {
        incremental.new_uuid.insert(osd, boot.superblock.osd_fsid);
    }
    let (mounted, clean_thru) = (boot.superblock.mounted, boot.superblock.clean_thru);
    if (mounted, clean_thru) > (known.info.last_clean_begin, known.info.last_clean_end) {
        incremental.new_last_clean_interval.insert(osd, (mounted, clean_thru));
    }
    let mut xinfo = known.xinfo;
    xinfo.features = boot.features;
    if known.exists() && known.info.up_from.0 > 0 {
        judge_past(state, cx.running, cx.now, &mut xinfo, lived_on(&known, addrs, boot));
    }
    if may_mark_in(cx, osd, &known) {
        let weight = if xinfo.old_weight == 0 { WEIGHT_IN } else { xinfo.old_weight };
        incremental.new_weight.insert(osd, weight);
        xinfo.old_weight = 0;
    }
    incremental.new_xinfo.insert(osd, xinfo);
}

/// Whether a booting OSD is marked in: if it is new, or was marked out only for being down.
fn may_mark_in(cx: &DecideCx<'_>, osd: OsdId, known: &Osd) -> bool {
    let options = cx.state.options(cx.running);
    let is_new = !known.exists() || known.state.contains(OsdState::NEW);
    let is_auto_out = known.state.contains(OsdState::AUTOOUT);
    let wanted = is_new && options.switch("mon_osd_auto_mark_new_in")
        || is_auto_out && options.switch("mon_osd_auto_mark_auto_out_in")
        || !known.is_in() && options.switch("mon_osd_auto_mark_in");
    wanted && !cx.state.osdmap.holds(osd, OsdState::NOIN)
}

/// Whether the process that boots is the one that was marked down.
fn lived_on(known: &Osd, addrs: &EntityAddrVec, boot: &OsdBoot) -> bool {
    !known.is_up() && (boot.boot_epoch.0 > 0 || known.client_addrs == *addrs)
}
