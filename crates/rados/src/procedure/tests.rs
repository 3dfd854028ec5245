//! Tests of procedures.

use super::window::{IN_FLIGHT_LOW, IN_FLIGHT_MAX};
use super::*;
use crate::{Operation, OperationReply, Part, Place, Reply, WatchId};
use engine::Duration;
use std::cell::Cell;
use std::collections::VecDeque;
use types::{Errno, PoolId};
use wire::OsdOp;

fn place(name: impl Into<Bytes>) -> Place {
    Place::new(PoolId(1), name)
}

fn stat() -> Vec<OsdOp> {
    vec![OsdOp::stat()]
}

fn operation(number: u64) -> Operation {
    Operation::new(place(number.to_string()), stat())
}

fn done() -> ClusterResponse {
    Ok(Reply::Operation(OperationReply::default()))
}

/// Requests of a procedure that were polled, by the name of their object or their kind.
#[derive(Default)]
struct Polled {
    requests: VecDeque<(ClusterRequestId, String)>,
}

impl Polled {
    fn poll<T>(&mut self, procedure: &mut Procedure<T>) -> Vec<String> {
        procedure.check_invariants();
        let mut new = Vec::new();
        while let Some((id, request)) = procedure.poll_request() {
            let name = match request {
                ClusterRequest::Operate(operation) => text(&operation.place.object),
                ClusterRequest::Watch(place) => format!("watch {}", text(&place.object)),
                ClusterRequest::Unwatch(watch) => format!("unwatch {}", watch.0),
                ClusterRequest::Wait(_) => "wait".to_owned(),
                other => format!("{other:?}"),
            };
            new.push(name.clone());
            self.requests.push_back((id, name));
        }
        procedure.check_invariants();
        new
    }

    fn answer<T>(&mut self, procedure: &mut Procedure<T>, name: &str, answer: ClusterResponse) {
        let at = self.requests.iter().position(|(_, other)| other == name).expect("was polled");
        let (id, _) = self.requests.remove(at).expect("was just found");
        procedure.handle_response(id, answer);
        procedure.check_invariants();
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Asks for two objects, and watches a third one.
#[derive(Default)]
struct Pair {
    asked: u64,
    answers: Vec<(u64, ClusterResponse)>,
    watch: Option<WatchId>,
}

impl RequestSource for Pair {
    fn poll_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)> {
        let request = match self.asked {
            0 => ClusterRequest::Watch(place("w")),
            number @ 1..=2 => ClusterRequest::Operate(operation(number)),
            _ => return None,
        };
        self.asked += 1;
        // The procedure's own numbers must not be taken for these.
        Some((ClusterRequestId { part: Part(9), number: self.asked }, request))
    }

    fn handle_response(&mut self, id: ClusterRequestId, answer: ClusterResponse) {
        assert_eq!(id.part, Part(9));
        match answer {
            Ok(Reply::Watching(watch)) => self.watch = Some(watch),
            answer => self.answers.push((id.number, answer)),
        }
    }
}

impl HostedEngine for Pair {
    fn handle_watch_event(&mut self, event: &WatchEvent) -> bool {
        matches!(event, WatchEvent::Lost { watch, .. } if Some(*watch) == self.watch)
    }

    fn progress(&self) -> Option<Progress> {
        Some(Progress { done: self.answers.len() as u64, total: 2 })
    }
}

#[test]
fn a_hosted_engine_gets_the_answers_to_its_own_requests() {
    let mut procedure = Procedure::new(|steps| async move {
        let _ = steps.read(&place("a"), stat()).await;
        let answers = steps
            .host(Pair::default(), |pair| match pair.answers.len() {
                2 => Some(std::mem::take(&mut pair.answers)),
                _ => None,
            })
            .await;
        let _ = steps.read(&place("b"), stat()).await;
        answers
    });
    let mut polled = Polled::default();
    assert_eq!(polled.poll(&mut procedure), ["a"]);
    polled.answer(&mut procedure, "a", done());
    assert_eq!(polled.poll(&mut procedure), ["watch w", "1", "2"]);
    polled.answer(&mut procedure, "watch w", Ok(Reply::Watching(WatchId(4))));
    let lost = |watch| WatchEvent::Lost { watch: WatchId(watch), error: Errno::NOTCONN };
    assert!(procedure.handle_watch_event(&lost(4), Bytes::clone));
    assert!(!procedure.handle_watch_event(&lost(5), Bytes::clone));
    polled.answer(&mut procedure, "2", Err(Errno::PERM));
    assert_eq!(procedure.progress(), Some(Progress { done: 1, total: 2 }));
    polled.answer(&mut procedure, "1", done());
    assert_eq!((polled.poll(&mut procedure), procedure.progress()), (vec!["b".to_owned()], None));
    polled.answer(&mut procedure, "b", done());
    assert_eq!(procedure.poll_outcome(), Some(vec![(3, Err(Errno::PERM)), (2, done())]));
}

#[test]
fn each_step_is_asked_once_and_the_outcome_told_once() {
    let mut procedure = Procedure::new(|steps| async move {
        steps.label("looking");
        steps.read(&place("a"), stat()).await?;
        steps.read(&place("b"), stat()).await?;
        Ok::<_, Errno>(7)
    });
    let mut polled = Polled::default();
    for name in ["a", "b"] {
        assert_eq!(polled.poll(&mut procedure), [name]);
        assert!(procedure.poll_outcome().is_none() && !procedure.is_over());
        polled.answer(&mut procedure, name, done());
    }
    assert!(procedure.is_over() && procedure.poll_request().is_none());
    assert_eq!((procedure.poll_outcome(), procedure.poll_outcome()), (Some(Ok(7)), None));
    assert!(format!("{procedure:?}").contains("looking"));
}

/// Registers a watch, runs the function, and unregisters the watch on both outcomes.
async fn with_watch<T>(
    steps: &Steps,
    work: impl AsyncFnOnce(&Steps) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let watch = steps.watch(place("header")).await?;
    let outcome = work(steps).await;
    let _ = steps.unwatch(watch).await;
    outcome
}

#[test]
fn a_scope_ends_on_success_and_on_failure() {
    for answer in [done(), Err(Errno::PERM)] {
        let expected = answer.clone().map(|_| ());
        let mut procedure = Procedure::new(|steps| async move {
            let name = String::from("inner");
            with_watch(&steps, async |steps| {
                steps.read(&place(name.clone()), stat()).await.map(|_| ())
            })
            .await
        });
        let mut polled = Polled::default();
        assert_eq!(polled.poll(&mut procedure), ["watch header"]);
        polled.answer(&mut procedure, "watch header", Ok(Reply::Watching(WatchId(3))));
        assert_eq!(polled.poll(&mut procedure), ["inner"]);
        polled.answer(&mut procedure, "inner", answer);
        assert_eq!(polled.poll(&mut procedure), ["unwatch 3"]);
        polled.answer(&mut procedure, "unwatch 3", Err(Errno::NOTCONN));
        assert_eq!(procedure.poll_outcome(), Some(expected));
    }
}

/// Removes a chain of objects, the last one first.
fn remove_chain(
    steps: &Steps,
    left: u64,
) -> Pin<Box<dyn Future<Output = Result<u64, Errno>> + '_>> {
    Box::pin(async move {
        if left == 0 {
            return Ok(0);
        }
        let below = remove_chain(steps, left - 1).await?;
        steps.write(&place(left.to_string()), vec![OsdOp::remove()]).await?;
        Ok(below + 1)
    })
}

#[test]
fn a_procedure_may_recurse() {
    let mut procedure = Procedure::new(|steps| async move { remove_chain(&steps, 3).await });
    let mut polled = Polled::default();
    for name in ["1", "2", "3"] {
        assert_eq!(polled.poll(&mut procedure), [name]);
        polled.answer(&mut procedure, name, done());
    }
    assert_eq!(procedure.poll_outcome(), Some(Ok(3)));
}

#[test]
fn a_reply_of_another_kind_is_an_error() {
    let mut procedure = Procedure::new(|steps| async move { steps.identify().await });
    let (id, _) = procedure.poll_request().unwrap();
    procedure.handle_response(id, done());
    assert_eq!(procedure.poll_outcome(), Some(Err(Errno::IO)));
}

#[test]
fn for_each_passes_all_replies_on_and_skips_numbers_without_operation() {
    let total = 2 * IN_FLIGHT_MAX as u64 + 3;
    let mut procedure = Procedure::new(move |steps| async move {
        let mut seen = Vec::new();
        let wanted = |number| (number % 3 != 0).then(|| operation(number));
        let outcome = steps
            .for_each(0..total, wanted, |number, answer| {
                seen.push((number, answer.is_ok()));
                Ok(())
            })
            .await;
        outcome.map(|()| seen)
    });
    let mut polled = Polled::default();
    let (mut most, mut most_done) = (0, 0);
    loop {
        polled.poll(&mut procedure);
        most = most.max(polled.requests.len());
        let Some((_, name)) = polled.requests.back().cloned() else { break };
        let progress = procedure.progress().unwrap();
        assert!(progress.done >= most_done && progress.total == total);
        most_done = progress.done;
        let answer = if name == "4" { Err(Errno::NOENT) } else { done() };
        polled.answer(&mut procedure, &name, answer);
    }
    let mut seen = procedure.poll_outcome().unwrap().unwrap();
    seen.sort_unstable();
    let expected = (0..total).filter(|number| number % 3 != 0);
    assert_eq!(seen, expected.map(|number| (number, number != 4)).collect::<Vec<_>>());
    assert_eq!(most, IN_FLIGHT_MAX);
    assert_eq!(procedure.progress(), None);
}

#[test]
fn for_each_sends_more_when_half_are_left() {
    let mut procedure = Procedure::new(|steps| async move {
        steps.for_each(0..1000, |number| Some(operation(number)), |_, _| Ok(())).await
    });
    let mut polled = Polled::default();
    assert_eq!(polled.poll(&mut procedure).len(), IN_FLIGHT_MAX);
    for number in 0..IN_FLIGHT_LOW {
        assert_eq!(polled.poll(&mut procedure).len(), 0);
        polled.answer(&mut procedure, &number.to_string(), done());
    }
    assert_eq!(polled.poll(&mut procedure).len(), IN_FLIGHT_LOW);
}

#[test]
fn for_each_ends_at_the_first_error_once_nothing_is_in_flight() {
    let mut procedure = Procedure::new(|steps| async move {
        let reply = |_, answer: Result<OperationReply, Errno>| answer.map(|_| ());
        steps.for_each(0..1000, |number| Some(operation(number)), reply).await
    });
    let mut polled = Polled::default();
    let mut asked = polled.poll(&mut procedure).len();
    for (number, errno) in (0..).zip([Errno::PERM, Errno::IO]) {
        polled.answer(&mut procedure, &format!("{number}"), Err(errno));
    }
    while let Some((_, name)) = polled.requests.front().cloned() {
        assert_eq!(procedure.poll_outcome(), None);
        polled.answer(&mut procedure, &name, done());
        asked += polled.poll(&mut procedure).len();
    }
    assert_eq!((asked, procedure.poll_outcome()), (IN_FLIGHT_MAX, Some(Err(Errno::PERM))));
}

#[test]
fn an_empty_range_asks_nothing() {
    let mut procedure = Procedure::new(|steps| async move {
        steps.for_each(5..5, |number| Some(operation(number)), |_, _| Ok(())).await
    });
    procedure.check_invariants();
    assert!(procedure.poll_request().is_none());
    assert_eq!(procedure.poll_outcome(), Some(Ok(())));
}

#[test]
fn each_runs_a_bounded_number_of_sub_procedures_in_order() {
    let mut procedure = Procedure::new(|steps| async move {
        let copied = Cell::new(0);
        let copy = async |name: &str| {
            steps.read(&place(format!("read {name}")), stat()).await?;
            steps.write(&place(format!("write {name}")), stat()).await?;
            copied.set(copied.get() + 1);
            Ok::<_, Errno>(())
        };
        steps.each(2, ["a", "b", "c"], copy).await.map(|()| copied.get())
    });
    let mut polled = Polled::default();
    assert_eq!(polled.poll(&mut procedure), ["read a", "read b"]);
    polled.answer(&mut procedure, "read b", done());
    assert_eq!(polled.poll(&mut procedure), ["write b"]);
    polled.answer(&mut procedure, "write b", done());
    assert_eq!(polled.poll(&mut procedure), ["read c"]);
    for name in ["read a", "read c"] {
        polled.answer(&mut procedure, name, done());
    }
    assert_eq!(polled.poll(&mut procedure), ["write a", "write c"]);
    for name in ["write c", "write a"] {
        polled.answer(&mut procedure, name, done());
    }
    assert_eq!(procedure.poll_outcome(), Some(Ok(3)));
}

#[test]
fn each_begins_none_after_an_error_and_awaits_those_that_run() {
    let mut procedure = Procedure::new(|steps| async move {
        let read = async |name: &'static str| steps.read(&place(name), stat()).await.map(|_| ());
        steps.each(2, ["a", "b", "c"], read).await
    });
    let mut polled = Polled::default();
    polled.poll(&mut procedure);
    polled.answer(&mut procedure, "a", Err(Errno::PERM));
    assert!(polled.poll(&mut procedure).is_empty() && !procedure.is_over());
    polled.answer(&mut procedure, "b", Err(Errno::IO));
    assert_eq!(procedure.poll_outcome(), Some(Err(Errno::PERM)));
}

/// Polls a future once and drops it.
async fn begin_and_drop<T>(child: impl Future<Output = T>) {
    let mut child = Box::pin(child);
    std::future::poll_fn(|context| {
        assert!(child.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[test]
fn a_dropped_child_withdraws_its_requests_and_gets_no_late_response() {
    let mut procedure = Procedure::new(|steps| async move {
        begin_and_drop(steps.read(&place("unsent"), stat())).await;
        let many = steps.for_each(0..9, |number| Some(operation(number)), |_, _| Ok(()));
        begin_and_drop(many).await;
        let mut sent = Box::pin(steps.operate(Operation::new(place("sent"), stat())));
        let mut first = true;
        std::future::poll_fn(|context| {
            assert!(sent.as_mut().poll(context).is_pending());
            // The second poll is caused by the response to the step below.
            if std::mem::take(&mut first) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        steps.read(&place("next"), stat()).await?;
        drop(sent);
        steps.read(&place("last"), stat()).await.map(|_| ())
    });
    let mut polled = Polled::default();
    assert_eq!(polled.poll(&mut procedure), ["sent", "next"]);
    polled.answer(&mut procedure, "next", done());
    assert_eq!(polled.poll(&mut procedure), ["last"]);
    polled.answer(&mut procedure, "sent", Err(Errno::IO));
    assert!(!procedure.is_over());
    polled.answer(&mut procedure, "last", done());
    assert_eq!(procedure.poll_outcome(), Some(Ok(())));
}

#[test]
fn a_late_response_answers_no_step() {
    let mut procedure = Procedure::new(|steps| async move {
        steps.send(ClusterRequest::Unwatch(WatchId(1)));
        steps.wait(Duration::from_secs(1)).await;
        steps.read(&place("a"), stat()).await.map(|_| ())
    });
    let (dropped, _) = procedure.poll_request().unwrap();
    assert_eq!(dropped.part, Part::DROPPED);
    procedure.handle_response(dropped, done());
    let (delay, _) = procedure.poll_request().unwrap();
    procedure.end_delay();
    let (read, _) = procedure.poll_request().unwrap();
    procedure.handle_response(delay, done());
    procedure.check_invariants();
    assert!(!procedure.is_over());
    procedure.handle_response(read, done());
    assert_eq!(procedure.poll_outcome(), Some(Ok(())));
    procedure.handle_response(read, done());
    procedure.check_invariants();
}

#[test]
fn a_delay_that_ends_before_it_is_polled_is_not_asked() {
    let mut procedure = Procedure::new(|steps| async move {
        steps.wait(Duration::from_secs(1)).await;
        steps.read(&place("a"), stat()).await.map(|_| ())
    });
    procedure.end_delay();
    assert_eq!(Polled::default().poll(&mut procedure), ["a"]);
    // No delay is left to end.
    procedure.end_delay();
    assert!(!procedure.is_over());
}

#[test]
fn a_procedure_answers_at_all_of_its_watches() {
    let mut procedure = Procedure::new(|steps| async move {
        for name in ["clone", "parent", "more"] {
            steps.watch(place(name)).await?;
        }
        Ok::<_, Errno>(())
    });
    for number in 1..=2 {
        let (id, _) = procedure.poll_request().unwrap();
        procedure.handle_response(id, Ok(Reply::Watching(WatchId(number))));
    }
    assert!(procedure.poll_request().is_some());
    let event = |number| WatchEvent::Notified {
        watch: WatchId(number),
        notify_id: 7,
        notifier: 2,
        payload: Bytes::from_static(b"question"),
    };
    let mut answered = [1, 2, 3]
        .map(|number| procedure.handle_watch_event(&event(number), |payload| payload.slice(..1)));
    assert_eq!(answered, [true, true, false]);
    answered = [1, 2, 3].map(|number| {
        let lost = WatchEvent::Lost { watch: WatchId(number), error: Errno::NOTCONN };
        procedure.handle_watch_event(&lost, |_| unreachable!("a lost watch asks nothing"))
    });
    assert_eq!(answered, [true, true, false]);
    let (id, request) = procedure.poll_request().unwrap();
    let (watch, reply) = (WatchId(1), Bytes::from_static(b"q"));
    assert_eq!(id, ClusterRequestId::DROPPED);
    assert_eq!(request, ClusterRequest::Acknowledge { watch, notify_id: 7, reply });
}

#[test]
fn a_dropped_procedure_drops_its_future() {
    let dropped = Rc::new(Cell::new(false));
    struct Guard(Rc<Cell<bool>>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let guard = Guard(dropped.clone());
    let procedure = Procedure::new(|steps| async move {
        let _guard = guard;
        steps.wait(Duration::from_secs(1)).await;
    });
    assert!(!dropped.get());
    drop(procedure);
    assert!(dropped.get());
}

#[test]
#[should_panic(expected = "a procedure waits for a response")]
fn a_procedure_that_awaits_a_foreign_future_is_found() {
    let procedure = Procedure::new(|_| std::future::pending::<()>());
    procedure.check_invariants();
}
