//! Failure detection: scripts of reports, and the OSDs that are marked down and out.

mod cluster;

use cluster::Cluster;
use engine::Daemon;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{Epoch, OsdId};
use wire::{OsdFailure, OsdMarkMeDown};

/// A cluster with the script that drives it, one step or check per line:
///
/// * `host NAME OSD…`: boots OSDs on a host.
/// * `A silent B for S`: A reports that B has not answered for so many seconds.
/// * `A refused B`: A reports that B's port is closed. `A hears B`: A cancels its report.
/// * `OSD… report for S`: each of these reports every five seconds for so long.
/// * `wait S`, `boot A` (the same process again), `restart A`, `leave A` (it shuts down).
/// * `lose A`: its session with the monitor ends.
/// * `option NAME VALUE`, `osd COMMAND ARGUMENT`: an administrator's commands.
/// * `up OSD…`, `in OSD…`: exactly these are. `log TEXT`: the last entry contains this, `logged TEXT`: one of
///   the last ones does.
/// * `health CHECK`, `healthy CHECK`: a check fails, or not. `detail TEXT`: a line of one contains this.
struct Story {
    cluster: Cluster,
    hosts: BTreeMap<i32, String>,
    starts: BTreeMap<i32, u32>,
}

fn number(word: &str) -> i32 {
    word.parse().unwrap_or_else(|_| panic!("'{word}' is no number"))
}

impl Story {
    fn tell(text: &str) {
        let (hosts, starts) = (BTreeMap::new(), BTreeMap::new());
        let mut story = Story { cluster: Cluster::empty(), hosts, starts };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            story.line(line, &words);
        }
    }

    fn line(&mut self, line: &str, words: &[&str]) {
        match words {
            ["host", name, osds @ ..] => {
                for osd in osds.iter().map(|word| number(word)) {
                    self.hosts.insert(osd, (*name).to_owned());
                    self.boot(osd, 1);
                }
            }
            [from, "silent", target, "for", seconds] => {
                self.report(number(from), number(target), OsdFailure::FAILED, number(seconds));
            }
            [from, "refused", target] => {
                let flags = OsdFailure::FAILED | OsdFailure::IMMEDIATE;
                self.report(number(from), number(target), flags, 0);
            }
            [from, "finds", target, "dead"] => {
                let flags = OsdFailure::FAILED | OsdFailure::IMMEDIATE | OsdFailure::DEAD;
                self.report(number(from), number(target), flags, 0);
            }
            ["dead", osd] => assert!(self.is_dead(osd), "{line}"),
            ["undead", osd] => assert!(!self.is_dead(osd), "{line}"),
            [from, "hears", target] => self.report(number(from), number(target), 0, 0),
            ["wait", seconds] => {
                self.cluster.advance(Duration::from_secs(number(seconds) as u64));
            }
            [osds @ .., "report", "for", seconds] => {
                for _ in 0..number(seconds) / 5 {
                    osds.iter().for_each(|osd| self.cluster.report(number(osd), 0));
                    self.cluster.advance(Duration::from_secs(5));
                }
            }
            ["boot", osd] => self.boot(number(osd), 0),
            ["restart", osd] => self.boot(number(osd), 1),
            // With an older map than the one in which the target booted.
            ["outdated", osd, "refused", target] => {
                let map = &self.cluster.monitor.state().osdmap;
                let epoch = map.osd(OsdId(number(target))).unwrap().info.up_from;
                let certain = OsdFailure::FAILED | OsdFailure::IMMEDIATE;
                self.report_by(Epoch(epoch.0 - 1), number(osd), number(target), certain, 0);
            }
            ["leave", osd] => self.leave(number(osd)),
            ["lose", osd] => {
                let conn = Cluster::osd_conn(number(osd));
                self.cluster.monitor.handle_closed(self.cluster.now, conn);
                self.cluster.drain();
            }
            ["option", name, value] => {
                let reply = self.cluster.command(json!({
                    "prefix": "config set", "who": "global", "name": name, "value": value,
                }));
                assert_eq!(reply.result, 0, "{line}: {}", reply.text);
            }
            ["osd", command, arguments @ ..] => self.administer(line, command, arguments),
            ["up", osds @ ..] => self.expect(line, osds, |osd| osd.is_up()),
            ["in", osds @ ..] => self.expect(line, osds, |osd| osd.is_in()),
            ["log", ..] => {
                let log = self.cluster.plain(json!({ "prefix": "log last", "num": 1 }));
                assert!(log.contains(line.trim_start_matches("log ")), "{line}: {log}");
            }
            ["logged", ..] => {
                let log = self.cluster.plain(json!({ "prefix": "log last", "num": 20 }));
                assert!(log.contains(line.trim_start_matches("logged ")), "{line}: {log}");
            }
            ["detail", ..] => {
                let command = json!({ "prefix": "health", "detail": "detail" });
                let details = self.cluster.plain(command);
                assert!(details.contains(line.trim_start_matches("detail ")), "{line}: {details}");
            }
            ["health", check] => assert!(self.raised(check), "{line}"),
            ["healthy", check] => assert!(!self.raised(check), "{line}"),
            _ => panic!("what does '{line}' mean?"),
        }
    }

    /// Whether the map says that it has served no reads since it was marked down.
    fn is_dead(&self, osd: &str) -> bool {
        let map = &self.cluster.monitor.state().osdmap;
        let known = map.osd(OsdId(number(osd))).unwrap();
        !known.is_up() && known.xinfo.dead_epoch.next() == known.info.down_at
    }

    fn boot(&mut self, osd: i32, starts: u32) {
        let started = self.starts.entry(osd).or_default();
        *started += starts;
        self.cluster.boot_on(osd, *started, &self.hosts[&osd]);
    }

    fn report(&mut self, from: i32, target: i32, flags: u8, failed_for_seconds: i32) {
        let epoch = self.cluster.monitor.state().osdmap.epoch;
        self.report_by(epoch, from, target, flags, failed_for_seconds);
    }

    fn report_by(&mut self, epoch: Epoch, from: i32, target: i32, flags: u8, seconds: i32) {
        let target = OsdId(target);
        let map = &self.cluster.monitor.state().osdmap;
        let target_addrs = map.osd(target).unwrap().client_addrs.clone();
        let failure = OsdFailure {
            target,
            target_addrs,
            epoch,
            flags,
            failed_for_seconds: seconds,
            ..OsdFailure::default()
        };
        self.cluster.send(Cluster::osd_conn(from), 0, &failure);
    }

    fn leave(&mut self, osd: i32) {
        let map = &self.cluster.monitor.state().osdmap;
        let target_addrs = map.client_addrs(OsdId(osd)).unwrap().clone();
        let message =
            OsdMarkMeDown { target: OsdId(osd), target_addrs, ..OsdMarkMeDown::default() };
        self.cluster.send(Cluster::osd_conn(osd), 0, &message);
    }

    fn administer(&mut self, line: &str, command: &str, arguments: &[&str]) {
        let prefix = format!("osd {command}");
        let command = match (command, arguments) {
            ("set" | "unset", [key]) => json!({ "prefix": prefix, "key": key }),
            ("set-group" | "unset-group", [flags, who @ ..]) => {
                json!({ "prefix": prefix, "flags": flags, "who": who })
            }
            (_, ids) => json!({ "prefix": prefix, "ids": ids }),
        };
        let reply = self.cluster.command(command);
        assert_eq!(reply.result, 0, "{line}: {}", reply.text);
    }

    fn expect(&self, line: &str, osds: &[&str], is: fn(&maps::Osd) -> bool) {
        let expected: Vec<i32> = osds.iter().map(|word| number(word)).collect();
        let map = &self.cluster.monitor.state().osdmap;
        let found = map.existing_osds().filter(|(_, osd)| is(osd)).map(|(osd, _)| osd.0);
        assert_eq!(found.collect::<Vec<_>>(), expected, "{line}");
    }

    fn raised(&mut self, check: &str) -> bool {
        let health = self.cluster.json(json!({ "prefix": "health" }));
        !health["checks"][check].is_null()
    }
}

#[test]
fn reporters_of_two_hosts_must_agree_and_the_grace_be_over() {
    Story::tell(
        "host a 0 1
         host b 2 3
         host c 4 5
         2 silent 0 for 3
         3 silent 0 for 3
         wait 10
         up 0 1 2 3 4 5
         4 silent 0 for 1
         up 0 1 2 3 4 5
         wait 2
         up 1 2 3 4 5
         logged osd.0 failed (root=default,host=a) (3 reporters from different host after",
    );
}

#[test]
fn a_report_that_is_taken_back_or_whose_reporter_goes_does_not_count() {
    Story::tell(
        "host a 0
         host b 1
         host c 2
         host d 3
         1 silent 0 for 9
         1 hears 0
         2 silent 0 for 9
         up 0 1 2 3
         leave 2
         1 silent 0 for 9
         up 0 1 3
         restart 2
         up 0 1 2 3
         3 silent 0 for 9
         up 1 2 3",
    );
}

#[test]
fn whoever_does_not_run_any_more_is_marked_dead_and_a_broken_session_proves_no_death() {
    Story::tell(
        "host a 0
         host b 1
         host c 2
         1 refused 0
         up 1 2
         undead 0
         1 finds 2 dead
         up 1
         dead 2
         logged osd.2 reported immediately failed by osd.1",
    );
}

#[test]
fn a_report_about_an_earlier_life_does_not_count() {
    Story::tell(
        "host a 0
         host b 1
         host c 2
         1 silent 0 for 9
         restart 0
         2 silent 0 for 9
         wait 5
         up 0 1 2",
    );
}

#[test]
fn sessions_that_end_because_an_osd_came_back_are_no_evidence_against_its_new_life() {
    Story::tell(
        "host a 0
         host b 1
         host c 2
         osd down 0
         boot 0
         up 0 1 2
         outdated 1 refused 0
         up 0 1 2
         1 refused 0
         up 1 2",
    );
}

#[test]
fn a_closed_port_is_evidence_from_one_reporter() {
    Story::tell(
        "host a 0 1
         host b 2
         host c 3
         2 refused 0
         up 1 2 3
         log osd.0 reported immediately failed by osd.2",
    );
}

#[test]
fn where_there_is_only_one_other_host_or_none_its_word_suffices() {
    Story::tell(
        "host a 0 1
         host b 2
         2 silent 0 for 9
         up 1 2",
    );
    Story::tell(
        "host a 0 1 2
         1 silent 0 for 9
         up 1 2",
    );
}

#[test]
fn the_level_and_number_of_reporters_can_be_set() {
    Story::tell(
        "host a 0 1 2 3
         host b 4
         host c 5
         option mon_osd_reporter_subtree_level osd
         option mon_osd_min_down_reporters 3
         1 silent 0 for 9
         2 silent 0 for 9
         up 0 1 2 3 4 5
         3 silent 0 for 9
         up 1 2 3 4 5",
    );
}

#[test]
fn nodown_holds_globally_per_osd_per_host_and_per_class_and_reports_wait() {
    for (set, unset) in [
        ("osd set nodown", "osd unset nodown"),
        ("osd add-nodown 0", "osd rm-nodown 0"),
        ("osd set-group nodown a", "osd unset-group nodown a"),
    ] {
        Story::tell(&format!(
            "host a 0
             host b 1
             host c 2
             {set}
             1 silent 0 for 9
             2 silent 0 for 9
             wait 3
             up 0 1 2
             {unset}
             wait 2
             up 1 2"
        ));
    }
}

#[test]
fn a_minority_cannot_mark_the_rest_down() {
    Story::tell(
        "host a 0 1 2 3 4 5 6 7 8
         host b 9
         option mon_osd_min_up_ratio 0.5
         9 silent 0 for 9
         9 silent 1 for 9
         9 silent 2 for 9
         9 silent 3 for 9
         9 silent 4 for 9
         9 silent 5 for 9
         9 silent 6 for 9
         9 silent 7 for 9
         wait 5
         up 6 7 8 9",
    );
}

#[test]
fn an_osd_that_was_judged_wrongly_gets_more_time() {
    Story::tell(
        "host a 0
         host b 1
         host c 2
         1 silent 0 for 9
         2 silent 0 for 9
         up 1 2
         wait 2
         boot 0
         up 0 1 2
         1 silent 0 for 2
         2 silent 0 for 2
         up 0 1 2
         wait 2
         up 1 2",
    );
    Story::tell(
        "host a 0
         host b 1
         host c 2
         1 silent 0 for 9
         2 silent 0 for 9
         up 1 2
         wait 2
         restart 0
         1 silent 0 for 2
         2 silent 0 for 2
         up 1 2",
    );
}

#[test]
fn an_osd_for_which_no_patience_would_have_sufficed_gets_no_more_time() {
    // Stopped for half a minute again and again: a longer grace would only have blocked its clients for
    // longer.
    Story::tell(
        "host a 0
         host b 1
         host c 2
         1 silent 0 for 2
         2 silent 0 for 2
         up 1 2
         wait 25
         boot 0
         1 silent 0 for 2
         2 silent 0 for 2
         up 1 2
         wait 25
         boot 0
         1 silent 0 for 2
         2 silent 0 for 2
         up 1 2
         wait 25
         boot 0
         1 silent 2 for 2
         0 silent 2 for 2
         up 0 1",
    );
}

#[test]
fn an_osd_that_flaps_is_kept_down_for_a_while() {
    Story::tell(
        "host a 0
         host b 1
         host c 2
         option mon_osd_adjust_heartbeat_grace false
         option osd_max_markdown_count 2
         option osd_max_markdown_period 600
         1 silent 0 for 9
         2 silent 0 for 9
         boot 0
         1 silent 0 for 9
         2 silent 0 for 9
         boot 0
         up 0 1 2
         1 silent 0 for 9
         2 silent 0 for 9
         boot 0
         up 1 2
         wait 300
         boot 0
         up 1 2
         wait 301
         boot 0
         up 0 1 2",
    );
}

#[test]
fn a_process_that_was_restarted_does_not_flap() {
    Story::tell(
        "host a 0
         host b 1
         host c 2
         option osd_max_markdown_count 0
         1 silent 0 for 9
         2 silent 0 for 9
         boot 0
         up 1 2
         restart 0
         up 0 1 2",
    );
}

#[test]
fn who_is_down_too_long_goes_out_and_comes_back_in() {
    Story::tell(
        "host a 0
         host b 1
         host c 2
         host d 3
         option mon_osd_down_out_interval 30
         leave 0
         wait 25
         in 0 1 2 3
         wait 7
         in 1 2 3
         logged Marking osd.0 out (has been down for
         leave 1
         wait 60
         in 2 3
         leave 2
         wait 60
         in 2 3
         restart 1
         restart 2
         restart 0
         in 0 1 2 3
         osd out 2
         restart 2
         in 0 1 3",
    );
}

#[test]
fn nobody_goes_out_where_that_is_held_or_switched_off() {
    for hold in [
        "osd set noout",
        "osd add-noout 0",
        "osd set-group noout a",
        "option mon_osd_down_out_interval 0",
    ] {
        Story::tell(&format!(
            "host a 0
             host b 1
             host c 2
             {hold}
             leave 0
             wait 2000
             in 0 1 2"
        ));
    }
}

#[test]
fn a_whole_host_stays_in_if_hosts_are_the_limit() {
    Story::tell(
        "host a 0 1
         host b 2 3
         host c 4 5
         option mon_osd_down_out_subtree_limit host
         leave 0
         leave 1
         leave 2
         wait 700
         in 0 1 3 4 5",
    );
}

#[test]
fn noup_and_noin_keep_osds_from_coming_back() {
    Story::tell(
        "host a 0
         host b 1
         host c 2
         option mon_osd_down_out_interval 10
         leave 0
         wait 12
         osd set noup
         restart 0
         up 1 2
         osd unset noup
         osd set-group noin a
         restart 0
         up 0 1 2
         in 1 2",
    );
}

#[test]
fn an_osd_without_a_session_is_marked_down_after_a_while() {
    Story::tell(
        "host a 0 1 2
         lose 0
         wait 15
         up 0 1 2
         wait 10
         up 1 2",
    );
}

#[test]
fn the_log_keeps_what_was_wrong_and_that_it_is_over() {
    Story::tell(
        "host a 0
         host b 1
         host c 2
         wait 5
         leave 0
         wait 5
         logged Health check failed: 1 osds down (OSD_DOWN)
         restart 0
         wait 5
         logged Health check cleared: OSD_DOWN (was: 1 osds down)
         log Cluster is now healthy",
    );
}

#[test]
fn an_osd_that_reports_nothing_is_named_soon_and_marked_down_in_the_end() {
    // Its session stays open, and no other OSD reports it.
    Story::tell(
        "host a 0
         host b 1
         host c 2
         0 1 2 report for 20
         1 2 report for 20
         healthy OSD_SILENT
         1 2 report for 10
         detail osd.0 (root=default,host=a) is up, and has not reported for 3
         1 2 report for 860
         up 0 1 2
         1 2 report for 10
         up 1 2
         healthy OSD_SILENT
         logged osd.0 marked down after no report for 900 seconds",
    );
}

#[test]
fn an_osd_that_only_one_host_misses_stays_up_and_is_named_with_the_reason() {
    Story::tell(
        "host a 0
         host b 1 2
         host c 3
         1 silent 0 for 2
         2 silent 0 for 2
         0 1 2 3 report for 10
         up 0 1 2 3
         detail is up, and osd.1, osd.2 (of 1 host; 2 must agree) do not hear from it
         osd set nodown
         3 silent 0 for 9
         0 1 2 3 report for 10
         detail osd.1, osd.2, osd.3 (of 2 hosts; 2 must agree) do not hear from it; the flag nodown keeps it up
         1 hears 0
         2 hears 0
         3 hears 0
         0 1 2 3 report for 5
         healthy OSD_SILENT",
    );
}
