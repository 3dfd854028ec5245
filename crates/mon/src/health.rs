//! Health checks of the cluster, with the names of Ceph's checks.
//!
//! A check has a summary, which counts, and details, which name the affected daemons, groups or pools and end
//! with the next step for the administrator.

mod check;
pub(crate) mod crashes;
pub(crate) mod file_systems;
pub(crate) mod groups;
pub(crate) mod history;
pub(crate) mod monitors;
pub(crate) mod osds;
pub(crate) mod pools;
pub(crate) mod scrubs;
pub(crate) mod versions;

pub use check::{Check, Checks, Health, Severity, View};

use crate::statistics::Statistics;
use check::DETAILS_MAX;

/// Runs all checks.
pub fn health(view: &View<'_>) -> Health {
    let mut health = Health::default();
    view.checks.iter().copied().flatten().for_each(|check| check(&mut health, view));
    add_reported(&mut health, view.live.stats);
    health.muted = view.state.mutes.iter().map(|mute| mute.code.clone()).collect();
    health
}

/// Adds the checks that OSDs report about themselves, such as slow operations.
fn add_reported(health: &mut Health, stats: &Statistics) {
    for (osd, report) in stats.osds() {
        for (name, message) in &report.health {
            let check = health.reported.entry(name.clone()).or_insert_with(|| Check {
                severity: Severity::Warning,
                summary: message.clone(),
                count: 0,
                details: Vec::new(),
            });
            check.count += 1;
            if check.count > 1 {
                check.summary = format!("{} OSDs: {message}", check.count);
            }
            if check.details.len() < DETAILS_MAX {
                check.details.push(format!("osd.{osd}: {message}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::testing::Overview;
    use crate::services::CHECKS;
    use crate::state::{Mute, State};
    use engine::Time;
    use maps::{Osd, OsdMapFlags, OsdState};

    fn look(state: &State) -> Health {
        let (stats, overview) = (&Statistics::default(), &Overview::default());
        health(&View { state, live: overview.live(stats), checks: CHECKS, now: Time(0) })
    }

    #[test]
    fn muted_checks_are_listed_but_do_not_count() {
        let mut state = State::default();
        state.osdmap.flags = OsdMapFlags::NOOUT;
        state.osdmap.osds = vec![Osd { state: OsdState::EXISTS | OsdState::UP, ..Osd::default() }];
        let loud = look(&state);
        assert_eq!(loud.plain(false), "HEALTH_WARN noout flag(s) set\n");
        state.mutes.push(Mute {
            code: "OSDMAP_FLAGS".to_owned(),
            sticky: false,
            summary: String::new(),
            count: 1,
            expires_at: 0,
        });
        let quiet = look(&state);
        assert_eq!(quiet.plain(false), "HEALTH_OK (muted: OSDMAP_FLAGS)\n");
        assert_eq!(quiet.json(&state, true)["checks"]["OSDMAP_FLAGS"]["muted"], true);
    }
}
