//! Commands on subvolumes that wait until a worker has carried them out.
//!
//! Monitors have no client of file systems. The leader therefore hands such a command, as an [`Order`], to a
//! worker: a process with a client of its own, which asks for orders and reports their outcome. One worker is
//! *trusted* at a time, and gets all orders; another one takes over when it has been silent for
//! [`SILENCE_MAX`], or its session ends.
//!
//! Guarantees:
//! * A command is answered once: with its outcome, or after [`PATIENCE`] with ETIMEDOUT.
//! * An order of a worker that fell silent is handed to the next one, so it may be carried out twice. Orders
//!   are idempotent, as Ceph's are.

use crate::job::CommandJob;
use crate::volume_work::{Note, VolumeWork};
use engine::{ConnId, Time};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Orders that wait or are carried out; a further one is refused with EAGAIN.
pub(crate) const ORDERS_MAX: usize = 1024;
/// Workers that wait for orders; a further one is told at once that there are none.
const TAKERS_MAX: usize = 64;
/// Time after which a command without an outcome fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Time for which a worker's question for orders stays open.
const TAKE_MAX: Duration = Duration::from_secs(10);
/// Silence after which a worker is not trusted any more. A worker gives up an order earlier.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(100);

#[derive(Debug)]
struct Order {
    job: CommandJob,
    content: Value,
    adds_work: Option<i64>,
    since: Time,
    /// Whether the trusted worker has it.
    is_taken: bool,
}

#[derive(Debug)]
struct Taker {
    worker: String,
    job: CommandJob,
    since: Time,
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct Orders {
    last_id: u64,
    orders: BTreeMap<u64, Order>,
    takers: VecDeque<Taker>,
    /// When the trusted worker was last heard.
    heard: Time,
    /// The session in which it asks for orders.
    trusted_conn: Option<ConnId>,
    work: VolumeWork,
}

/// A command with the answer that it gets.
pub(crate) type Answered = (CommandJob, Outcome);

/// The answer to a command that waited.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// To a worker: an order, or an empty object.
    Order(Value),
    /// To a client.
    Answer(crate::command::Answer),
    /// To a client: no worker has carried it out in time.
    TimedOut { has_worker: bool },
    /// To a client: there are too many.
    Busy,
    /// To a client: this monitor does not lead any more.
    Deposed,
}

impl Outcome {
    /// To a worker: there is no order for it.
    fn none() -> Self {
        Outcome::Order(Value::Object(Default::default()))
    }
}

impl Orders {
    /// Whether a worker is the trusted one; if there is none, it becomes that.
    fn trusts(&mut self, now: Time, worker: &str) -> bool {
        if !self.has_worker(now) {
            self.work.trusted = Some(worker.to_owned());
            self.orders.values_mut().for_each(|order| order.is_taken = false);
            self.work.clones.clear();
        }
        let is_trusted = self.work.is_trusted(worker);
        if is_trusted {
            self.heard = now;
        }
        is_trusted
    }

    /// Performs a note of a command; returns the commands that are answered now.
    pub(crate) fn note(&mut self, now: Time, note: Note, job: Option<CommandJob>) -> Vec<Answered> {
        match (note, job) {
            (Note::Order { content, adds_work }, Some(job)) => {
                if self.orders.len() >= ORDERS_MAX {
                    return vec![(job, Outcome::Busy)];
                }
                // Ids of another leader's orders, whose outcomes may come late, are of another time.
                self.last_id = (self.last_id + 1).max(now.0);
                let order = Order { job, content, adds_work, since: now, is_taken: false };
                self.orders.insert(self.last_id, order);
            }
            (Note::Take { worker }, Some(job)) => {
                if self.trusts(now, &worker) {
                    self.trusted_conn = Some(job.conn);
                }
                if self.takers.len() >= TAKERS_MAX {
                    return vec![(job, Outcome::none())];
                }
                self.takers.push_back(Taker { worker, job, since: now });
            }
            (Note::Done { worker, id, answer }, _) => {
                // The outcome of a worker that is not trusted any more does not count: the next one has its
                // orders.
                let is_trusted = self.trusts(now, &worker);
                let is_taken = self.orders.get(&id).is_some_and(|order| order.is_taken);
                let known = Some(id).filter(|_| is_trusted && is_taken);
                if let Some(order) = known.and_then(|id| self.orders.remove(&id)) {
                    let generation = &mut self.work.generation;
                    order
                        .adds_work
                        .into_iter()
                        .for_each(|fs| *generation.entry(fs).or_default() += 1);
                    return vec![(order.job, Outcome::Answer(answer))];
                }
            }
            (Note::Progress { worker, clones }, _) => {
                let is_trusted = self.trusts(now, &worker);
                self.work.clones =
                    if is_trusted { clones } else { std::mem::take(&mut self.work.clones) };
            }
            _ => {}
        }
        self.hand_out()
    }

    /// Gives orders that are not taken to the trusted worker, if it waits.
    fn hand_out(&mut self) -> Vec<Answered> {
        let mut given = Vec::new();
        let Some(trusted) = &self.work.trusted else { return given };
        for (id, order) in self.orders.iter_mut().filter(|(_, order)| !order.is_taken) {
            let Some(at) = self.takers.iter().position(|taker| taker.worker == *trusted) else {
                break;
            };
            let Some(taker) = self.takers.remove(at) else { break };
            order.is_taken = true;
            let content = serde_json::json!({ "id": id, "order": order.content });
            given.push((taker.job, Outcome::Order(content)));
        }
        given
    }

    /// Answers what has waited for too long.
    pub(crate) fn tick(&mut self, now: Time) -> Vec<Answered> {
        let mut answered = Vec::new();
        let is_open = |taker: &Taker| now.since(taker.since) < TAKE_MAX;
        let (open, over) = std::mem::take(&mut self.takers).into_iter().partition(is_open);
        self.takers = open;
        for Taker { job, .. } in Vec::from(over) {
            answered.push((job, Outcome::none()));
        }
        let has_worker = self.has_worker(now);
        let is_overdue = |order: &Order| now.since(order.since) >= PATIENCE;
        let all = std::mem::take(&mut self.orders).into_iter();
        let (overdue, waiting) = all.partition::<BTreeMap<_, _>, _>(|(_, order)| is_overdue(order));
        self.orders = waiting;
        answered.extend(
            overdue.into_values().map(|order| (order.job, Outcome::TimedOut { has_worker })),
        );
        answered
    }

    /// Whether a worker was heard recently.
    pub fn has_worker(&self, now: Time) -> bool {
        self.work.trusted.is_some() && now.since(self.heard) < SILENCE_MAX
    }

    /// Forgets the commands of a session that has ended; their orders may still be carried out. Another
    /// worker takes over from the one that was there.
    pub fn forget(&mut self, conn: ConnId) {
        if self.trusted_conn == Some(conn) {
            (self.work.trusted, self.trusted_conn) = (None, None);
            self.orders.values_mut().for_each(|order| order.is_taken = false);
        }
        self.orders.retain(|_, order| order.job.conn != conn || order.is_taken);
        self.takers.retain(|taker| taker.job.conn != conn);
    }

    /// This monitor does not lead any more: its commands are answered, and its workers ask the next one.
    pub(crate) fn depose(&mut self) -> Vec<Answered> {
        let Orders { orders, takers, .. } = std::mem::take(self);
        let orders = orders.into_values().map(|order| (order.job, Outcome::Deposed));
        orders.chain(takers.into_iter().map(|taker| (taker.job, Outcome::none()))).collect()
    }

    /// The facts that commands read.
    pub fn work(&self) -> &VolumeWork {
        &self.work
    }

    /// Panics if the state contradicts itself.
    pub fn check_invariants(&self) {
        assert!(self.orders.len() <= ORDERS_MAX, "orders are bounded");
        assert!(self.takers.len() <= TAKERS_MAX, "waiting workers are bounded");
        let is_taken = self.orders.values().any(|order| order.is_taken);
        assert!(
            !is_taken || self.work.trusted.is_some(),
            "an order is taken by the trusted worker"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Answer;
    use crate::job::Channel;
    use serde_json::json;

    fn job(conn: u64) -> Option<CommandJob> {
        let channel = Channel::Manager;
        let (command, input) = (Vec::new(), Default::default());
        Some(CommandJob { conn: ConnId(conn), tid: 1, channel, command, input, asked: Time::ZERO })
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn order(orders: &mut Orders, seconds: u64, name: &str) -> Vec<(u64, Outcome)> {
        let note = Note::Order { content: json!(name), adds_work: Some(1) };
        told(orders.note(at(seconds), note, job(1)))
    }

    fn take(orders: &mut Orders, seconds: u64, worker: &str, conn: u64) -> Vec<(u64, Outcome)> {
        told(orders.note(at(seconds), Note::Take { worker: worker.to_owned() }, job(conn)))
    }

    fn done(orders: &mut Orders, seconds: u64, worker: &str, id: u64) -> Vec<(u64, Outcome)> {
        let answer = Answer::said("done");
        told(orders.note(at(seconds), Note::Done { worker: worker.to_owned(), id, answer }, None))
    }

    fn told(answered: Vec<Answered>) -> Vec<(u64, Outcome)> {
        answered.into_iter().map(|(job, outcome)| (job.conn.0, outcome)).collect()
    }

    /// The id of the first order of a second.
    fn id(second: u64) -> u64 {
        at(second).0
    }

    fn given(second: u64, name: &str) -> Outcome {
        Outcome::Order(json!({ "id": id(second), "order": name }))
    }

    #[test]
    fn an_order_goes_to_the_worker_that_waits_and_its_outcome_to_the_client() {
        let mut orders = Orders::default();
        assert_eq!(take(&mut orders, 1, "a", 7), []);
        assert_eq!(order(&mut orders, 1, "x"), [(7, given(1, "x"))]);
        orders.check_invariants();
        let answer = Outcome::Answer(Answer::said("done"));
        assert_eq!(done(&mut orders, 2, "a", id(1)), [(1, answer)]);
        assert_eq!(done(&mut orders, 2, "a", id(1)), [], "an outcome counts once");
        assert_eq!(orders.work().generation(1), 1);
    }

    #[test]
    fn one_worker_gets_all_orders_until_it_is_silent() {
        let mut orders = Orders::default();
        assert_eq!(take(&mut orders, 1, "a", 7), []);
        assert_eq!(take(&mut orders, 1, "b", 8), []);
        assert_eq!(order(&mut orders, 1, "x"), [(7, given(1, "x"))]);
        assert_eq!(order(&mut orders, 2, "y"), [], "b is not trusted");
        assert_eq!(told(orders.tick(at(11))), [(8, Outcome::Order(json!({})))]);
        // The silent worker's order is handed to the next one.
        let later = 1 + SILENCE_MAX.as_secs();
        assert_eq!(take(&mut orders, later, "b", 8), [(8, given(1, "x"))]);
        assert_eq!(take(&mut orders, later, "b", 8), [(8, given(2, "y"))]);
        orders.check_invariants();
    }

    #[test]
    fn a_late_outcome_answers_no_other_command() {
        let mut orders = Orders::default();
        assert_eq!(take(&mut orders, 1, "a", 7), []);
        assert_eq!(order(&mut orders, 1, "x"), [(7, given(1, "x"))]);
        orders.depose();
        assert_eq!(
            order(&mut orders, 2, "y"),
            [],
            "the next leader's, after it was led away and back"
        );
        assert_eq!(done(&mut orders, 3, "a", id(1)), []);
        // An order that was not handed out has no outcome.
        assert_eq!(done(&mut orders, 3, "a", id(2)), []);
        assert_eq!(take(&mut orders, 3, "a", 7), [(7, given(2, "y"))]);
    }

    #[test]
    fn what_waits_for_too_long_is_answered() {
        let mut orders = Orders::default();
        assert_eq!(order(&mut orders, 1, "x"), []);
        assert_eq!(told(orders.tick(at(2))), []);
        let overdue = at(1) + PATIENCE;
        assert_eq!(told(orders.tick(overdue)), [(1, Outcome::TimedOut { has_worker: false })]);
        assert_eq!(told(orders.tick(overdue)), []);
    }

    #[test]
    fn too_many_orders_are_refused() {
        let mut orders = Orders::default();
        for _ in 0..ORDERS_MAX {
            assert_eq!(order(&mut orders, 1, "x"), []);
        }
        assert_eq!(order(&mut orders, 1, "x"), [(1, Outcome::Busy)]);
        orders.check_invariants();
        assert_eq!(orders.depose().len(), ORDERS_MAX);
    }

    #[test]
    fn the_commands_of_a_closed_session_are_forgotten() {
        let mut orders = Orders::default();
        order(&mut orders, 1, "x");
        orders.forget(ConnId(1));
        assert_eq!(take(&mut orders, 1, "a", 7), []);
        orders.forget(ConnId(7));
        assert_eq!(order(&mut orders, 1, "y"), []);
    }
}
