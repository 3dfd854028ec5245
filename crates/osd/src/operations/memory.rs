//! Reservation of memory for requests besides their messages: replies, loaded state, and writes that
//! are longer than their input.
//!
//! The memory a request needs is known before it is allocated: execution adds up the cost of its
//! operations (`execute/cost.rs`), and nothing is loaded or built before so much is reserved here.
//! Requests that do not fit wait, in order of arrival; nothing is dropped. A reservation ends with
//! its request, for a write when it is durable on all members, or when the request restarts.
//!
//! To exclude deadlock, a request that holds a reservation never waits for another one of its
//! class: if it needs more than estimated, it gets the difference at once or gives back everything.
//! There are three classes, because a copy waits for pieces of its source, and a piece for requests
//! before it in its object's queue. So pieces wait for requests, copies for pieces, and there is no
//! cycle.

use crate::Budgets;
use crate::operations::request::{Class, Request};
use crate::operations::requests::Requests;
use std::collections::VecDeque;
use types::Errno;

/// Memory of one class.
#[derive(Debug, Default)]
struct Account {
    /// Bytes.
    held: u64,
    /// Requests that wait: key, attempt in which they wait, bytes they need.
    waiting: VecDeque<(u64, u32, u64)>,
}

/// The accounts of all classes.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    requests: Account,
    copies: Account,
    pieces: Account,
}

impl Memory {
    /// Whether a request waits for memory.
    pub fn waits(&self, request: u64) -> bool {
        let accounts = [&self.requests, &self.copies, &self.pieces];
        let mut waiting = accounts.into_iter().flat_map(|account| &account.waiting);
        waiting.any(|(key, ..)| *key == request)
    }

    fn account(&mut self, class: Class) -> &mut Account {
        match class {
            Class::Request => &mut self.requests,
            Class::Copy => &mut self.copies,
            Class::Piece => &mut self.pieces,
        }
    }

    /// Returns the reservation of a request to its account.
    pub fn release(&mut self, request: &mut Request) {
        let held = std::mem::take(&mut request.memory.reserved);
        self.account(request.memory.class).held -= held;
    }

    /// Reserves for the next request that fits, and returns its key.
    pub fn grant(&mut self, requests: &mut Requests, budgets: &Budgets) -> Option<u64> {
        for class in Class::ALL {
            let account = self.account(class);
            while let Some((key, attempt, needed)) = account.waiting.front().copied() {
                let Some(request) = requests.get_mut(key).filter(|r| r.attempt == attempt) else {
                    account.waiting.pop_front();
                    continue;
                };
                if account.held + needed > class.limit(budgets) {
                    break;
                }
                account.waiting.pop_front();
                account.held += needed;
                request.memory.reserved = needed;
                return Some(key);
            }
        }
        None
    }

    /// Reserves memory, so that a request holds `needed` bytes. False if it waits: the request has
    /// restarted, and runs again when the memory is granted. `TOOBIG` if it needs more than the
    /// whole account.
    pub fn reserve(
        &mut self,
        requests: &mut Requests,
        budgets: &Budgets,
        key: u64,
        needed: u64,
    ) -> Result<bool, Errno> {
        let request = requests.get_mut(key).expect("the caller has it");
        if needed <= request.memory.reserved {
            return Ok(true);
        }
        let class = request.memory.class;
        let limit = class.limit(budgets);
        if needed > limit {
            return Err(Errno::TOOBIG);
        }
        let more = needed - request.memory.reserved;
        let account = self.account(class);
        if account.waiting.is_empty() && account.held + more <= limit {
            account.held += more;
            request.memory.reserved = needed;
            return Ok(true);
        }
        let (is_marked, at) = (request.is_marked, request.at);
        self.release(request);
        request.reset();
        (request.is_marked, request.at) = (is_marked, at);
        let entry = (key, request.attempt, needed);
        self.account(class).waiting.push_back(entry);
        Ok(false)
    }

    /// Panics unless each account holds the sum of its requests' reservations within its limit, and
    /// no request has loaded more than it reserved.
    pub fn check_invariants(&self, all: &Requests, budgets: &Budgets) {
        let sum = |class: Class| {
            let of_class = all.checked().filter(|(_, request)| request.memory.class == class);
            of_class.map(|(_, request)| request.memory.reserved).sum::<u64>()
        };
        let Memory { requests, copies, pieces } = self;
        for (class, account) in
            [(Class::Request, requests), (Class::Copy, copies), (Class::Piece, pieces)]
        {
            assert_eq!(account.held, sum(class), "{class:?}");
            let limit = class.limit(budgets);
            assert!(account.held <= limit, "{class:?} hold {}", account.held);
        }
        for (_, request) in all.checked() {
            let loaded = request.loaded.bytes();
            assert!(
                loaded <= request.memory.reserved,
                "{loaded} loaded, {} reserved",
                request.memory.reserved
            );
        }
    }
}
