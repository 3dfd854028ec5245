//! One who has an image to himself: he knows what must be in it, whatever happens to the cluster.

mod chores;
mod looking;

use super::ImageUser;
use bytes::Bytes;
use chores::Chore;
use engine::Time;
use looking::Look;
use rados::{Client, OpId, WatchEvent};
use rbd::{
    ClusterRequestId, ClusterResponse, CreateSpec, Features, Header, Image, ImageEvent, ImageSpec,
    RequestRouter, RequestSource,
};
use rbd::{Outcome, Piece, Pool, Request, RequestId, Task};
use std::collections::BTreeMap;
use std::ops::Range;
use stdx::Prng;

/// Objects of 4 KiB.
const ORDER: u8 = 12;
const OBJECT: u64 = 1 << ORDER;
const OBJECTS_MAX: u64 = 12;
/// Of so many requests one is about the image as a whole.
const CHORE_ONE_IN: u64 = 40;
/// The same for those who also take snapshots and make clones.
const SNAPSHOT_CHORE_ONE_IN: u64 = 12;
/// Requests reach over up to so many bytes.
const LENGTH_MAX: u64 = 3 * OBJECT;

enum Stage {
    Creating(Task<()>),
    Opening(Task<Header>),
    Open(Box<Image>),
    /// Meanwhile the image hears of it as of anybody's doing.
    Busy(Box<Image>, Task<()>, Chore),
    /// Looks at a snapshot.
    Looking(Box<Image>, Look),
    /// The next image is another one.
    Closing(Box<Image>),
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Task,
    Image,
    Look,
}

/// What must come of a request.
enum Expected {
    Done,
    /// From this offset on.
    Contents(usize, Vec<u8>),
}

impl Expected {
    /// Whether a write there might be seen by it, or not.
    fn reads(&self, range: &Range<usize>) -> bool {
        match self {
            Expected::Done => false,
            Expected::Contents(at, contents) => {
                *at < range.end && range.start < at + contents.len()
            }
        }
    }
}

pub struct ImageOwner {
    prng: Prng,
    pool: String,
    stage: Option<Stage>,
    router: RequestRouter<Who>,
    /// Whether he takes snapshots and makes clones.
    takes_snapshots: bool,
    /// Images that he has made, the last of which he uses.
    images: u64,
    contents: Vec<u8>,
    /// Of the image, by name.
    snapshots: BTreeMap<String, Vec<u8>>,
    /// The snapshot that the image was made of.
    origin: Option<(ImageSpec, String)>,
    expected: BTreeMap<RequestId, Expected>,
    requests: u64,
    failure: Option<String>,
}

impl ImageOwner {
    pub fn new(prng: Prng, pool: &str, takes_snapshots: bool) -> Self {
        ImageOwner {
            takes_snapshots,
            prng,
            pool: pool.to_owned(),
            stage: None,
            router: RequestRouter::default(),
            images: 1,
            contents: Vec::new(),
            snapshots: BTreeMap::new(),
            origin: None,
            expected: BTreeMap::new(),
            requests: 0,
            failure: None,
        }
    }

    fn create(&mut self, client: &Client) {
        let Some(image) = self.spec(client) else { return };
        let size = 1 + self.prng.below(OBJECTS_MAX * OBJECT);
        self.contents = vec![0; size as usize];
        let striping = self.striping();
        self.stage = Some(Stage::Creating(rbd::create(CreateSpec {
            image,
            id: self.id(),
            size,
            order: ORDER,
            features: Features::DEFAULT,
            data_pool: None,
            striping,
        })));
    }

    fn striping(&mut self) -> Option<(u64, u64)> {
        self.prng.chance(1, 3).then_some((OBJECT / 4, 3))
    }

    /// Of the image that he uses.
    fn id(&self) -> String {
        format!("{}a", self.images)
    }

    fn spec(&self, client: &Client) -> Option<ImageSpec> {
        let id = client.pool_id(&self.pool)?;
        let pool = Pool { id, name: self.pool.clone(), namespace: String::new() };
        Some(ImageSpec { pool, name: format!("image{}", self.images) })
    }

    fn request(&mut self, client: &Client) {
        let one_in = if self.takes_snapshots { SNAPSHOT_CHORE_ONE_IN } else { CHORE_ONE_IN };
        if self.expected.is_empty() && self.prng.chance(1, one_in) {
            return self.begin_chore(client);
        }
        let size = self.contents.len() as u64;
        let offset = self.prng.below(size);
        let length = 1 + self.prng.below(LENGTH_MAX.min(size - offset));
        let range = offset as usize..(offset + length) as usize;
        let kind = self.prng.below(6);
        let is_read = self.expected.values().any(|expected| expected.reads(&range));
        match kind {
            0..4 if is_read => {}
            0..3 => {
                self.requests += 1;
                let data = vec![self.requests as u8; length as usize];
                self.contents[range].copy_from_slice(&data);
                self.submit(Request::Write { offset, data: Bytes::from(data) }, Expected::Done);
            }
            3 => {
                self.contents[range].fill(0);
                self.submit(Request::Discard { offset, length }, Expected::Done);
            }
            _ => {
                let expected = Expected::Contents(range.start, self.contents[range].to_vec());
                self.submit(Request::Read { offset, length }, expected);
            }
        }
    }

    fn submit(&mut self, request: Request, expected: Expected) {
        let Some(Stage::Open(image)) = &mut self.stage else { return };
        self.expected.insert(image.submit(request), expected);
    }

    fn handle_response(
        &mut self,
        client: &Client,
        who: Who,
        id: ClusterRequestId,
        answer: ClusterResponse,
    ) {
        match (self.stage.as_mut(), who) {
            (Some(Stage::Creating(task)), Who::Task) => task.handle_response(id, answer),
            (Some(Stage::Opening(task)), Who::Task) => task.handle_response(id, answer),
            (Some(Stage::Busy(_, task, _)), Who::Task) => task.handle_response(id, answer),
            (Some(Stage::Looking(_, look)), Who::Look) => look.handle_response(id, answer),
            (
                Some(
                    Stage::Open(image)
                    | Stage::Closing(image)
                    | Stage::Busy(image, _, _)
                    | Stage::Looking(image, _),
                ),
                Who::Image,
            ) => image.handle_response(id, answer),
            // Whoever asked is gone.
            _ => {}
        }
        self.advance(client);
        self.check();
    }

    /// From one stage to the next.
    fn advance(&mut self, client: &Client) {
        let next = match self.stage.as_mut() {
            Some(Stage::Creating(task)) => {
                task.poll_outcome().map(|outcome| outcome.and_then(|()| self.opening(client)))
            }
            Some(Stage::Opening(task)) => task
                .poll_outcome()
                .map(|outcome| Ok(Stage::Open(Box::new(Image::new(outcome?, true)?)))),
            Some(Stage::Busy(_, task, _)) => {
                let outcome = task.poll_outcome();
                return if let Some(outcome) = outcome {
                    self.end_chore(outcome);
                };
            }
            Some(Stage::Looking(_, look)) => {
                let outcome = look.poll_outcome();
                return if let Some(outcome) = outcome {
                    self.end_look(outcome);
                };
            }
            Some(Stage::Closing(image)) => is_closed(image).then(|| self.opening(client)),
            _ => None,
        };
        match next {
            Some(Ok(stage)) => self.stage = Some(stage),
            Some(Err(error)) => self.fail(error),
            None => {}
        }
    }

    fn opening(&self, client: &Client) -> Result<Stage, rbd::Error> {
        let spec = self.spec(client).expect("its pool was known before");
        Ok(Stage::Opening(rbd::open(spec)))
    }

    fn fail(&mut self, error: rbd::Error) {
        self.failure.get_or_insert(format!("the user of an image is told: {error}"));
    }

    /// Looks at what the image says.
    fn check(&mut self) {
        let Some(Stage::Open(image) | Stage::Busy(image, _, _) | Stage::Looking(image, _)) =
            &mut self.stage
        else {
            return;
        };
        let mut failures = Vec::new();
        while let Some((id, outcome)) = image.poll_completion() {
            let expected = self.expected.remove(&id).expect("what completes was submitted, once");
            if let Some(wrong) = difference(&expected, outcome) {
                failures.push(wrong);
            }
        }
        while let Some(event) = image.poll_event() {
            if let ImageEvent::Failed(error) = event {
                failures.push(error.to_string());
            }
        }
        if let Some(failure) = failures.into_iter().next() {
            self.failure.get_or_insert(format!("an image: {failure}"));
        }
    }
}

fn is_closed(image: &mut Image) -> bool {
    let mut is_closed = false;
    while let Some(event) = image.poll_event() {
        is_closed |= event == ImageEvent::Closed;
    }
    is_closed
}

impl ImageUser for ImageOwner {
    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn in_flight(&self) -> usize {
        match &self.stage {
            None => 0,
            Some(Stage::Open(_)) => self.expected.len(),
            Some(_) => 1,
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, Some(Stage::Open(_)))
    }

    fn think(&mut self, client: &Client) {
        match &self.stage {
            None => self.create(client),
            Some(Stage::Open(_)) if self.failure.is_none() => self.request(client),
            Some(_) => {}
        }
        // Some requests are answered without asking the cluster.
        self.check();
    }

    fn look(&mut self) {
        let (contents, length) = (self.contents.clone(), self.contents.len() as u64);
        self.submit(Request::Read { offset: 0, length }, Expected::Contents(0, contents));
        self.check();
    }

    fn send(&mut self, client: &mut Client, now: Time) -> bool {
        let router = &mut self.router;
        match &mut self.stage {
            None => false,
            Some(Stage::Creating(task)) => router.send(client, now, Who::Task, task),
            Some(Stage::Opening(task)) => router.send(client, now, Who::Task, task),
            Some(Stage::Open(image) | Stage::Closing(image)) => {
                router.send(client, now, Who::Image, &mut **image)
            }
            Some(Stage::Busy(image, task, _)) => {
                router.send(client, now, Who::Image, &mut **image)
                    | router.send(client, now, Who::Task, task)
            }
            Some(Stage::Looking(image, look)) => {
                router.send(client, now, Who::Image, &mut **image)
                    | router.send(client, now, Who::Look, look)
            }
        }
    }

    fn handle_completion(
        &mut self,
        client: &Client,
        operation: OpId,
        answer: &ClusterResponse,
    ) -> bool {
        let Some((who, id)) = self.router.take(operation) else { return false };
        self.handle_response(client, who, id, answer.clone());
        true
    }

    fn handle_watch_event(&mut self, event: &WatchEvent) -> bool {
        match &mut self.stage {
            Some(Stage::Busy(image, task, _)) => {
                image.handle_watch_event(event) || task.handle_watch_event(event)
            }
            Some(Stage::Open(image) | Stage::Looking(image, _) | Stage::Closing(image)) => {
                image.handle_watch_event(event)
            }
            _ => false,
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.router.poll_timeout()
    }

    fn handle_timeout(&mut self, client: &Client, now: Time) {
        while let Some((who, id, answer)) = self.router.poll_due(now) {
            self.handle_response(client, who, id, answer);
        }
    }

    fn describe(&self) -> String {
        match &self.stage {
            Some(Stage::Open(image)) => format!("{image:?}"),
            _ => "an image that is not open".to_owned(),
        }
    }
}

fn difference(expected: &Expected, outcome: Result<Outcome, rbd::Error>) -> Option<String> {
    match (expected, outcome) {
        (_, Err(error)) => Some(error.to_string()),
        (Expected::Contents(_, contents), Ok(Outcome::Data(pieces))) => {
            let read = bytes(&pieces);
            let at = contents.iter().zip(&read).position(|(wanted, is)| wanted != is);
            match at {
                Some(at) => {
                    Some(format!("byte {at} of a read is {}, not {}", read[at], contents[at]))
                }
                None if read.len() != contents.len() => Some("a read is too short".to_owned()),
                None => None,
            }
        }
        (Expected::Done, Ok(Outcome::Done)) => None,
        (_, Ok(outcome)) => Some(format!("unexpected {outcome:?}")),
    }
}

pub(super) fn bytes(pieces: &[Piece]) -> Vec<u8> {
    let mut all = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Data(data) => all.extend_from_slice(data),
            Piece::Zeros(length) => all.resize(all.len() + *length as usize, 0),
        }
    }
    all
}
