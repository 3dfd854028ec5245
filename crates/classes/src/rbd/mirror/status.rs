//! Mirroring status of each image, as the sites report it: the local daemons under one key, remote sites
//! under one each. A report counts as "up" while the daemon that made it watches the object.

use super::keys;
use crate::encoding::{IfPresent, Raw, decode_stored};
use crate::method::{Method, methods};
use crate::object::{Failure, ObjectContext, Result};
use crate::omap;
use crate::rbd::values::{
    Instance, MirrorImage, MirrorPeer, SiteStatus, Statuses, StoredStatus, image_state,
    peer_direction, status_state,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use types::Errno;

pub(crate) const METHODS: &[Method] = methods! {
    "mirror_image_status_set": READ_WRITE => set,
    "mirror_image_status_remove": READ_WRITE => remove,
    "mirror_image_status_get": READ => get,
    "mirror_image_status_list": READ => list,
    "mirror_image_status_get_summary": READ => summary,
    "mirror_image_status_remove_down": READ_WRITE => remove_down,
    "mirror_image_instance_get": READ => instance,
    "mirror_image_instance_list": READ => instances,
};

const LOCAL_PREFIX: &str = "status_global_";
const REMOTE_PREFIX: &str = "remote_status_global_";

fn local_key(global_id: &[u8]) -> Bytes {
    omap::key(LOCAL_PREFIX, global_id)
}

/// Of all remote sites' reports about an image; the site's mirror UUID follows.
fn remote_prefix(global_id: &[u8]) -> Bytes {
    [REMOTE_PREFIX.as_bytes(), global_id, b"_"].concat().into()
}

fn key(global_id: &[u8], mirror_uuid: &[u8]) -> Bytes {
    match mirror_uuid {
        [] => local_key(global_id),
        uuid => [&remote_prefix(global_id), uuid].concat().into(),
    }
}

fn watchers(object: &mut dyn ObjectContext) -> Result<Vec<Instance>> {
    let watchers = object.watchers()?.into_iter();
    Ok(watchers.map(|(name, addr)| Instance::new(name, addr)).collect())
}

/// A report about an image that is not mirrored is ignored.
fn set(object: &mut dyn ObjectContext, (global_id, status): (Bytes, SiteStatus)) -> Result<()> {
    let image: Option<Bytes> = omap::get(object, keys::global_id(&global_id))?;
    let Some(image) = image else { return Ok(()) };
    let image: Option<MirrorImage> = omap::get(object, keys::image(&image))?;
    let state = image.map(|image| image.state);
    if !matches!(state, Some(image_state::ENABLED | image_state::CREATING)) {
        return Ok(());
    }
    let caller = object.caller();
    let origin = Instance::new(caller.request.name, caller.addr);
    let key = key(&global_id, &status.mirror_uuid);
    // The key names the site; "up" is determined when the status is read.
    let (mirror_uuid, last_update) = (Bytes::new(), object.now());
    let status = SiteStatus { mirror_uuid, last_update, up: false, ..status };
    omap::set(object, key, &StoredStatus { origin, status })
}

pub(super) fn remove(object: &mut dyn ObjectContext, global_id: Bytes) -> Result<()> {
    let prefix = remote_prefix(&global_id);
    let remote: Vec<(Bytes, Raw)> = omap::list_all(object, &prefix)?;
    let remote = remote.iter().map(|(site, _)| omap::key(&prefix, site));
    let keys = remote.chain([local_key(&global_id)]).collect();
    match object.omap_remove(keys) {
        Err(Failure::Errno(Errno::NOENT)) => Ok(()),
        outcome => outcome,
    }
}

/// ENOENT if there is no report.
fn statuses(
    object: &mut dyn ObjectContext,
    global_id: &[u8],
    watchers: &[Instance],
) -> Result<Statuses> {
    // Both are requested before either is examined, so that they are loaded at once.
    let local = omap::get::<StoredStatus>(object, local_key(global_id));
    let remote = omap::list_all::<StoredStatus>(object, remote_prefix(global_id));
    let (local, remote) = (local?.map(|report| (Bytes::new(), report)), remote?);
    let status = |(mirror_uuid, report): (Bytes, StoredStatus)| SiteStatus {
        mirror_uuid,
        up: watchers.contains(&report.origin),
        ..report.status
    };
    let statuses: Vec<_> = local.into_iter().chain(remote).map(status).collect();
    if statuses.is_empty() { Err(Errno::NOENT.into()) } else { Ok(Statuses(statuses)) }
}

fn get(object: &mut dyn ObjectContext, global_id: Bytes) -> Result<Statuses> {
    let watchers = watchers(object)?;
    statuses(object, &global_id, &watchers)
}

/// Images requested at once: the data loaded for each may be as large as a page of an omap, and memory is
/// reserved for that.
const IMAGES_AT_ONCE: usize = 16;

/// The results of `about` for each image that has one. Several are requested before a missing one stops the
/// method.
fn of_images<T>(
    object: &mut dyn ObjectContext,
    images: &[(Bytes, MirrorImage)],
    mut about: impl FnMut(&mut dyn ObjectContext, &MirrorImage) -> Result<T>,
) -> Result<BTreeMap<Bytes, T>> {
    let mut found = BTreeMap::new();
    for images in images.chunks(IMAGES_AT_ONCE) {
        let outcomes: Vec<_> = images.iter().map(|(_, image)| about(object, image)).collect();
        for ((id, _), outcome) in images.iter().zip(outcomes) {
            match outcome {
                Ok(value) => drop(found.insert(id.clone(), value)),
                Err(Failure::Missing) => return Err(Failure::Missing),
                Err(Failure::Errno(_)) => {}
            }
        }
    }
    Ok(found)
}

type Images = BTreeMap<Bytes, MirrorImage>;

fn list(
    object: &mut dyn ObjectContext,
    (after, max): (Bytes, u64),
) -> Result<(Images, BTreeMap<Bytes, Statuses>)> {
    let watchers = watchers(object)?;
    let images: Vec<(Bytes, MirrorImage)> = omap::list(object, keys::IMAGE_PREFIX, &after, max)?;
    let found =
        of_images(object, &images, |object, image| statuses(object, &image.global_id, &watchers))?;
    Ok((images.into_iter().collect(), found))
}

/// Number of images by state.
fn summary(
    object: &mut dyn ObjectContext,
    IfPresent(peers): IfPresent<Vec<MirrorPeer>>,
) -> Result<BTreeMap<u8, i32>> {
    let peers = peers.unwrap_or_default();
    let direction = combined_direction(&peers);
    let sends = peers.into_iter().filter(|peer| peer.direction != peer_direction::RECEIVE);
    let sends_to: BTreeSet<Bytes> = sends.map(|peer| peer.mirror_uuid).collect();
    let watchers = watchers(object)?;
    let images: Vec<(Bytes, MirrorImage)> = omap::list_all(object, keys::IMAGE_PREFIX)?;
    let reported =
        of_images(object, &images, |object, image| statuses(object, &image.global_id, &watchers))?;
    let mut counts = BTreeMap::new();
    for (id, _) in &images {
        let nothing = Statuses::default();
        let reported = reported.get(id).unwrap_or(&nothing);
        *counts.entry(summary_state(direction, &sends_to, reported)).or_insert(0) += 1;
    }
    Ok(counts)
}

/// Direction of the pool: both, if peers differ or one has both.
fn combined_direction(peers: &[MirrorPeer]) -> u8 {
    let Some(first) = peers.first() else { return peer_direction::RECEIVE };
    let senders = peers.iter().filter(|peer| peer.direction != peer_direction::RECEIVE);
    let differs = senders.into_iter().any(|peer| peer.direction != first.direction);
    if differs { peer_direction::BOTH } else { first.direction }
}

/// For a pool that receives, the local report counts; for one that sends, the worst of all its peers'; for
/// one that does both, all.
fn summary_state(direction: u8, sends_to: &BTreeSet<Bytes>, reported: &Statuses) -> u8 {
    let sends = matches!(direction, peer_direction::SEND | peer_direction::BOTH);
    let receives = matches!(direction, peer_direction::RECEIVE | peer_direction::BOTH);
    let local = reported.local().filter(|status| receives && status.up).map(|status| status.state);
    let remote =
        reported.remote().filter(|_| sends).map(|status| match (status.up, status.state) {
            (_, status_state::ERROR) | (true, _) => status.state,
            (false, _) => status_state::UNKNOWN,
        });
    let states: Vec<u8> = local.into_iter().chain(remote).collect();
    let silent = sends_to
        .iter()
        .filter(|uuid| !reported.remote().any(|status| status.mirror_uuid == **uuid));
    if sends && silent.count() > 0 {
        return status_state::UNKNOWN;
    }
    match states.contains(&status_state::ERROR) {
        true => status_state::ERROR,
        false => states.into_iter().min().unwrap_or(status_state::UNKNOWN),
    }
}

/// Removes the reports of daemons that do not watch any more.
fn remove_down(object: &mut dyn ObjectContext, (): ()) -> Result<()> {
    let watchers = watchers(object)?;
    let mut gone = Vec::new();
    for prefix in [LOCAL_PREFIX, REMOTE_PREFIX] {
        let reports: Vec<(Bytes, StoredStatus)> = omap::list_all(object, prefix)?;
        let down = reports.iter().filter(|(_, report)| !watchers.contains(&report.origin));
        gone.extend(down.map(|(tail, _)| omap::key(prefix, tail)));
    }
    if gone.is_empty() { Ok(()) } else { object.omap_remove(gone) }
}

/// The daemon that mirrors an image here; ESTALE if it is down.
fn instance(object: &mut dyn ObjectContext, global_id: Bytes) -> Result<Instance> {
    let watchers = watchers(object)?;
    instance_of(object, &global_id, &watchers)
}

fn instance_of(
    object: &mut dyn ObjectContext,
    global_id: &[u8],
    watchers: &[Instance],
) -> Result<Instance> {
    let stored = object.omap_value(&local_key(global_id))?.ok_or(Errno::NOENT)?;
    let report: StoredStatus = decode_stored(&stored)?;
    if watchers.contains(&report.origin) { Ok(report.origin) } else { Err(Errno::STALE.into()) }
}

fn instances(
    object: &mut dyn ObjectContext,
    (after, max): (Bytes, u64),
) -> Result<BTreeMap<Bytes, Instance>> {
    let watchers = watchers(object)?;
    let images: Vec<(Bytes, MirrorImage)> =
        omap::list(object, keys::IMAGE_PREFIX, &after, u64::MAX)?;
    let found = of_images(object, &images, |object, image| {
        instance_of(object, &image.global_id, &watchers)
    })?;
    Ok(found.into_iter().take(usize::try_from(max).unwrap_or(usize::MAX)).collect())
}
