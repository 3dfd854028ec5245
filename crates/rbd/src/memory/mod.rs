//! A cluster in memory for tests: objects with snapshots, the real object classes, watches. Requests are
//! answered at once.

mod object;

use crate::{CreateSpec, Error, Features, Header, Image, ImageSpec, Pool, RequestSource, Task};
use bytes::Bytes;
use object::Object;
use rados::{
    ClusterRequest, ClusterResponse, Operation, OperationReply, Place, PoolRequest, Reply,
    WatchEvent, WatchId,
};
use std::collections::{BTreeMap, BTreeSet};
use types::{Epoch, PoolId, SnapId, UTime};
use wire::PoolOpKind;

/// Object size of the images that are made here.
pub const ORDER: u8 = 12;
/// Object size in bytes.
pub const OBJECT: u64 = 1 << ORDER;

/// No exclusive lock, so that no client waits for another.
pub const FEATURES: Features = Features(Features::LAYERING.0 | Features::DEEP_FLATTEN.0);

/// Objects, snapshot ids, watches and pending notifications.
#[derive(Debug, Default)]
pub struct Cluster {
    /// All objects, of all pools.
    pub objects: BTreeMap<Place, Object>,
    snaps_made: u64,
    /// Results of the next snapshot requests, last first; the requests are executed nevertheless.
    pub lost_answers: Vec<types::Errno>,
    removed_snaps: BTreeSet<SnapId>,
    /// The object that each watch observes.
    pub watches: BTreeMap<WatchId, Place>,
    watches_made: u64,
    /// Notifications not yet delivered to watchers.
    events: Vec<(WatchId, Bytes)>,
}

/// The pool with this id, in the default namespace.
pub fn pool(id: i64) -> Pool {
    Pool { id: PoolId(id), name: format!("pool{id}"), namespace: String::new() }
}

/// An image in pool 1.
pub fn spec(name: &str) -> ImageSpec {
    ImageSpec { pool: pool(1), name: name.to_owned() }
}

impl codec::Encode for crate::calls::TrashEntry {
    fn encode(&self, w: &mut codec::Writer) {
        w.versioned(2, 1, |w| {
            w.u8(self.source);
            w.value(&self.name);
            w.value(&UTime::ZERO);
            w.value(&self.deferred_until);
            w.u8(self.state.0);
        });
    }
}

impl Cluster {
    /// A cluster with one image of 4 KiB objects.
    pub fn with_image(name: &str, size: u64) -> Self {
        let mut cluster = Cluster::default();
        cluster.create(spec(name), size, FEATURES);
        cluster
    }

    /// Creates an image; panics if that fails.
    pub fn create(&mut self, image: ImageSpec, size: u64, features: Features) {
        let id = format!("{}{}", image.name, image.pool.id);
        let (order, data_pool, striping) = (ORDER, None, None);
        let create = CreateSpec { image, id, size, order, features, data_pool, striping };
        self.run(crate::create(create)).unwrap();
    }

    /// Executes a request; `None` for a notification or a delay, to which there is no response yet.
    pub fn answer(&mut self, request: ClusterRequest) -> Option<ClusterResponse> {
        Some(match request {
            ClusterRequest::Operate(operation) => self.operate(&operation),
            ClusterRequest::Watch(place) => {
                self.watches_made += 1;
                let watch = WatchId(self.watches_made);
                self.watches.insert(watch, place);
                Ok(Reply::Watching(watch))
            }
            ClusterRequest::Unwatch(watch) => {
                self.watches.remove(&watch);
                Ok(Reply::Operation(OperationReply::default()))
            }
            ClusterRequest::Notify { place, payload } => {
                let watching = self.watches.iter().filter(|(_, watched)| **watched == place);
                self.events.extend(watching.map(|(watch, _)| (*watch, payload.clone())));
                Ok(Reply::Notified(wire::watch::NotifyResult::default()))
            }
            ClusterRequest::Acknowledge { .. } => return None,
            ClusterRequest::Identify => Ok(Reply::Identity { global_id: 1 }),
            ClusterRequest::NewestMap => Ok(Reply::Map(Epoch(1))),
            ClusterRequest::Pool(request) => self.change_snapshots(&request),
            ClusterRequest::Command(command) => panic!("{command} was not expected"),
            ClusterRequest::Wait(_) => Ok(Reply::Operation(OperationReply::default())),
        })
    }

    fn operate(&mut self, operation: &Operation) -> ClusterResponse {
        let mut context = operation.snap_context.clone();
        assert!(context.is_valid(), "{context:?}");
        context.snaps.retain(|snap| !self.removed_snaps.contains(snap));
        let object = self.objects.entry(operation.place.clone()).or_default();
        let ops = object.operate(&operation.ops, operation.snap, &context);
        if object.is_gone() {
            self.objects.remove(&operation.place);
        }
        Ok(Reply::Operation(OperationReply { ops: ops?, ..OperationReply::default() }))
    }

    fn change_snapshots(&mut self, request: &PoolRequest) -> ClusterResponse {
        let mut snap = None;
        if request.kind == PoolOpKind::CreateUnmanagedSnap {
            self.snaps_made += 1;
            snap = Some(SnapId(self.snaps_made));
        } else {
            self.removed_snaps.insert(request.snap);
            self.objects.values_mut().for_each(|object| object.trim(request.snap));
            self.objects.retain(|_, object| !object.is_gone());
        }
        if let Some(errno) = self.lost_answers.pop() {
            return Err(errno);
        }
        Ok(Reply::Pool { epoch: Epoch(1), snap })
    }

    /// Answers requests until the source has none left.
    pub fn settle(&mut self, source: &mut dyn RequestSource) {
        while let Some((id, request)) = source.poll_request() {
            if let Some(answer) = self.answer(request) {
                source.handle_response(id, answer);
            }
        }
    }

    /// Runs a task to its end; panics if the task waits for ever.
    pub fn run<T>(&mut self, mut task: Task<T>) -> Result<T, Error> {
        self.settle(&mut task);
        task.poll_outcome().expect("all requests are answered")
    }

    /// Moves an image to the trash as librbd does.
    pub fn move_to_trash(&mut self, name: &str, id: &str, deferred_until: UTime) {
        self.move_to_trash_because(name, id, deferred_until, 0);
    }

    /// Moves an image to the trash with this source (`TRASH_IMAGE_SOURCE_*`).
    pub fn move_to_trash_because(
        &mut self,
        name: &str,
        id: &str,
        deferred_until: UTime,
        source: u8,
    ) {
        let pool = pool(1);
        let state = crate::calls::TrashState::NORMAL;
        let entry =
            crate::calls::TrashEntry { source, name: name.to_owned(), deferred_until, state };
        let input = codec::encode_to_bytes(&(id, entry));
        let ops = [
            (pool.trash(), wire::OsdOp::call("rbd", "trash_add", &input)),
            (pool.id_object(name), wire::OsdOp::remove()),
            (pool.directory(), crate::calls::directory_remove(name, id)),
        ];
        for (place, op) in ops {
            self.operate(&Operation::new(place, vec![op])).unwrap();
        }
    }

    /// Reads the header of an image.
    pub fn header(&mut self, name: &str) -> Header {
        self.run(crate::open(spec(name))).unwrap()
    }

    /// States of an image's objects according to its map.
    pub fn map(&mut self, name: &str) -> Vec<u8> {
        let header = self.header(name);
        self.map_at(&header.map_place())
    }

    /// States of the object map that lies at a place.
    pub fn map_at(&mut self, place: &Place) -> Vec<u8> {
        let ops = vec![crate::object_map::calls::load()];
        let reply = self.operate(&Operation::new(place.clone(), ops)).unwrap();
        let Reply::Operation(reply) = reply else { panic!("an operation's reply") };
        let map: crate::ObjectMap = crate::calls::output(&reply, 0, "the map").unwrap();
        (0..map.len()).map(|object| map.get(object).unwrap() as u8).collect()
    }

    /// True if the object exists as of the snapshot.
    pub fn exists(&self, place: &Place, snap: SnapId) -> bool {
        self.objects.get(place).is_some_and(|object| object.exists(snap))
    }

    /// Opens an image for writing and settles it.
    pub fn open(&mut self, name: &str) -> Image {
        let header = self.header(name);
        let mut image = Image::new(header, true).unwrap();
        self.settle(&mut image);
        image
    }

    /// Sends a notification to the watchers of an image.
    pub fn say(&mut self, name: &str, payload: Bytes) {
        let place = self.header(name).place();
        self.answer(ClusterRequest::Notify { place, payload });
    }

    /// Delivers pending notifications to the image and settles it.
    pub fn tell(&mut self, image: &mut Image) {
        for (watch, payload) in std::mem::take(&mut self.events) {
            let event = WatchEvent::Notified { watch, notify_id: 1, notifier: 1, payload };
            if !image.handle_watch_event(&event)
                && let WatchEvent::Notified { watch, payload, .. } = event
            {
                self.events.push((watch, payload));
            }
        }
        self.settle(image);
    }

    /// Names of existing objects with the number of their clones.
    pub fn names(&self, prefix: &str) -> Vec<(String, usize)> {
        let named = self.objects.iter().map(|(place, object)| {
            (String::from_utf8_lossy(&place.object).into_owned(), object.clones())
        });
        named.filter(|(name, _)| name.starts_with(prefix)).collect()
    }
}
