//! Checks of the control plane: monitors that nobody hears, and a store that does not answer.

use super::{Health, Severity, View, next_step};

pub(super) fn check(health: &mut Health, view: &View<'_>) {
    check_absent(health, view);
    check_store(health, view);
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
    let Some(trouble) = &view.overview.store_trouble else { return };
    let seconds = view.now.since(trouble.since).as_secs();
    let lines = [
        format!(
            "mon.{} has had no answer for {seconds} s: {}",
            view.overview.mon_name, trouble.reason
        ),
        "clients read and write on, but nothing can be changed: no pool, no key, and no OSD that fails \
         is marked down"
            .to_owned(),
    ];
    let step = "look at the members of the etcd with 'etcdctl endpoint status' and start those that are \
                down, until more than half of them run; everything goes on by itself then";
    let details = next_step(lines, step);
    let summary = "control store out of reach: nothing can be changed".to_owned();
    health.add("CONTROL_STORE_DOWN", Severity::Error, 1, summary, details);
}
