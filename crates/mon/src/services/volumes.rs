//! Volumes and subvolumes. Commands on subvolumes are orders to a worker; the orders are kept by the leader,
//! in memory, and answered by it.

use crate::command::{Answer, Refusal};
use crate::commands::{admission, subvolume_marks, subvolumes, volumes};
use crate::job::CommandJob;
use crate::service::{Catalog, Cx, Family, Role, Service};
use crate::sessions::{Session, Sessions};
use crate::state::State;
use crate::volume_orders::{Answered, ORDERS_MAX, Orders, Outcome, PATIENCE};
use crate::volume_work::{Note, VolumeWork};
use engine::ConnId;
use types::Errno;

pub(super) const CATALOG: Catalog = Catalog {
    topics: &[],
    messages: &[],
    commands: &[
        Family(50, volumes::COMMANDS),
        Family(51, subvolumes::COMMANDS),
        Family(53, subvolume_marks::COMMANDS),
    ],
    checks: &[],
};

/// The service of volumes and subvolumes.
#[derive(Debug, Default)]
pub(crate) struct VolumesService {
    orders: Orders,
}

impl VolumesService {
    /// The facts that commands read.
    pub fn work(&self) -> &VolumeWork {
        self.orders.work()
    }

    /// Performs what a command wants of the orders. `job` is the command, if it is answered later.
    pub fn note(&mut self, cx: &mut Cx<'_>, note: Note, job: Option<CommandJob>, leads: bool) {
        let mut answered = self.orders.note(cx.now, note, job);
        if !leads {
            // No worker asks this monitor.
            answered.extend(self.orders.depose());
        }
        answer(cx, answered);
    }
}

impl Service for VolumesService {
    fn session_closed(&mut self, _cx: &mut Cx<'_>, conn: ConnId, _was: &Session) {
        self.orders.forget(conn);
    }

    fn tick(&mut self, cx: &mut Cx<'_>, role: Role) {
        if role == Role::Any {
            let answered = self.orders.tick(cx.now);
            answer(cx, answered);
        }
    }

    fn leadership(&mut self, cx: &mut Cx<'_>, leads: bool) {
        if !leads {
            let answered = self.orders.depose();
            answer(cx, answered);
        }
    }

    fn check_invariants(&self, _state: &State, _sessions: &Sessions) {
        self.orders.check_invariants();
    }
}

fn answer(cx: &mut Cx<'_>, answered: Vec<Answered>) {
    for (job, outcome) in answered {
        let message = admission::reply(&job, cx.state, answer_of(outcome));
        cx.send(job.conn, message);
    }
}

fn answer_of(outcome: Outcome) -> Answer {
    let refused = |errno, text: String| Answer::from(Refusal::new(errno, text));
    match outcome {
        Outcome::Order(order) => Answer::output(order.to_string()),
        Outcome::Answer(answer) => answer,
        Outcome::TimedOut { has_worker } => {
            let reason = match has_worker {
                true => {
                    "its metadata server may not answer ('ceph fs status'). The command may still be carried out; \
                     it can be repeated"
                }
                false => {
                    "no monitor's process serves file systems: one needs the administrator's keyring that its \
                     ceph.conf names"
                }
            };
            let seconds = PATIENCE.as_secs();
            refused(Errno::TIMEDOUT, format!("no outcome within {seconds} s: {reason}"))
        }
        Outcome::Busy => {
            let text = format!("{ORDERS_MAX} commands on subvolumes wait already; repeat it later");
            refused(Errno::AGAIN, text)
        }
        Outcome::Deposed => {
            let text =
                "another monitor leads now; repeat the command, which may have been carried out";
            refused(Errno::AGAIN, text.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_the_next_step() {
        let text = |outcome| answer_of(outcome).text;
        assert!(text(Outcome::TimedOut { has_worker: true }).contains("ceph fs status"));
        assert!(text(Outcome::TimedOut { has_worker: false }).contains("keyring"));
        assert!(text(Outcome::Busy).contains("repeat it later"));
        assert!(text(Outcome::Deposed).contains("repeat the command"));
    }
}
