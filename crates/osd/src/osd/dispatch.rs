//! Requests to the store, and the dispatch of their completions.

use crate::Osd;
use crate::env::Stage;
use crate::groups::Group;
use crate::maps::stored;
use crate::maps::telling::Then;
use crate::operations::state::answer;
use crate::tokens::Token;
use crate::work::Work;
use engine::Time;
use pg::Pg;
use store::{Completion, Outcome, StoreError};
use types::Epoch;

impl Osd {
    /// Handles a completion of the store. Ones for groups, objects or attempts that are gone are ignored.
    pub(crate) fn complete(&mut self, now: Time, completion: Completion) {
        let Some(token) = self.outbox.complete(completion.token) else { return };
        let outcome = completion.outcome;
        if let Err(error @ StoreError::Device(_)) = &outcome
            && token.is_vital()
        {
            self.disk_failed(now, error);
        }
        if self.env.stage == Stage::Failed && !matches!(token, Token::Usage) {
            return;
        }
        match token {
            Token::Collections => self.load_groups(now, outcome),
            Token::Group { pg, serial, tag, bytes } => {
                self.usage.end_commit(bytes);
                if matches!(outcome, Err(StoreError::NoSpace { .. })) {
                    self.usage.note_refusal();
                    self.report.request(now);
                }
                if let Some(group) = self.groups.by_id.get_mut(&pg).filter(|g| g.serial == serial) {
                    if !group.pg.is_serving() {
                        group.tell_time(&self.leases, now);
                    }
                    group.pg.handle_completion(tag, outcome);
                    self.settle_group(pg);
                    self.finish_loading(now);
                }
                self.check_room(now);
            }
            Token::State { object } => self.state_loaded(now, object, outcome),
            Token::Need { request, attempt, need } => {
                // The device may have failed in one place only: the object is recovered from another copy.
                let has_failed = outcome.as_ref().is_err_and(StoreError::may_heal);
                if has_failed
                    && (self.read_again(request, attempt, &need) || self.heal(request, attempt))
                {
                    return;
                }
                let answer = answer(outcome, &need);
                if self.operations.need_loaded(request, attempt, need, answer) {
                    self.work.push(Work::Continue(request));
                }
            }
            Token::Listing { request, attempt } => self.listed(request, attempt, outcome),
            Token::Listed { request, attempt, object } => {
                self.listed_object(request, attempt, &object, outcome);
            }
            Token::Trim { pg, generation } => self.trim_listed(now, pg, generation, outcome),
            Token::Usage => self.usage_known(now, outcome),
            Token::MapLoaded => self.map_loaded(now, outcome),
            Token::MapStored if outcome.is_err() => self.maps.store_failed(),
            Token::MapStored => {}
            Token::Bench { bytes } => self.bench_stored(now, bytes, outcome),
            Token::Scrub { pg, serial, tag } => {
                if self.groups.by_id.get(&pg).is_some_and(|group| group.serial == serial) {
                    self.scrub_completed(now, pg, tag, outcome);
                }
            }
        }
    }

    fn load_groups(&mut self, now: Time, outcome: Result<Outcome, StoreError>) {
        let collections = match outcome {
            Ok(Outcome::Collections(collections)) => collections,
            other => {
                tracing::error!(osd = %self.env.config.id, ?other, "the store cannot be read");
                return;
            }
        };
        self.leases.begin(now);
        for collection in collections {
            if collection == stored::collection() {
                self.load_map();
                continue;
            }
            self.groups.last_serial += 1;
            let pg =
                Pg::load(collection.0, self.env.config.id).with_sizes(self.env.config.sizes.groups);
            let group = Group::new(pg, self.groups.last_serial);
            self.groups.by_id.insert(collection.0, Box::new(group));
            self.settle_group(collection.0);
        }
        self.finish_loading(now);
    }

    /// Ends the loading stage when all groups and the map have been read.
    pub(crate) fn finish_loading(&mut self, now: Time) {
        if self.env.stage != Stage::Loading || self.maps.is_loading() {
            return;
        }
        // A loaded group stays loaded, so each is checked again only until it is.
        let mut rest = self.groups.by_id.range(self.groups.loaded_below..);
        let loading = rest.find(|(_, group)| !group.pg.is_loaded());
        let Some((pg, _)) = loading else { return self.report_for_duty(now) };
        self.groups.loaded_below = *pg;
    }

    /// All groups and the map are loaded: connects to a monitor, after the groups have handled the
    /// stored map.
    fn report_for_duty(&mut self, now: Time) {
        self.env.stage = Stage::Booting;
        if self.epoch() > Epoch(0) {
            self.maps.note_placed();
            self.begin_placing(now, Then::Boot);
            return self.go_on_with_maps(now);
        }
        self.go_to_monitor(now);
    }

    /// Connects to a monitor for the first time.
    pub(crate) fn go_to_monitor(&mut self, now: Time) {
        self.connect_to_monitor();
        self.report.request(now);
    }
}
