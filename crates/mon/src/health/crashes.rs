//! The check of recent crashes, from the reports that `ceph-crash` posts.

use super::check::{Health, View, next_step};
use crate::crashes::{Crash, RECENT_SECONDS, crashes};

pub(crate) fn check(health: &mut Health, view: &View<'_>) {
    let limit = u64::from(view.now.wall().seconds).saturating_sub(RECENT_SECONDS);
    let is_recent = |crash: &Crash| crash.is_new() && crash.seconds() >= limit;
    let recent: Vec<Crash> = crashes(view.state).into_iter().filter(is_recent).collect();
    let count = recent.len();
    let lines = recent.iter().map(|crash| {
        let (entity, host, at) = (crash.entity(), crash.host(), crash.timestamp());
        format!("{entity} crashed on host {host} at {at}")
    });
    let step = "'ceph crash info ID' shows each of 'ceph crash ls-new'; 'ceph crash archive ID' when it is understood";
    let details = next_step(lines, step);
    let summary = format!("{count} daemons have recently crashed");
    health.warn("RECENT_CRASH", count, summary, details);
}
