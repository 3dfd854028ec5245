//! States of OSDs and flags of the map: in, out, down, weights, `set` and `unset`.

use super::named::osds_listed;
use super::osd::existing;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::osdmap::min_compat_client;
use maps::{OsdMapFlags, OsdState, Release, WEIGHT_IN};
use types::{Errno, OsdId};

macro_rules! flag_choices {
    ($prefix:literal) => {
        concat!(
            $prefix,
            " name=key,type=CephChoices,strings=full|pause|noup|nodown|noout|noin|nobackfill|",
            "norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim|pglog_hardlimit|",
            "noautoscale name=yes_i_really_mean_it,type=CephBool,req=false"
        )
    };
}

pub const COMMANDS: &[Command] = &[
    command(flag_choices!("osd set"), "set <key>", "osd", "rw", |context| set(context, true)),
    command(flag_choices!("osd unset"), "unset <key>", "osd", "rw", |context| set(context, false)),
    command("osd pause", "pause osd", "osd", "rw", |context| Ok(set_flag(context, "pause", true))),
    command("osd unpause", "unpause osd", "osd", "rw", |context| {
        Ok(set_flag(context, "pause", false))
    }),
    command(
        "osd down name=ids,type=CephString,n=N name=definitely_dead,type=CephBool,req=false",
        "set osd(s) <id> [<id>...] down, or use <any|all> to set all osds down",
        "osd",
        "rw",
        down,
    ),
    command(
        "osd out name=ids,type=CephString,n=N",
        "set osd(s) <id> [<id>...] out, or use <any|all> to set all osds out",
        "osd",
        "rw",
        out,
    ),
    command(
        "osd in name=ids,type=CephString,n=N",
        "set osd(s) <id> [<id>...] in, can use <any|all> to automatically set all previously out osds in",
        "osd",
        "rw",
        bring_in,
    ),
    command(
        "osd reweight name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0|1.0",
        "reweight osd to 0.0 < <weight> < 1.0",
        "osd",
        "rw",
        reweight,
    ),
    command(
        "osd primary-affinity name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0|1.0",
        "adjust osd primary-affinity from 0.0 <= <weight> <= 1.0",
        "osd",
        "rw",
        primary_affinity,
    ),
    command(
        "osd set-group name=flags,type=CephString name=who,type=CephString,n=N",
        "set <flags> for batch osds, <flags> must be a comma-separated subset of {noup,nodown,noin,noout}",
        "osd",
        "rw",
        |context| set_group(context, true),
    ),
    command(
        "osd unset-group name=flags,type=CephString name=who,type=CephString,n=N",
        "unset <flags> for batch osds, <flags> must be a comma-separated subset of {noup,nodown,noin,noout}",
        "osd",
        "rw",
        |context| set_group(context, false),
    ),
    command("osd add-noup name=ids,type=CephString,n=N", "mark osd(s) as noup", "osd", "rw", |c| {
        hold(c, OsdState::NOUP, true)
    }),
    command(
        "osd add-nodown name=ids,type=CephString,n=N",
        "mark osd(s) as nodown",
        "osd",
        "rw",
        |c| hold(c, OsdState::NODOWN, true),
    ),
    command("osd add-noin name=ids,type=CephString,n=N", "mark osd(s) as noin", "osd", "rw", |c| {
        hold(c, OsdState::NOIN, true)
    }),
    command(
        "osd add-noout name=ids,type=CephString,n=N",
        "mark osd(s) as noout",
        "osd",
        "rw",
        |c| hold(c, OsdState::NOOUT, true),
    ),
    command("osd rm-noup name=ids,type=CephString,n=N", "clear noup of osd(s)", "osd", "rw", |c| {
        hold(c, OsdState::NOUP, false)
    }),
    command(
        "osd rm-nodown name=ids,type=CephString,n=N",
        "clear nodown of osd(s)",
        "osd",
        "rw",
        |c| hold(c, OsdState::NODOWN, false),
    ),
    command("osd rm-noin name=ids,type=CephString,n=N", "clear noin of osd(s)", "osd", "rw", |c| {
        hold(c, OsdState::NOIN, false)
    }),
    command(
        "osd rm-noout name=ids,type=CephString,n=N",
        "clear noout of osd(s)",
        "osd",
        "rw",
        |c| hold(c, OsdState::NOOUT, false),
    ),
    command(
        "osd set-full-ratio name=ratio,type=CephFloat,range=0.0|1.0",
        "set usage ratio at which OSDs are marked full",
        "osd",
        "rw",
        |context| ratio(context, "full"),
    ),
    command(
        "osd set-backfillfull-ratio name=ratio,type=CephFloat,range=0.0|1.0",
        "set usage ratio at which OSDs are marked too full to backfill",
        "osd",
        "rw",
        |context| ratio(context, "backfillfull"),
    ),
    command(
        "osd set-nearfull-ratio name=ratio,type=CephFloat,range=0.0|1.0",
        "set usage ratio at which OSDs are marked near-full",
        "osd",
        "rw",
        |context| ratio(context, "nearfull"),
    ),
    command(
        "osd set-require-min-compat-client name=version,type=CephString \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "set the minimum client version we will maintain compatibility with",
        "osd",
        "rw",
        require_min_compat_client,
    ),
    command(
        "osd set-allow-crimson name=yes_i_really_mean_it,type=CephBool,req=false",
        "Allow crimson-osds to boot and join the cluster.  Note, crimson-osd is not yet considered stable",
        "osd",
        "rw",
        |_| {
            let text = "there are no crimson OSDs in this cluster, and none can join it";
            Err(Refusal::new(Errno::PERM, text))
        },
    ),
    command(
        "osd require-osd-release \
         name=release,type=CephChoices,strings=octopus|pacific|quincy|reef|squid|tentacle \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "set the minimum allowed OSD release to participate in the cluster",
        "osd",
        "rw",
        require_osd_release,
    ),
];

fn set(context: &mut Context<'_>, on: bool) -> Result<Answer, Refusal> {
    let key = context.arguments.text("key").to_owned();
    if key == "full" && on {
        let text = "the flag 'full' cannot be set by hand: 'ceph osd pause' stops all clients";
        return Err(Refusal::invalid(text));
    }
    if key == "pglog_hardlimit" && !on {
        return Err(Refusal::new(Errno::PERM, "pglog_hardlimit cannot be unset"));
    }
    Ok(set_flag(context, &key, on))
}

fn set_flag(context: &mut Context<'_>, key: &str, on: bool) -> Answer {
    let flag = match key {
        "pause" => OsdMapFlags::PAUSERD | OsdMapFlags::PAUSEWR,
        key => {
            let named = OsdMapFlags::NAMES.iter().find(|(_, name)| *name == key);
            named.map_or(OsdMapFlags::default(), |(flag, _)| *flag)
        }
    };
    let current = context.state.osdmap.flags;
    let is_so = if on { current.contains(flag) } else { !current.intersects(flag) };
    if !is_so {
        let mut flags = current;
        flags.set(flag, on);
        context.change.osdmap(context.state).new_flags = Some(flags);
    }
    let state = if on { "set" } else { "unset" };
    Answer::said(format!("{flag} is {state}"))
}

/// Applies `mark` to each listed OSD and joins its texts. An OSD that does not exist is mentioned, but is no
/// error.
fn for_each(
    context: &mut Context<'_>,
    mut mark: impl FnMut(&mut Context<'_>, OsdId) -> String,
) -> Result<Answer, Refusal> {
    let map = &context.state.osdmap;
    let all = || map.existing_osds().map(|(osd, _)| osd).collect();
    let osds = osds_listed(context.arguments.list("ids"), all)?;
    let mut text = String::new();
    for osd in osds {
        text += &match context.state.osdmap.exists(osd) {
            true => mark(context, osd),
            false => format!("osd.{osd} does not exist. "),
        };
    }
    Ok(Answer::said(text))
}

fn down(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    for_each(context, |context, osd| {
        if !context.state.osdmap.is_up(osd) {
            return format!("osd.{osd} is already down. ");
        }
        context.change.mark_down(context.state, osd);
        format!("marked down osd.{osd}. ")
    })
}

fn out(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    for_each(context, |context, osd| {
        let Some(known) = context.state.osdmap.osd(osd).filter(|known| known.is_in()) else {
            return format!("osd.{osd} is already out. ");
        };
        let incremental = context.change.osdmap(context.state);
        incremental.new_weight.insert(osd, 0);
        let mut xinfo = known.xinfo;
        xinfo.old_weight = known.weight;
        incremental.new_xinfo.insert(osd, xinfo);
        format!("marked out osd.{osd}. ")
    })
}

fn bring_in(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    for_each(context, |context, osd| {
        let known = context.state.osdmap.osd(osd).cloned().unwrap_or_default();
        if known.is_in() {
            return format!("osd.{osd} is already in. ");
        }
        let incremental = context.change.osdmap(context.state);
        let weight = if known.xinfo.old_weight > 0 { known.xinfo.old_weight } else { WEIGHT_IN };
        incremental.new_weight.insert(osd, weight);
        format!("marked in osd.{osd}. ")
    })
}

fn reweight(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osd = existing(context, "id")?;
    let weight = context.arguments.float("weight").unwrap_or(1.0);
    let fixed = (weight * f64::from(WEIGHT_IN)) as u32;
    if context.state.osdmap.osd(osd).is_some_and(|known| known.weight != fixed) {
        context.change.osdmap(context.state).new_weight.insert(osd, fixed);
    }
    Ok(Answer::said(format!("reweighted osd.{osd} to {weight} ({fixed:x})")))
}

fn primary_affinity(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let osd = existing(context, "id")?;
    let weight = context.arguments.float("weight").unwrap_or(1.0);
    let fixed = (weight * f64::from(WEIGHT_IN)) as u32;
    if context.state.osdmap.osd(osd).is_some_and(|known| known.primary_affinity != fixed) {
        context.change.osdmap(context.state).new_primary_affinity.insert(osd, fixed);
    }
    Ok(Answer::said(format!("set osd.{osd} primary-affinity to {weight} ({fixed:x})")))
}

/// Sets or clears a flag such as `noout` on one OSD.
fn hold_one(context: &mut Context<'_>, osd: OsdId, flag: OsdState, on: bool) {
    let known = context.state.osdmap.osd(osd).map(|known| known.state).unwrap_or_default();
    let flipped = OsdState(if on { flag.0 & !known.0 } else { flag.0 & known.0 });
    if !flipped.is_empty() {
        let states = &mut context.change.osdmap(context.state).new_state;
        let state = states.entry(osd).or_default();
        *state = *state | flipped;
    }
}

fn hold(context: &mut Context<'_>, flag: OsdState, on: bool) -> Result<Answer, Refusal> {
    for_each(context, |context, osd| {
        hold_one(context, osd, flag, on);
        // As in Ceph, only OSDs that do not exist are mentioned.
        String::new()
    })
}

fn set_group(context: &mut Context<'_>, on: bool) -> Result<Answer, Refusal> {
    let mut flags = OsdState::default();
    for name in context.arguments.text("flags").split(',') {
        flags.insert(match name {
            "noup" => OsdState::NOUP,
            "nodown" => OsdState::NODOWN,
            "noin" => OsdState::NOIN,
            "noout" => OsdState::NOOUT,
            _ => {
                let text = format!(
                    "unrecognized flag '{name}', must be one of {{noup,nodown,noin,noout}}"
                );
                return Err(Refusal::invalid(text));
            }
        });
    }
    let map = &context.state.osdmap;
    let mut text = String::new();
    for who in context.arguments.list("who").to_vec() {
        let bucket = map.crush.item_id(&who).filter(|item| *item < 0);
        match (bucket, map.crush.class_id(&who)) {
            (Some(bucket), _) => {
                let held = map.crush_node_flags.get(&bucket).copied().unwrap_or_default();
                let incremental = context.change.osdmap(context.state);
                incremental.new_crush_node_flags.insert(bucket, changed(held, flags, on));
            }
            (None, Some(class)) => {
                let held = map.device_class_flags.get(&class).copied().unwrap_or_default();
                let incremental = context.change.osdmap(context.state);
                incremental.new_device_class_flags.insert(class, changed(held, flags, on));
            }
            (None, None) => {
                let all = || map.existing_osds().map(|(osd, _)| osd).collect();
                let osds = osds_listed(std::slice::from_ref(&who), all)?;
                for osd in osds {
                    match map.exists(osd) {
                        true => hold_one(context, osd, flags, on),
                        false => text += &format!("osd.{osd} does not exist. "),
                    }
                }
            }
        }
    }
    Ok(Answer::said(text))
}

fn changed(held: OsdState, flags: OsdState, on: bool) -> OsdState {
    OsdState(if on { held.0 | flags.0 } else { held.0 & !flags.0 })
}

fn ratio(context: &mut Context<'_>, which: &str) -> Result<Answer, Refusal> {
    let ratio = context.arguments.float("ratio").unwrap_or_default();
    // Health warns if the ratios are out of order: to move all three, one must begin.
    let incremental = context.change.osdmap(context.state);
    match which {
        "full" => incremental.new_full_ratio = Some(ratio as f32),
        "backfillfull" => incremental.new_backfillfull_ratio = Some(ratio as f32),
        _ => incremental.new_nearfull_ratio = Some(ratio as f32),
    }
    Ok(Answer::said(format!("osd set-{which}-ratio {ratio}")))
}

fn release(text: &str) -> Result<Release, Refusal> {
    text.parse()
        .map_err(|()| Refusal::invalid(format!("{text} is not a recognized client release name")))
}

fn require_min_compat_client(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let release = release(context.arguments.text("version"))?;
    let needed = min_compat_client(&context.state.osdmap);
    if needed.parse().is_ok_and(|needed: Release| release < needed) {
        let text = format!(
            "osdmap current utilizes features that require {needed}; cannot set \
             require_min_compat_client below that to {release}"
        );
        return Err(Refusal::new(Errno::PERM, text));
    }
    if context.state.osdmap.require_min_compat_client != release {
        context.change.osdmap(context.state).new_require_min_compat_client = Some(release);
    }
    Ok(Answer::said(format!("set require_min_compat_client to {release}")))
}

fn require_osd_release(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let release = release(context.arguments.text("release"))?;
    let current = context.state.osdmap.require_osd_release;
    if release < current {
        let text =
            format!("require_osd_release cannot be lowered once it has been set to {current}");
        return Err(Refusal::new(Errno::PERM, text));
    }
    if release > Release::REEF {
        let text = format!("the OSDs of this cluster are like those of reef, not of {release}");
        return Err(Refusal::new(Errno::PERM, text));
    }
    if release != current {
        context.change.osdmap(context.state).new_require_osd_release = Some(release);
    }
    Ok(Answer::default())
}
