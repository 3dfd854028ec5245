//! Exclusive user of an image: knows its expected content, whatever happens to the cluster.

mod looking;

use super::image_user::{ImagePlace, ImageUser};
use bytes::Bytes;
use engine::Time;
use looking::{Expected, Look, difference};
use rados::{Client, OpId, WatchEvent};
use rbd::{
    CloneFormat, CloneSpec, ClusterRequestId, ClusterResponse, CreateSpec, Features, Header, Image,
    ImageEvent, ImageSpec, Request, RequestId, RequestRouter, RequestSource, Task,
};
use std::collections::BTreeMap;
use stdx::Prng;

const OBJECTS_MAX: u64 = 12;
/// One in so many requests concerns the image as a whole.
const CHORE_ONE_IN: u64 = 40;
/// The same for users that also take snapshots and make clones.
const SNAPSHOT_CHORE_ONE_IN: u64 = 12;
/// Objects of the longest request.
const LENGTH_OBJECTS_MAX: u64 = 3;

/// Bound for the snapshots of one image.
const SNAPSHOTS_MAX: usize = 4;
/// Bound for the chain of clones.
const IMAGES_MAX: u64 = 5;

/// An operation, with the change that its success makes.
#[derive(Debug, Clone)]
enum Chore {
    Resize(usize),
    Take(String),
    Remove(String),
    RollBack(String),
    Flatten,
    /// The user continues with a clone of that snapshot.
    Clone(String),
    /// The parent's snapshot loses its name.
    Abandon,
}

enum Stage {
    Creating(Task<()>),
    Opening(Task<Header>),
    Open(Box<Image>),
    /// A task on the image; the open image is notified as it would be of another client's task.
    Busy(Box<Image>, Task<()>, Chore),
    /// Reads a snapshot.
    Looking(Box<Image>, Look),
    /// The next image is a different one.
    Closing(Box<Image>),
}

/// Source of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestOrigin {
    Task,
    Image,
    Look,
}

/// The only user of its images.
pub struct ImageOwner {
    prng: Prng,
    place: ImagePlace,
    stage: Option<Stage>,
    router: RequestRouter<RequestOrigin>,
    /// The user takes snapshots and makes clones.
    takes_snapshots: bool,
    /// Number of images made; the last one is in use.
    images: u64,
    contents: Vec<u8>,
    /// Contents of the image's snapshots, by name.
    snapshots: BTreeMap<String, Vec<u8>>,
    /// Image and snapshot of which the image is a clone.
    origin: Option<(ImageSpec, String)>,
    expected: BTreeMap<RequestId, Expected>,
    requests: u64,
    failure: Option<String>,
}

impl ImageOwner {
    /// A user that has no image yet.
    pub fn new(prng: Prng, place: ImagePlace, takes_snapshots: bool) -> Self {
        ImageOwner {
            takes_snapshots,
            prng,
            place,
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
        let size = 1 + self.prng.below(OBJECTS_MAX * self.place.object());
        self.contents = vec![0; size as usize];
        let striping = self.striping();
        self.stage = Some(Stage::Creating(rbd::create(CreateSpec {
            image,
            id: self.id(),
            size,
            order: self.place.order,
            features: Features::DEFAULT,
            data_pool: self.place.data_pool,
            striping,
        })));
    }

    fn striping(&mut self) -> Option<(u64, u64)> {
        self.prng.chance(1, 3).then_some((self.place.object() / 4, 3))
    }

    /// Name of the image in use.
    fn id(&self) -> String {
        format!("{}a", self.images)
    }

    fn spec(&self, client: &Client) -> Option<ImageSpec> {
        self.place.spec(client, format!("image{}", self.images))
    }

    fn request(&mut self, client: &Client) {
        let one_in = if self.takes_snapshots { SNAPSHOT_CHORE_ONE_IN } else { CHORE_ONE_IN };
        if self.expected.is_empty() && self.prng.chance(1, one_in) {
            return self.begin_chore(client);
        }
        let size = self.contents.len() as u64;
        // A resize waits only for known watchers: an image whose watch was lost learns the size later.
        if matches!(&self.stage, Some(Stage::Open(image)) if image.size() != size) {
            return;
        }
        let offset = self.prng.below(size);
        let length_max = LENGTH_OBJECTS_MAX * self.place.object();
        let length = 1 + self.prng.below(length_max.min(size - offset));
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
        origin: RequestOrigin,
        id: ClusterRequestId,
        answer: ClusterResponse,
    ) {
        match (self.stage.as_mut(), origin) {
            (Some(Stage::Creating(task)), RequestOrigin::Task) => task.handle_response(id, answer),
            (Some(Stage::Opening(task)), RequestOrigin::Task) => task.handle_response(id, answer),
            (Some(Stage::Busy(_, task, _)), RequestOrigin::Task) => {
                task.handle_response(id, answer)
            }
            (Some(Stage::Looking(_, look)), RequestOrigin::Look) => {
                look.handle_response(id, answer)
            }
            (
                Some(
                    Stage::Open(image)
                    | Stage::Closing(image)
                    | Stage::Busy(image, _, _)
                    | Stage::Looking(image, _),
                ),
                RequestOrigin::Image,
            ) => image.handle_response(id, answer),
            // The source of the request is gone.
            _ => {}
        }
        self.advance(client);
        self.check();
    }

    /// Moves from one stage to the next.
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
        self.failure.get_or_insert(format!("a request of the image's user failed: {error}"));
    }

    fn begin_chore(&mut self, client: &Client) {
        let Some(spec) = self.spec(client) else { return };
        let Some(Stage::Open(image)) = self.stage.take() else { return };
        let has_parent = image.header().parent.is_some();
        if self.takes_snapshots && self.prng.chance(1, 5) {
            return self.begin_look(image, spec);
        }
        let chore = self.choose(has_parent);
        let task = self.task(spec, &chore);
        self.stage = Some(Stage::Busy(image, task, chore));
    }

    fn begin_look(&mut self, image: Box<rbd::Image>, spec: ImageSpec) {
        let Some((name, contents)) = self.some_snapshot() else {
            self.stage = Some(Stage::Open(image));
            return;
        };
        self.stage = Some(Stage::Looking(image, Look::new(spec, name, contents)));
    }

    fn some_snapshot(&mut self) -> Option<(String, Vec<u8>)> {
        if self.snapshots.is_empty() {
            return None;
        }
        let number = self.prng.below(self.snapshots.len() as u64) as usize;
        self.snapshots.iter().nth(number).map(|(name, contents)| (name.clone(), contents.clone()))
    }

    fn choose(&mut self, has_parent: bool) -> Chore {
        let resize = Chore::Resize(1 + self.prng.below(OBJECTS_MAX * self.place.object()) as usize);
        if !self.takes_snapshots {
            return resize;
        }
        let kind = self.prng.below(12);
        let take = Chore::Take(format!("s{}", self.requests));
        let may_take = self.snapshots.len() < SNAPSHOTS_MAX
            && !self.snapshots.contains_key(&format!("s{}", self.requests));
        match (kind, self.some_snapshot()) {
            (0..3, _) | (3..7, None) if may_take => take,
            (3, Some((name, _))) => Chore::Remove(name),
            (4, Some((name, _))) => Chore::RollBack(name),
            (5..8, Some((name, _))) if self.images < IMAGES_MAX => Chore::Clone(name),
            (8, _) if has_parent => Chore::Flatten,
            (9, _) if self.origin.is_some() => Chore::Abandon,
            _ => resize,
        }
    }

    fn task(&mut self, spec: ImageSpec, chore: &Chore) -> Task<()> {
        match chore {
            Chore::Resize(size) => rbd::resize(spec, *size as u64, true),
            Chore::Take(name) => rbd::take_snapshot(spec, name.clone()),
            Chore::Remove(name) => rbd::remove_snapshot(spec, name.clone()),
            Chore::RollBack(name) => rbd::roll_back(spec, name.clone()),
            Chore::Flatten => rbd::flatten(spec),
            Chore::Clone(name) => self.clone_of(spec, name),
            Chore::Abandon => {
                let (parent, name) = self.origin.take().expect("it was looked at");
                rbd::remove_snapshot(parent, name)
            }
        }
    }

    fn clone_of(&mut self, parent: ImageSpec, snapshot: &str) -> Task<()> {
        self.origin = Some((parent.clone(), snapshot.to_owned()));
        self.images += 1;
        let name = format!("image{}", self.images);
        let order = self.place.order + self.prng.below(2) as u8;
        rbd::clone_image(CloneSpec {
            image: ImageSpec { pool: parent.pool.clone(), name },
            parent,
            snapshot: snapshot.to_owned(),
            id: self.id(),
            order: Some(order),
            features: Features::DEFAULT,
            data_pool: self.place.data_pool,
            striping: self.striping(),
            format: CloneFormat::Two,
        })
    }

    fn end_chore(&mut self, outcome: Result<(), rbd::Error>) {
        let Some(Stage::Busy(mut image, _, chore)) = self.stage.take() else { return };
        let mut is_other = false;
        match chore {
            Chore::Resize(size) => self.contents.resize(size, 0),
            Chore::Take(name) => drop(self.snapshots.insert(name, self.contents.clone())),
            Chore::Remove(name) => drop(self.snapshots.remove(&name)),
            Chore::RollBack(name) => self.contents = self.snapshots[&name].clone(),
            Chore::Clone(name) => {
                self.contents = self.snapshots[&name].clone();
                self.snapshots.clear();
                is_other = true;
            }
            Chore::Flatten | Chore::Abandon => {}
        }
        if is_other {
            image.close();
        }
        self.stage = Some(if is_other { Stage::Closing(image) } else { Stage::Open(image) });
        if let Err(error) = outcome {
            self.fail(error);
        }
    }

    fn end_look(&mut self, outcome: Result<(), String>) {
        let Some(Stage::Looking(image, _)) = self.stage.take() else { return };
        self.stage = Some(Stage::Open(image));
        if let Err(why) = outcome {
            self.failure.get_or_insert(format!("a snapshot: {why}"));
        }
    }

    /// Checks the responses of the image.
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
    fn check_invariants(&self) {
        if let Some(
            Stage::Open(image)
            | Stage::Closing(image)
            | Stage::Busy(image, _, _)
            | Stage::Looking(image, _),
        ) = &self.stage
        {
            image.check_invariants();
        }
    }

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
        // Some requests complete without a request to the cluster.
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
            Some(Stage::Creating(task)) => router.send(client, now, RequestOrigin::Task, task),
            Some(Stage::Opening(task)) => router.send(client, now, RequestOrigin::Task, task),
            Some(Stage::Open(image) | Stage::Closing(image)) => {
                router.send(client, now, RequestOrigin::Image, &mut **image)
            }
            Some(Stage::Busy(image, task, _)) => {
                router.send(client, now, RequestOrigin::Image, &mut **image)
                    | router.send(client, now, RequestOrigin::Task, task)
            }
            Some(Stage::Looking(image, look)) => {
                router.send(client, now, RequestOrigin::Image, &mut **image)
                    | router.send(client, now, RequestOrigin::Look, look)
            }
        }
    }

    fn handle_completion(
        &mut self,
        client: &Client,
        operation: OpId,
        answer: &ClusterResponse,
    ) -> bool {
        let Some((origin, id)) = self.router.take(operation) else { return false };
        self.handle_response(client, origin, id, answer.clone());
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
        while let Some((origin, id, answer)) = self.router.poll_due(now) {
            self.handle_response(client, origin, id, answer);
        }
    }

    fn describe(&self) -> String {
        match &self.stage {
            Some(Stage::Open(image)) => format!("{image:?}"),
            _ => "an image that is not open".to_owned(),
        }
    }
}
