//! How much memory requests may take, besides their messages: for answers, for what they load to find
//! them, and for writes that are longer than what was sent.
//!
//! What a request takes is known before it is allocated: execution adds up the cost of its operations
//! (`execute/cost.rs`), and nothing is loaded or built before so much is reserved here. What does not fit
//! waits, in order of arrival; nothing is dropped. A reservation ends with its request, of a write when it
//! is durable everywhere, or when the request begins anew.
//!
//! Whoever holds a reservation waits for no other one of its class: a request that needs more than it
//! thought gets it at once, or gives back all that it has. There are three classes, because a copy waits
//! for pieces of its source, and a piece for requests before it in its object's queue. So pieces wait for
//! requests, copies for pieces, and nothing in a circle.

use crate::request::Request;
use crate::requests::Requests;
use crate::{Budgets, Osd};
use engine::Time;
use std::collections::VecDeque;
use types::Errno;
use wire::op::OpCode;

/// What a request is to others that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Request,
    /// It waits for other OSDs.
    Copy,
    /// It is what copies wait for.
    Piece,
}

#[derive(Debug, Default)]
struct Account {
    held: u64,
    /// Requests that wait, with the attempt that they wait in and what they need.
    waiting: VecDeque<(u64, u32, u64)>,
}

#[derive(Debug, Default)]
pub(crate) struct Budget {
    requests: Account,
    copies: Account,
    pieces: Account,
}

impl Class {
    pub fn of(request: &Request, is_from_osd: bool) -> Class {
        let is_any =
            |wanted: fn(OpCode) -> bool| request.message.ops.iter().any(|op| wanted(op.code));
        if is_any(|code| matches!(code, OpCode::COPY_FROM | OpCode::COPY_FROM2)) {
            Class::Copy
        } else if is_from_osd {
            Class::Piece
        } else {
            Class::Request
        }
    }

    fn limit(self, budgets: &Budgets) -> u64 {
        match self {
            Class::Request => budgets.expansion,
            Class::Copy => budgets.copies,
            Class::Piece => budgets.pieces,
        }
    }

    const ALL: [Class; 3] = [Class::Piece, Class::Copy, Class::Request];
}

impl Budget {
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

    /// Gives back what a request holds.
    pub fn release(&mut self, request: &mut Request) {
        let held = std::mem::take(&mut request.reserved);
        self.account(request.class).held -= held;
    }

    /// The next request that may go on, with what it has now.
    fn grant(&mut self, requests: &mut Requests, budgets: &Budgets) -> Option<u64> {
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
                request.reserved = needed;
                return Some(key);
            }
        }
        None
    }
}

impl Osd {
    /// Sees to it that a request holds `needed`. True if it does, false if it waits, as one that begins
    /// anew when its turn comes.
    pub(crate) fn reserve_memory(&mut self, key: u64, needed: u64) -> Result<bool, Errno> {
        let request = self.requests.get_mut(key).expect("the caller has it");
        if needed <= request.reserved {
            return Ok(true);
        }
        let class = request.class;
        let limit = class.limit(&self.config.sizes.budgets);
        if needed > limit {
            return Err(Errno::TOOBIG);
        }
        let account = self.budget.account(class);
        let more = needed - request.reserved;
        if account.waiting.is_empty() && account.held + more <= limit {
            account.held += more;
            request.reserved = needed;
            return Ok(true);
        }
        let (is_marked, at) = (request.is_marked, request.at);
        self.start_over(key);
        let request = self.requests.get_mut(key).expect("it was just there");
        (request.is_marked, request.at) = (is_marked, at);
        let entry = (key, request.attempt, needed);
        self.budget.account(class).waiting.push_back(entry);
        Ok(false)
    }

    /// A request begins anew, as if it had just arrived, and holds nothing.
    pub(crate) fn start_over(&mut self, key: u64) {
        let Some(request) = self.requests.get_mut(key) else { return };
        self.budget.release(request);
        request.reset();
    }

    /// Lets those go on for whom there is room now.
    pub(crate) fn grant_memory(&mut self, now: Time) {
        let budgets = self.config.sizes.budgets;
        while let Some(key) = self.budget.grant(&mut self.requests, &budgets) {
            match self.requests.get(key).is_some_and(|request| request.nature.is_pg_op) {
                true => self.list(key),
                false => self.go_on(now, key),
            }
        }
    }

    /// What is held is what requests hold, and no more than there is; what they have loaded they hold.
    pub(crate) fn check_budgets(&self) {
        let sum = |class: Class| {
            let of_class = self.requests.checked().filter(|(_, request)| request.class == class);
            of_class.map(|(_, request)| request.reserved).sum::<u64>()
        };
        let Budget { requests, copies, pieces } = &self.budget;
        for (class, account) in
            [(Class::Request, requests), (Class::Copy, copies), (Class::Piece, pieces)]
        {
            assert_eq!(account.held, sum(class), "{class:?}");
            let limit = class.limit(&self.config.sizes.budgets);
            assert!(account.held <= limit, "{class:?} hold {}", account.held);
        }
        for (_, request) in self.requests.checked() {
            let loaded = request.loaded.bytes();
            assert!(loaded <= request.reserved, "{loaded} loaded, {} reserved", request.reserved);
        }
        let of_clients = self.requests.checked().filter(|(_, request)| request.is_of_client());
        let in_work = of_clients.map(|(_, request)| request.bytes).chain(self.placing.charged());
        let (count, bytes) = in_work.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
        assert_eq!((count, bytes), (self.inflight.requests, self.inflight.bytes));
    }
}
