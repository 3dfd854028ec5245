//! Checks of the control plane: missing monitors, and failures of the control store.

use super::check::{Health, Severity, View, next_step};
use crate::live::{Skew, WentBack};
use control::SILENCE_MAX;
use std::time::Duration;

/// Time for which health reports a refused change. The monitor tries it again meanwhile if it is still due.
const REFUSED_SHOWN: Duration = Duration::from_secs(60);

pub(crate) fn check(health: &mut Health, view: &View<'_>) {
    check_absent(health, view);
    check_store(health, view);
    check_unread(health, view);
    check_refusal(health, view);
    check_refused_change(health, view);
    check_unreadable(health, view);
    check_went_back(health, view);
    check_clocks(health, view);
    check_disk(health, view);
}

/// Space at this monitor's directory, where an embedded control store lies.
fn check_disk(health: &mut Health, view: &View<'_>) {
    let Some(space) = view.live.identity.disk.filter(|space| space.total > 0) else { return };
    let percent =
        u64::try_from(u128::from(space.available) * 100 / u128::from(space.total)).unwrap_or(100);
    let (warn, crit) = (
        view.options().number("mon_data_avail_warn"),
        view.options().number("mon_data_avail_crit"),
    );
    let (name, severity, word) = match percent {
        percent if percent <= crit => ("MON_DISK_CRIT", Severity::Error, "very low"),
        percent if percent <= warn => ("MON_DISK_LOW", Severity::Warning, "low"),
        _ => return,
    };
    let monitor = &view.live.identity.mon_name;
    let lines = [format!("mon.{monitor} has {percent}% avail")];
    let step = "free space in the file system of the monitor's directory ('df'): without space the control store takes no \
                changes";
    let summary = format!("mon {monitor} is {word} on available space");
    health.add(name, severity, 1, summary, next_step(lines, step));
}

fn check_absent(health: &mut Health, view: &View<'_>) {
    let state = view.state;
    let absent = state.absent_monitors();
    let quorum: Vec<&str> = state.quorum().into_iter().map(|(_, name)| name).collect();
    let summary = format!(
        "{}/{} mons down, quorum {}",
        absent.len(),
        state.monmap.ranks.len(),
        quorum.join(",")
    );
    let lines = absent.iter().map(|name| {
        let rank = state.monmap.rank(name).unwrap_or_default();
        let addrs = state.monmap.mon_info.get(*name).map(|mon| mon.public_addrs.to_string());
        let addrs = addrs.unwrap_or_default();
        format!("mon.{name} (rank {rank}) addr {addrs} is down (out of quorum)")
    });
    let step = "start it on its machine ('sepiola mon start', 'systemctl start sepiola-mon@NAME'), see \
                whether it reaches the control store, or, if it shall not come back, take it out of \
                the map with 'ceph mon rm NAME'";
    let details = next_step(lines, step);
    health.warn("MON_DOWN", absent.len(), summary, details);
}

fn check_store(health: &mut Health, view: &View<'_>) {
    let Some(trouble) = &view.live.store.unreachable else { return };
    let seconds = view.now.since(trouble.since).as_secs();
    let lines = [
        format!(
            "mon.{} has had no answer for {seconds} s: {}",
            view.live.identity.mon_name, trouble.reason
        ),
        "clients read and write on, but nothing can be changed: no pool, no key, and no OSD that fails \
         is marked down"
            .to_owned(),
    ];
    let step = "for a store in the monitor's own directory, see the reason above, 'df' and the kernel's log \
                ('dmesg'), and repair the file system or the disk; for an etcd, look at its members with 'etcdctl \
                endpoint status' and start those that are down, until more than half of them run; everything goes on \
                by itself then";
    let details = next_step(lines, step);
    let summary = "control store out of reach: nothing can be changed".to_owned();
    health.add("CONTROL_STORE_DOWN", Severity::Error, 1, summary, details);
}

/// The store renews leases but cannot be read.
fn check_unread(health: &mut Health, view: &View<'_>) {
    let (store, name) = (view.live.store, &view.live.identity.mon_name);
    let Some(trouble) = store
        .unread
        .as_ref()
        .filter(|_| store.unreachable.is_none() && store.undecodable.is_none())
    else {
        return;
    };
    let seconds = view.now.since(trouble.since).as_secs();
    let lines = [
        format!("mon.{name} could read nothing for {seconds} s: {}", trouble.reason),
        "this monitor knows nothing of what was changed since, and changes nothing; if another one is there, it gives \
         up its lease, and that one leads"
            .to_owned(),
    ];
    let step = "see the reason above; for an etcd, whether 'etcdctl get --prefix' with the same user reads its keys; \
                everything goes on by itself when it can be read";
    let details = next_step(lines, step);
    let summary = "control store cannot be read: nothing can be changed by this monitor".to_owned();
    health.add("CONTROL_STORE_DOWN", Severity::Error, 1, summary, details);
}

/// The store has refused a change of the monitor's own, and would refuse it again.
fn check_refused_change(health: &mut Health, view: &View<'_>) {
    let Some(refused) = &view.live.store.refused_change else { return };
    if view.now.since(refused.when) >= REFUSED_SHOWN
        || health.checks.contains_key("CONTROL_STORE_REFUSES_WRITES")
    {
        return;
    }
    let line = format!("mon.{}: {}", view.live.identity.mon_name, refused.reason);
    let step = "raise the limit that the reason names ('--max-request-bytes' and '--max-txn-ops' of an etcd need not be \
                below their defaults), and start its members again one after the other";
    let summary = "control store does not take a change that is due".to_owned();
    let details = next_step([line], step);
    health.add("CONTROL_STORE_REFUSES_WRITES", Severity::Error, 1, summary, details);
}

/// The store answers but takes no writes.
fn check_refusal(health: &mut Health, view: &View<'_>) {
    let Some(trouble) = &view.live.store.unwritable else { return };
    let lasted = view.now.since(trouble.since);
    if view.live.store.unreachable.is_some() || lasted < SILENCE_MAX {
        return;
    }
    let lines = [
        format!(
            "mon.{} could write nothing for {} s: {}",
            view.live.identity.mon_name,
            lasted.as_secs(),
            trouble.reason
        ),
        "clients read and write on, but nothing can be changed: no pool, no key, and no OSD that fails \
         is marked down"
            .to_owned(),
    ];
    let step = "for a store in the monitor's own directory, see 'df' and the kernel's log ('dmesg'), and make room \
                there; for an etcd, see 'etcdctl alarm list', then 'etcdctl compact', 'etcdctl defrag' and 'etcdctl \
                alarm disarm', and raise its --quota-backend-bytes; everything goes on by itself then";
    let details = next_step(lines, step);
    let summary = "control store takes no writes: nothing can be changed".to_owned();
    health.add("CONTROL_STORE_REFUSES_WRITES", Severity::Error, 1, summary, details);
}

/// The store has an entry that this monitor cannot decode.
fn check_unreadable(health: &mut Health, view: &View<'_>) {
    let Some(trouble) = &view.live.store.undecodable else { return };
    let lines = [
        format!("mon.{}: {}", view.live.identity.mon_name, trouble.reason),
        "clients read and write on, but this monitor changes nothing: it would decide without what it cannot read"
            .to_owned(),
    ];
    let step = "if another monitor runs a newer release, start this one with that, too; else something other than a \
                monitor has written to the control store: put back what it held before";
    let details = next_step(lines, step);
    let summary = "control store holds what this monitor cannot read".to_owned();
    health.add("CONTROL_STORE_UNREADABLE", Severity::Error, 1, summary, details);
}

fn check_went_back(health: &mut Health, view: &View<'_>) {
    let Some(how) = &view.live.store.went_back else { return };
    let line = match how {
        WentBack::Map { osd, epoch } => format!(
            "osd.{osd} has the OSD map of epoch {epoch}, and the control store knows none newer than {}",
            view.state.osdmap.epoch
        ),
        WentBack::Seen { epoch } => format!(
            "mon.{} has seen the OSD map of epoch {epoch}, and the control store knows none newer than {}",
            view.live.identity.mon_name, view.state.osdmap.epoch
        ),
        WentBack::Revision { known, found } => {
            format!("the control store was at revision {known} before, and is at {found} now")
        }
    };
    let lines = [
        line,
        "it was restored from a backup or a snapshot: pools, keys and settings that were changed since are \
         forgotten, and no OSD map is made any more, for its epochs were given to other maps before"
            .to_owned(),
    ];
    let step = "put the newest control store back if there is one; else stop all daemons and make a control store \
                from what the OSDs remember, with 'sepiola control collect' and 'sepiola control rebuild'. If the \
                control store is known to be the newest and a single OSD with a broken store says otherwise, stop \
                that OSD and start the monitors again";
    let details = next_step(lines, step);
    let summary =
        "control store is older than the cluster: it was restored from a backup".to_owned();
    health.add("CONTROL_STORE_WENT_BACK", Severity::Error, 1, summary, details);
}

fn check_clocks(health: &mut Health, view: &View<'_>) {
    let allowed = view.state.clock_drift_allowed(view.live.running);
    let skewed = view.live.clocks.iter().filter(|(_, skew)| skew.is_beyond(allowed));
    let (names, lines): (Vec<String>, Vec<String>) = skewed
        .map(|(name, skew)| {
            let Skew { seconds, latency } = skew;
            let seconds = seconds.abs();
            let line = format!(
                "mon.{name} clock skew {seconds:.6}s > max {allowed}s (latency {latency:.6}s)"
            );
            (format!("mon.{name}"), line)
        })
        .unzip();
    let step = "see on these machines and on the leader's whether the time is kept ('chronyc tracking', \
                'timedatectl'); daemons follow a clock that was set slowly, or at once when they are started again";
    let summary = format!("clock skew detected on {}", names.join(", "));
    health.warn("MON_CLOCK_SKEW", names.len(), summary, next_step(lines, step));
}
