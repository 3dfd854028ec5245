//! One of several users of the same image, each with a part of it of its own. Parts end within objects, so
//! that the exclusive lock changes its owner again and again.
//!
//! After a crash a user does not know which of its last writes were done. It reacquires the lock by a
//! write, then reads; from then on the content must not change: no write from before the crash may take
//! effect later.

use super::image_user::{ImagePlace, ImageUser, bytes};
use bytes::Bytes;
use engine::Time;
use rados::{Client, OpId, WatchEvent};
use rbd::{
    ClusterRequestId, ClusterResponse, CreateSpec, Features, Header, Image, ImageEvent,
    RequestRouter, RequestSource,
};
use rbd::{Outcome, Request, RequestId, Task};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use stdx::Prng;
use types::Errno;

/// Size of each user's part in bytes; not a multiple of the object size.
const PART: u64 = 10_000;
/// Longest request in bytes.
const LENGTH_MAX: u64 = 6_000;

enum Stage {
    Creating(Task<()>),
    Opening(Task<Header>),
    Open(Box<Image>),
    /// The cluster has blocklisted this client.
    ShutOut,
}

enum Expected {
    /// A range of the part gets a new value; with its previous content.
    Change {
        at: usize,
        before: Vec<u8>,
        new: u8,
    },
    Contents {
        at: usize,
        contents: Vec<u8>,
    },
    /// Uncertain bytes get the values that are read.
    Discovery,
}

/// One of several users of an image.
pub struct ImageSharer {
    number: u64,
    sharers: u64,
    prng: Prng,
    place: ImagePlace,
    stage: Option<Stage>,
    router: RequestRouter<()>,
    /// Expected content of the part.
    contents: Vec<u8>,
    /// Other values that bytes may have since a crash.
    possible: BTreeMap<usize, BTreeSet<u8>>,
    /// The user has had the lock since its start.
    has_written: bool,
    expected: BTreeMap<RequestId, Expected>,
    requests: u64,
    failure: Option<String>,
}

impl ImageSharer {
    /// A user that has not opened the image yet.
    pub fn new(number: u64, sharers: u64, prng: Prng, place: ImagePlace) -> Self {
        ImageSharer {
            number,
            sharers,
            prng,
            place,
            stage: None,
            router: RequestRouter::default(),
            contents: vec![0; PART as usize],
            possible: BTreeMap::new(),
            has_written: false,
            expected: BTreeMap::new(),
            requests: 0,
            failure: None,
        }
    }

    fn begin(&mut self, client: &Client) {
        let Some(image) = self.place.spec(client, "shared".to_owned()) else { return };
        if self.number > 0 || self.requests > 0 {
            self.stage = Some(Stage::Opening(rbd::open(image)));
            return;
        }
        self.stage = Some(Stage::Creating(rbd::create(CreateSpec {
            image,
            id: "2b".to_owned(),
            size: self.sharers * PART,
            order: self.place.order,
            features: Features::DEFAULT,
            data_pool: self.place.data_pool,
            striping: self.prng.chance(1, 3).then_some((self.place.object() / 4, 3)),
        })));
    }

    fn request(&mut self) {
        if !self.possible.is_empty() {
            return self.find_out();
        }
        let at = self.prng.below(PART);
        let length = 1 + self.prng.below(LENGTH_MAX.min(PART - at));
        let range = at as usize..(at + length) as usize;
        match self.prng.below(6) {
            0..4 if self.is_read(&range) => {}
            0..3 => self.change(range, true),
            3 => self.change(range, false),
            _ => self.read(range),
        }
    }

    fn is_read(&self, range: &Range<usize>) -> bool {
        self.expected.values().any(|expected| match expected {
            Expected::Contents { at, contents } => {
                *at < range.end && range.start < at + contents.len()
            }
            _ => false,
        })
    }

    /// Acquires the lock by a write, then reads the content.
    fn find_out(&mut self) {
        if !self.expected.is_empty() {
            return;
        }
        if !self.has_written {
            return self.change(0..1, true);
        }
        let (offset, length) = (self.number * PART, PART);
        self.submit(Request::Read { offset, length }, Expected::Discovery);
    }

    fn change(&mut self, range: Range<usize>, is_write: bool) {
        self.requests += 1;
        let new = if is_write { self.requests as u8 } else { 0 };
        let before = self.contents[range.clone()].to_vec();
        self.contents[range.clone()].fill(new);
        let (at, length) = (range.start, range.len() as u64);
        let offset = self.number * PART + at as u64;
        let request = match is_write {
            true => Request::Write { offset, data: Bytes::from(vec![new; length as usize]) },
            false => Request::Discard { offset, length },
        };
        self.submit(request, Expected::Change { at, before, new });
    }

    fn read(&mut self, range: Range<usize>) {
        let (offset, length) = (self.number * PART + range.start as u64, range.len() as u64);
        let contents = self.contents[range.clone()].to_vec();
        let expected = Expected::Contents { at: range.start, contents };
        self.submit(Request::Read { offset, length }, expected);
    }

    fn submit(&mut self, request: Request, expected: Expected) {
        let Some(Stage::Open(image)) = &mut self.stage else { return };
        self.expected.insert(image.submit(request), expected);
    }

    fn handle_response(&mut self, client: &Client, id: ClusterRequestId, answer: ClusterResponse) {
        match self.stage.as_mut() {
            None | Some(Stage::ShutOut) => {}
            Some(Stage::Creating(task)) => task.handle_response(id, answer),
            Some(Stage::Opening(task)) => task.handle_response(id, answer),
            Some(Stage::Open(image)) => image.handle_response(id, answer),
        }
        self.advance(client);
        self.check();
    }

    fn advance(&mut self, client: &Client) {
        let next = match self.stage.as_mut() {
            Some(Stage::Creating(task)) => {
                task.poll_outcome().map(|outcome| outcome.map(|()| None))
            }
            Some(Stage::Opening(task)) => task
                .poll_outcome()
                .map(|outcome| Ok(Some(Stage::Open(Box::new(Image::new(outcome?, true)?))))),
            _ => None,
        };
        match next {
            Some(Ok(Some(stage))) => self.stage = Some(stage),
            Some(Ok(None)) => {
                self.requests += 1;
                self.stage = None;
                self.begin(client);
            }
            // The image is not made yet; or a crash followed its creation.
            Some(Err(error)) if error.errno() == Errno::NOENT => self.stage = None,
            Some(Err(error)) if error.errno() == Errno::EXIST => {
                self.requests += 1;
                self.stage = None;
            }
            Some(Err(error)) => self.failed(&error),
            None => {}
        }
    }

    fn failed(&mut self, error: &rbd::Error) {
        if error.errno() == Errno::BLOCKLISTED {
            self.forget();
            self.stage = Some(Stage::ShutOut);
            return;
        }
        self.expected.clear();
        self.wrong(error.to_string());
    }

    /// Requests in flight may or may not have been done.
    fn forget(&mut self) {
        for expected in std::mem::take(&mut self.expected).into_values() {
            let Expected::Change { at, before, new } = expected else { continue };
            for (byte, old) in (at..).zip(before) {
                self.possible.entry(byte).or_default().extend([old, new]);
            }
        }
        // A read is made even if no request was in flight.
        self.possible.entry(0).or_default().insert(self.contents[0]);
        self.has_written = false;
    }

    fn wrong(&mut self, what: String) {
        let number = self.number;
        self.failure.get_or_insert_with(|| format!("sharer {number} of an image: {what}"));
    }

    /// Checks the responses of the image.
    fn check(&mut self) {
        while let Some(Stage::Open(image)) = &mut self.stage {
            if let Some(event) = image.poll_event() {
                if let ImageEvent::Failed(error) = event {
                    self.failed(&error);
                }
                continue;
            }
            let Some((id, outcome)) = image.poll_completion() else { return };
            match outcome {
                // The result is as uncertain as after a crash.
                Err(error) => self.failed(&error),
                Ok(outcome) => {
                    let expected = self.expected.remove(&id).expect("it was submitted, once");
                    self.compare(expected, outcome);
                }
            }
        }
    }

    fn compare(&mut self, expected: Expected, outcome: Outcome) {
        match (expected, outcome) {
            (Expected::Change { at, new, .. }, Outcome::Done) => {
                if !self.has_written {
                    self.has_written = true;
                    self.possible.entry(at).and_modify(|values| *values = BTreeSet::from([new]));
                }
            }
            (Expected::Contents { at, contents }, Outcome::Data(pieces)) => {
                let read = bytes(&pieces);
                let differs = contents.iter().zip(&read).position(|(wanted, is)| wanted != is);
                if let Some(byte) = differs {
                    let (is, wanted, at) = (read[byte], contents[byte], at + byte);
                    self.wrong(format!("byte {at} of a read is {is}, not {wanted}"));
                }
                if read.len() != contents.len() {
                    self.wrong("a read is too short".to_owned());
                }
            }
            (Expected::Discovery, Outcome::Data(pieces)) => self.discovered(bytes(&pieces)),
            (_, outcome) => self.wrong(format!("unexpected {outcome:?}")),
        }
    }

    fn discovered(&mut self, read: Vec<u8>) {
        let possible = std::mem::take(&mut self.possible);
        for (at, is) in read.iter().enumerate() {
            let wanted = self.contents[at];
            let known = possible.get(&at);
            if *is != wanted && !known.is_some_and(|values| values.contains(is)) {
                self.wrong(format!("byte {at} after a crash is {is}, not {wanted} or {known:?}"));
            }
        }
        self.contents = read;
    }
}

impl ImageUser for ImageSharer {
    fn check_invariants(&self) {
        if let Some(Stage::Open(image)) = &self.stage {
            image.check_invariants();
        }
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn in_flight(&self) -> usize {
        match &self.stage {
            None | Some(Stage::ShutOut) => 0,
            Some(Stage::Open(_)) => self.expected.len(),
            Some(_) => 1,
        }
    }

    fn describe(&self) -> String {
        match &self.stage {
            Some(Stage::Open(image)) => format!("{image:?}"),
            _ => "an image that is not open".to_owned(),
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, Some(Stage::Open(_))) && self.possible.is_empty()
    }

    fn think(&mut self, client: &Client) {
        match &self.stage {
            None => self.begin(client),
            Some(Stage::Open(_)) if self.failure.is_none() => self.request(),
            Some(_) => {}
        }
        self.check();
    }

    fn look(&mut self) {
        self.read(0..PART as usize);
        self.check();
    }

    fn send(&mut self, client: &mut Client, now: Time) -> bool {
        let router = &mut self.router;
        match &mut self.stage {
            None | Some(Stage::ShutOut) => false,
            Some(Stage::Creating(task)) => router.send(client, now, (), task),
            Some(Stage::Opening(task)) => router.send(client, now, (), task),
            Some(Stage::Open(image)) => router.send(client, now, (), &mut **image),
        }
    }

    fn handle_completion(
        &mut self,
        client: &Client,
        operation: OpId,
        answer: &ClusterResponse,
    ) -> bool {
        let Some(((), id)) = self.router.take(operation) else { return false };
        self.handle_response(client, id, answer.clone());
        true
    }

    fn handle_watch_event(&mut self, event: &WatchEvent) -> bool {
        let is_his = match &mut self.stage {
            Some(Stage::Open(image)) => image.handle_watch_event(event),
            _ => false,
        };
        self.check();
        is_his
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.router.poll_timeout()
    }

    fn handle_timeout(&mut self, client: &Client, now: Time) {
        while let Some(((), id, answer)) = self.router.poll_due(now) {
            self.handle_response(client, id, answer);
        }
    }

    /// False while the image is being made: no other client completes a partial image.
    fn may_crash(&self) -> bool {
        self.number > 0 || self.requests > 0
    }

    fn crash(&mut self) {
        self.forget();
        self.stage = None;
        self.router = RequestRouter::default();
    }

    fn is_shut_out(&self) -> bool {
        matches!(self.stage, Some(Stage::ShutOut))
    }
}
