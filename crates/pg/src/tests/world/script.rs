//! The script that drives the test world.
//!
//! ```text
//! map E UP...          publish an epoch with this up set (size 3, min_size 2); `-` is a hole
//! min N, size N        min_size and size of the pool, from the next map on
//! write NAME VALUE     a write at the primary
//! remove NAME
//! run                  deliver messages and completions, and publish the maps that primaries ask for,
//!                      until nothing is left
//! lose FROM TO         drop the next message in flight between them
//! deliver              like run, without completions of commits and without new maps
//! settle               like run, without new maps
//! until OSD STATE      like run, but only until the OSD is in that state; messages left are dropped
//! restart OSD          crash, and start again with the stored state
//! wipe OSD             crash, and start again with an empty disk
//! down OSD, up OSD     change its state in the next map; a down OSD takes part in nothing
//! lost OSD             the administrator marks it lost, as of the epoch in which it went down
//! hold, recover        stop all recovery and backfill; continue it
//! refuse OSD, allow OSD   whether it grants backfill reservations
//! retry OSD            retry after a lack of space or a refused reservation
//! time SECONDS         set the time
//! lease OSD SECONDS  the read lease that it granted to its primary holds until then
//! dead OSD E           it was seen dead in this epoch
//! commits OSD FATE...  outcomes of its store's next commits: ok, or full
//! states               the state of each OSD
//! acting               the acting set
//! get OSD NAME         the value of an object in a store
//! blocked NAME         whether a write to the object must wait for its recovery
//! missing OSD          its missing set
//! equal OSD OSD...     the copies hold the same objects and logs
//! confirmed            number of acknowledged writes since the last query
//! damage OSD NAME      make the object's data unreadable until the object is recreated
//! mend OSD NAME        make it readable again
//! damage-meta OSD NAME  make the object's metadata unreadable until the object is recreated
//! mend-meta OSD NAME   make it readable again
//! fail OSD KIND        one read of this kind fails: list, meta, read, omap
//! unfound OSD          the unfound objects
//! lost-object NAME     whether the primary reports the object as lost
//! unreadable NAME      the primary cannot read its own copy; yes if requests should wait
//! again                read all copies again that could not be read
//! older NAME           whether an older version is reachable
//! fill OSD             its store refuses everything that adds to objects
//! rest OSD             put its group into premerge
//! corrupt OSD NAME    the primary learns that this copy is bad; yes if it will be replaced
//! blocked-by OSD       the OSDs that block its peering
//! clean                whether the primary reports the group as clean
//! gap E UP...          like map, and maps before it are not available
//! divide E UP...       like map, and split the group into halves
//! merge E UP...        like map, and merge the two groups again
//! part OSD             the state of its copy of the other group
//! ```

use super::*;

impl World {
    pub fn run_script(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (command, expected) = line.split_once(" =>").unwrap_or((line, ""));
            let words: Vec<&str> = command.split_whitespace().collect();
            let output = self.command(&words);
            assert_eq!(output.trim(), expected.trim(), "after `{command}`");
            self.nodes.iter().for_each(|node| node.pg.check_invariants());
        }
    }

    fn command(&mut self, words: &[&str]) -> String {
        match words {
            ["map", epoch, up @ ..] => {
                let epoch = epoch.parse().unwrap();
                assert!(epoch > self.epoch, "the monitor is at {} already", self.epoch);
                (self.epoch, self.up) = (epoch, ids(up));
                self.temporary.clear();
                self.publish();
            }
            ["gap", rest @ ..] => {
                self.is_gap = true;
                let said = self.command(&[&["map"], rest].concat());
                self.is_gap = false;
                return said;
            }
            ["divide", rest @ ..] => {
                self.hash_bits = HASH_BITS + 1;
                return self.command(&[&["map"], rest].concat());
            }
            ["merge", rest @ ..] => {
                self.hash_bits = HASH_BITS;
                return self.command(&[&["map"], rest].concat());
            }
            ["min", number] => self.min_size = number.parse().unwrap(),
            ["size", number] => self.size = number.parse().unwrap(),
            ["write", name, value] => self.write(name, Some(value)),
            ["remove", name] => self.write(name, None),
            ["run"] => self.run(),
            ["settle"] => while self.step(true) {},
            ["deliver"] => while self.step(false) {},
            ["time", seconds] => self.pass_time(Time(seconds.parse().unwrap())),
            ["lose", from, to] => {
                let (from, to) = (ids(&[from])[0], ids(&[to])[0]);
                let mut on_way = self.messages.iter();
                let at = on_way.position(|(by, at, _)| (*by, *at) == (from, to));
                self.messages.remove(at.expect("there is one"));
            }
            ["hold"] => self.may_recover = false,
            ["recover"] => self.may_recover = true,
            ["states"] => {
                let states = self.nodes.iter().map(|node| format!("{:?}", node.pg.state()));
                return states.collect::<Vec<_>>().join(" ");
            }
            ["acting"] => return text(self.acting().into_iter()),
            ["clean"] => {
                let primary = self.primary();
                return if self.node(primary).pg.is_clean() { "yes" } else { "no" }.to_owned();
            }
            ["blocked", name] => {
                let primary = self.primary();
                let is_blocked = self.node(primary).pg.is_blocked(&object(name), true, false);
                return if is_blocked { "yes" } else { "no" }.to_owned();
            }
            ["lost-object", name] => {
                let primary = self.primary();
                let is_lost = self.node(primary).pg.is_lost(&object(name));
                return if is_lost { "yes" } else { "no" }.to_owned();
            }
            ["older", name] => {
                let primary = self.primary();
                let has_older = self.node(primary).pg.has_older(&object(name));
                return if has_older { "yes" } else { "no" }.to_owned();
            }
            ["unreadable", name] => {
                let (primary, object) = (self.primary(), object(name));
                let version = self.node(primary).pg.logged_version(&object);
                let waits = self.node(primary).pg.cannot_read(&object, version);
                self.drain();
                return if waits { "yes" } else { "no" }.to_owned();
            }
            ["again"] => {
                let primary = self.primary();
                self.node(primary).pg.retry_unreadable();
                self.drain();
            }
            ["equal", list @ ..] => self.assert_equal(&ids(list)),
            ["confirmed"] => return std::mem::take(&mut self.confirmed).to_string(),
            [command, osd, rest @ ..] => return self.command_to(command, ids(&[osd])[0], rest),
            other => panic!("no such command: {other:?}"),
        }
        String::new()
    }

    fn command_to(&mut self, command: &str, osd: OsdId, rest: &[&str]) -> String {
        let next = Epoch(self.epoch + 1);
        let node = self.node(osd);
        match command {
            "until" => self.run_until(osd, rest[0]),
            "restart" => self.restart(osd, false),
            "wipe" => self.restart(osd, true),
            "down" => (node.status.is_up, node.status.down_at) = (false, next),
            "up" => (node.status.is_up, node.status.up_from) = (true, next),
            "lost" => node.status.lost_at = node.status.down_at,
            "damage" => drop(node.damaged.insert(object(rest[0]))),
            "damage-meta" => drop(node.meta_damaged.insert(object(rest[0]))),
            "mend-meta" => assert!(node.meta_damaged.remove(&object(rest[0]))),
            "fail" => node.failing = Some(rest[0].to_owned()),
            "fill" => node.is_full = true,
            "rest" => node.pg.set_premerge(true),
            "unfound" => {
                let names = node.pg.unfound();
                let names = names.map(|object| String::from_utf8_lossy(&object.name).into_owned());
                return names.collect::<Vec<_>>().join(" ");
            }
            "mend" => assert!(node.damaged.remove(&object(rest[0]))),
            "corrupt" => return self.mark_corrupt(osd, rest[0]),
            "refuse" => node.may_fill = false,
            "allow" => node.may_fill = true,
            "retry" => {
                node.pg.retry_split_merge();
                node.pg.retry_recovery();
            }
            "lease" => node.granted_until = Time(rest[0].parse().unwrap()),
            "dead" => node.status.dead_epoch = Epoch(rest[0].parse().unwrap()),
            "commits" => node.fates = rest.iter().map(|fate| *fate == "ok").collect(),
            "get" => return self.get(osd, rest[0]),
            "blocked-by" => return text(node.pg.blocked_by()),
            "part" => {
                return node
                    .part
                    .as_ref()
                    .map_or("none".into(), |part| format!("{:?}", part.state()));
            }
            "missing" => {
                let names = node.pg.missing().iter();
                let names = names.map(|(object, _)| String::from_utf8_lossy(&object.name));
                return names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ");
            }
            _ => return self.state_command(command, osd, rest),
        }
        String::new()
    }

    fn mark_corrupt(&mut self, osd: OsdId, name: &str) -> String {
        let (primary, object) = (self.primary(), object(name));
        let version = self.node(primary).pg.logged_version(&object);
        let bad = [self.node(osd).pg.whoami()];
        let begun = self.node(primary).pg.mark_corrupt(&object, version, &bad);
        self.drain();
        if begun { "yes" } else { "no" }.to_owned()
    }
}
