//! A daemon over its storage, on real machines and in simulations alike.

use crate::{
    AuthRequest, ConnId, ConnectingAnswer, ConnectingStep, CoreLoad, Daemon, Message, Node,
    NodeOutput, Peer, Storage, Time,
};

/// Runs a daemon over its storage: submits its requests, delivers completions, and calls timers, those of
/// the storage first.
///
/// Without a daemon, inputs are lost and there are no outputs; the storage stays.
#[derive(Debug)]
pub struct Runner<D, S> {
    daemon: Option<D>,
    storage: S,
}

impl<D, S> Runner<D, S> {
    /// A storage over which no daemon runs yet.
    pub fn new(storage: S) -> Self {
        Runner { daemon: None, storage }
    }

    /// Starts a daemon over the storage.
    pub fn start(&mut self, daemon: D) {
        assert!(self.daemon.is_none(), "one daemon runs over a storage");
        self.daemon = Some(daemon);
    }

    /// Ends the daemon, with all requests that it has in flight.
    pub fn stop(&mut self) {
        self.daemon = None;
    }

    /// The daemon, while it runs.
    pub fn daemon(&self) -> Option<&D> {
        self.daemon.as_ref()
    }

    /// The daemon, while it runs.
    pub fn daemon_mut(&mut self) -> Option<&mut D> {
        self.daemon.as_mut()
    }

    fn with(&mut self, act: impl FnOnce(&mut D)) {
        if let Some(daemon) = &mut self.daemon {
            act(daemon);
        }
    }

    /// The storage, which outlives daemons.
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// The storage, which outlives daemons.
    pub fn storage_mut(&mut self) -> &mut S {
        &mut self.storage
    }
}

impl<D, S> Runner<D, S>
where
    D: Daemon,
    S: Storage<Request = D::Request, Completion = D::Completion>,
{
    /// Delivers completions to the daemon; true if there were any.
    pub fn pump_storage(&mut self, now: Time) -> bool {
        let Some(daemon) = &mut self.daemon else { return false };
        let mut any = false;
        while let Some(completion) = self.storage.poll_completion() {
            daemon.handle_completion(now, completion);
            any = true;
        }
        any
    }
}

/// Events of sessions go to the daemon, if it runs.
impl<D, S> Node for Runner<D, S>
where
    D: Daemon,
    S: Storage<Request = D::Request, Completion = D::Completion>,
{
    fn handle_auth(&mut self, now: Time, conn: ConnId, request: AuthRequest) {
        self.with(|daemon| daemon.handle_auth(now, conn, request));
    }

    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        let daemon = self.daemon.as_mut();
        daemon.map_or(ConnectingAnswer::Refuse, |daemon| daemon.authenticate(now, conn, step))
    }

    fn handle_refused(&mut self, now: Time, conn: ConnId) {
        self.with(|daemon| daemon.handle_refused(now, conn));
    }

    fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        self.with(|daemon| daemon.handle_opened(now, conn, peer));
    }

    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message) {
        self.with(|daemon| daemon.handle_message(now, conn, message));
    }

    fn handle_closed(&mut self, now: Time, conn: ConnId) {
        self.with(|daemon| daemon.handle_closed(now, conn));
    }

    fn handle_timeout(&mut self, now: Time) {
        if is_due(self.storage.poll_timeout(), now) {
            self.storage.handle_timeout(now);
        }
        self.pump_storage(now);
        if let Some(daemon) = &mut self.daemon
            && is_due(daemon.poll_timeout(), now)
        {
            daemon.handle_timeout(now);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let timer = self.daemon.as_ref()?.poll_timeout();
        timer.into_iter().chain(self.storage.poll_timeout()).min()
    }

    fn handle_load(&mut self, load: CoreLoad) {
        self.with(|daemon| daemon.handle_load(load));
    }

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        let daemon = self.daemon.as_mut()?;
        loop {
            let Some(output) = daemon.poll_output() else {
                // Requests may have completed at once, and the completions may cause more.
                let Some(completion) = self.storage.poll_completion() else {
                    self.storage.end_turn(now);
                    return None;
                };
                daemon.handle_completion(now, completion);
                continue;
            };
            match output.for_sessions() {
                Ok(output) => return Some(output),
                Err(request) => self.storage.submit(now, request),
            }
        }
    }
}

fn is_due(timeout: Option<Time>, now: Time) -> bool {
    timeout.is_some_and(|due| due <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Output;
    use std::collections::VecDeque;

    /// Notes what it is told, and requests once.
    #[derive(Default)]
    struct Noting {
        notes: Vec<&'static str>,
        requests: VecDeque<u8>,
        timer: Option<Time>,
    }

    impl Daemon for Noting {
        type Request = u8;
        type Completion = u8;

        fn handle_auth(&mut self, _: Time, _: ConnId, _: AuthRequest) {}
        fn handle_opened(&mut self, _: Time, _: ConnId, _: Peer) {}
        fn handle_message(&mut self, _: Time, _: ConnId, _: Message) {}
        fn handle_closed(&mut self, _: Time, _: ConnId) {}

        fn handle_completion(&mut self, _: Time, _: u8) {
            self.notes.push("completion");
        }

        fn handle_timeout(&mut self, _: Time) {
            self.timer = None;
            self.notes.push("timer");
        }

        fn poll_output(&mut self) -> Option<Output<u8>> {
            self.requests.pop_front().map(Output::Storage)
        }

        fn poll_timeout(&self) -> Option<Time> {
            self.timer
        }
    }

    /// Completes requests at its timer.
    #[derive(Default)]
    struct Slow {
        pending: VecDeque<u8>,
        done: VecDeque<u8>,
        turns: usize,
    }

    impl Storage for Slow {
        type Request = u8;
        type Completion = u8;

        fn submit(&mut self, _: Time, request: u8) {
            self.pending.push_back(request);
        }

        fn poll_completion(&mut self) -> Option<u8> {
            self.done.pop_front()
        }

        fn poll_timeout(&self) -> Option<Time> {
            (!self.pending.is_empty()).then_some(Time(5))
        }

        fn handle_timeout(&mut self, _: Time) {
            self.done.append(&mut self.pending);
        }

        fn end_turn(&mut self, _: Time) {
            self.turns += 1;
        }
    }

    #[test]
    fn completions_come_before_the_daemon_s_timer() {
        let mut runner = Runner::new(Slow::default());
        let (requests, timer) = (VecDeque::from([1]), Some(Time(5)));
        runner.start(Noting { requests, timer, ..Noting::default() });
        assert!(runner.poll_output(Time(1)).is_none());
        assert_eq!((runner.storage().turns, runner.poll_timeout()), (1, Some(Time(5))));
        runner.handle_timeout(Time(5));
        assert_eq!(runner.daemon().unwrap().notes, ["completion", "timer"]);
    }

    #[test]
    fn without_a_daemon_nothing_happens_and_the_storage_stays() {
        let mut runner: Runner<Noting, Slow> = Runner::new(Slow::default());
        runner.start(Noting { requests: VecDeque::from([1]), ..Noting::default() });
        assert!(runner.poll_output(Time(1)).is_none());
        runner.stop();
        runner.handle_closed(Time(2), ConnId(1));
        assert!(runner.poll_timeout().is_none() && runner.poll_output(Time(9)).is_none());
        assert_eq!(runner.storage().pending, [1]);
    }
}
