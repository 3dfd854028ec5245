//! Requests to the store, and the dispatch of their completions.

use crate::Osd;
use crate::execute::{Answer, Need};
use crate::groups::Group;
use crate::objects::state_of;
use crate::osd::Stage;
use crate::placement::Placed;
use crate::placing::Then;
use crate::scrub::ScrubTag;
use crate::{failed_disk, stored_maps};
use engine::{Output, Time};
use pg::{Pg, Tag};
use store::{Completion, Outcome, Request, RequestKind, StoreError};
use types::{Epoch, Errno, HObject, PgId};

/// A request to the store that is not complete, with the context that its completion needs.
#[derive(Debug)]
pub(crate) enum Pending {
    Collections,
    Group {
        pg: PgId,
        serial: u64,
        tag: Tag,
        /// Bytes that it adds, if it is a commit.
        bytes: u64,
    },
    /// The state of an object, for its context.
    State {
        pg: PgId,
        object: HObject,
        generation: u64,
    },
    /// A part of the state that a request needs.
    Need {
        request: u64,
        attempt: u32,
        need: Need,
    },
    /// A page of names for a listing.
    Listing {
        request: u64,
        attempt: u32,
    },
    /// Metadata of a listed head, which may be a whiteout.
    Listed {
        request: u64,
        attempt: u32,
        object: HObject,
    },
    /// A page of the index of clones, for a removed snapshot.
    Trim {
        pg: PgId,
        generation: u64,
    },
    Usage,
    MapLoaded,
    MapStored,
    /// A block of a benchmark, of so many bytes; zero for the final removal of its objects.
    Bench {
        bytes: u64,
    },
    Scrub {
        pg: PgId,
        serial: u64,
        tag: ScrubTag,
    },
}

impl Osd {
    /// Sends a request to the store; `pending` returns with its completion.
    pub(crate) fn ask_store(&mut self, pending: Pending, kind: RequestKind) {
        let token = self.storage.insert(pending);
        self.outputs.push_back(Output::Storage(Request { token, kind }));
    }

    /// Handles a completion of the store. Ones for groups, objects or attempts that are gone are ignored.
    pub(crate) fn complete(&mut self, now: Time, completion: Completion) {
        let Some(pending) = self.storage.remove(completion.token) else { return };
        let outcome = completion.outcome;
        if let Some(error) = failed_disk::condemns(&pending, &outcome) {
            self.disk_failed(now, &error);
        }
        if self.stage == Stage::Failed && !matches!(pending, Pending::Usage) {
            return;
        }
        match pending {
            Pending::Collections => self.load_groups(now, outcome),
            Pending::Group { pg, serial, tag, bytes } => {
                self.reporting.end_commit(bytes);
                if matches!(outcome, Err(StoreError::NoSpace { .. })) {
                    self.reporting.note_refusal(now);
                }
                if let Some(group) = self.groups.get_mut(&pg).filter(|g| g.serial == serial) {
                    if !group.pg.is_serving() {
                        group.tell_time(&self.leases, now);
                    }
                    group.pg.handle_completion(tag, outcome);
                    self.pump_group(now, pg);
                    self.finish_loading(now);
                }
                self.check_room(now);
            }
            Pending::State { pg, object, generation } => {
                self.state_loaded(now, pg, object, generation, outcome);
            }
            Pending::Need { request, attempt, need } => {
                // The device may have failed in one place only: the object is recovered from another copy.
                let has_failed = outcome.as_ref().is_err_and(StoreError::may_heal);
                if has_failed
                    && (self.read_again(request, attempt, &need)
                        || self.heal(now, request, attempt))
                {
                    return;
                }
                let answer = answer(outcome, &need);
                self.need_loaded(now, request, attempt, need, answer);
            }
            Pending::Listing { request, attempt } => self.listed(request, attempt, outcome),
            Pending::Listed { request, attempt, object } => {
                self.listed_object(request, attempt, &object, outcome);
            }
            Pending::Trim { pg, generation } => self.trim_listed(now, pg, generation, outcome),
            Pending::Usage => self.usage_known(now, outcome),
            Pending::MapLoaded => self.map_loaded(now, outcome),
            Pending::MapStored if outcome.is_err() => self.stored_maps.failed(),
            Pending::MapStored => {}
            Pending::Bench { bytes } => self.bench_stored(now, bytes, outcome),
            Pending::Scrub { pg, serial, tag } => {
                if self.groups.get(&pg).is_some_and(|group| group.serial == serial) {
                    self.scrub_completed(now, pg, tag, outcome);
                }
            }
        }
    }

    fn load_groups(&mut self, now: Time, outcome: Result<Outcome, StoreError>) {
        let collections = match outcome {
            Ok(Outcome::Collections(collections)) => collections,
            other => {
                tracing::error!(osd = %self.config.id, ?other, "the store cannot be read");
                return;
            }
        };
        self.leases.begin(now);
        for collection in collections {
            if collection == stored_maps::collection() {
                self.load_map();
                continue;
            }
            self.group_serial += 1;
            let pg = Pg::load(collection.0, self.config.id).with_sizes(self.config.sizes.groups);
            let group = Group::new(pg, self.group_serial);
            self.groups.insert(collection.0, Box::new(group));
            self.pump_group(now, collection.0);
        }
        self.finish_loading(now);
    }

    /// Ends the loading stage when all groups and the map have been read.
    pub(crate) fn finish_loading(&mut self, now: Time) {
        if self.stage != Stage::Loading || self.stored_maps.is_loading {
            return;
        }
        // A loaded group stays loaded, so each is checked again only until it is.
        let mut rest = self.groups.range(self.loaded_below..);
        let loading = rest.find(|(_, group)| !group.pg.is_loaded());
        let Some((pg, _)) = loading else { return self.report_for_duty(now) };
        self.loaded_below = *pg;
    }

    /// All groups and the map are loaded: connects to a monitor, after the groups have handled the
    /// stored map.
    fn report_for_duty(&mut self, now: Time) {
        self.stage = Stage::Booting;
        if self.epoch() > Epoch(0) {
            self.placed = Placed::of(&self.map);
            self.begin_placing(now, Then::Boot);
            return self.go_on_with_maps(now);
        }
        self.go_to_monitor(now);
    }

    /// Connects to a monitor for the first time.
    pub(crate) fn go_to_monitor(&mut self, now: Time) {
        self.connect_to_monitor();
        self.reporting.request(now);
    }
}

/// The outcome of the store in the terms of execution.
fn answer(outcome: Result<Outcome, StoreError>, need: &Need) -> Answer {
    match outcome {
        Ok(Outcome::Read(read)) => Answer::Data(read),
        Ok(Outcome::OmapHeader(header)) => Answer::OmapHeader(header),
        Ok(Outcome::OmapPairs(pairs)) => Answer::OmapPairs(pairs),
        Ok(Outcome::OmapPage(page)) => Answer::OmapPage(page),
        Ok(Outcome::Meta(meta)) => match meta.as_ref().and_then(state_of) {
            Some(clone) => Answer::Clone(Box::new(clone)),
            None => Answer::Failed(Errno::IO.negative()),
        },
        Ok(other) => unreachable!("{need:?} was answered by {other:?}"),
        Err(StoreError::NoObject { .. }) => Answer::Failed(Errno::NOENT.negative()),
        Err(error) => {
            tracing::error!(%error, "an object cannot be read");
            Answer::Failed(Errno::IO.negative())
        }
    }
}
