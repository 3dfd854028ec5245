//! The exclusive lock of an image: a lock of the class `lock` on the header, which writers acquire
//! automatically and release on request.
//!
//! An owner without a watch on the header is dead. It is blocklisted before its lock is broken, so that OSDs
//! refuse its requests that are still on their way.

mod calls;
#[cfg(test)]
mod tests;

pub(crate) use calls::{LockIdentity, assert_locked, lock, unlock};

use crate::header::{self, Header};
use crate::notify::{ClientId, Notification, Response};
use crate::steps::NamedSteps;
use crate::{Error, Features, watchers};
use calls::{Holder, LockInfo};
use engine::Duration;
use rados::{ClusterRequest, Place, Reply, Steps, WatchId};
use types::{EntityType, Errno};

/// Delay between attempts after the owner agreed to release the lock.
const DELAY_AFTER_AGREEMENT: Duration = Duration::from_millis(500);
/// Delay after no answer: the owner is acquiring or releasing the lock right now, or has crashed.
const DELAY_WITHOUT_ANSWER: Duration = Duration::from_millis(200);
/// Attempts of a task to acquire a lock before it fails.
const TRIES_MAX: u32 = 240;

/// Result of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attempt {
    Acquired(ClientId),
    /// The caller tries again.
    NotYet,
}

/// Makes one attempt to acquire the lock from its current owner.
pub(crate) async fn attempt(
    steps: &Steps,
    header: &Header,
    watch: WatchId,
) -> Result<Attempt, Error> {
    let me = ClientId { global_id: identify(steps).await?, handle: watch.0 };
    let place = header.place();
    let identity = LockIdentity::of_watch(watch.0);
    match steps.write(&place, vec![lock(&identity)]).await {
        // An earlier attempt, whose response was dropped, may have acquired it.
        Ok(_) | Err(Errno::EXIST) => return Ok(Attempt::Acquired(me)),
        Err(Errno::BUSY) => {}
        Err(errno) => return Err(failed(header, "acquiring the lock", errno)),
    }
    if let Some(holder) = holder(steps, header, &place).await? {
        match is_alive(steps, &place, &holder).await? {
            true => request_release(steps, header, me).await?,
            false => break_lock_of(steps, header, &holder, me).await?,
        }
    }
    Ok(Attempt::NotYet)
}

fn failed(header: &Header, step: &str, errno: Errno) -> Error {
    match errno {
        Errno::BLOCKLISTED => blocklisted(header),
        errno => Error::cluster(format!("{step} of {}", header.spec), errno),
    }
}

pub(crate) fn blocklisted(header: &Header) -> Error {
    let text = format!(
        "this client was shut out of the cluster while it used {}, by somebody who took it for dead \
         (`ceph osd blocklist ls`); start it again to go on",
        header.spec
    );
    Error::cluster(text, Errno::BLOCKLISTED)
}

pub(crate) async fn identify(steps: &Steps) -> Result<u64, Error> {
    let identity = steps.identify().await;
    identity.map_err(|_| Error::cluster("reading this client's global id", Errno::IO))
}

async fn read_lock(steps: &Steps, place: &Place) -> Result<LockInfo, Error> {
    let reply =
        steps.read_step("reading the owner of the lock", place, vec![calls::get_info()]).await?;
    crate::calls::output(&reply, 0, "the lock")
}

/// The current owner; an error if the lock is not one that its owner releases on request.
async fn holder(steps: &Steps, header: &Header, place: &Place) -> Result<Option<Holder>, Error> {
    let info = read_lock(steps, place).await?;
    let internal = LockIdentity::of_watch(0).tag.as_bytes();
    let is_ours = info.is_exclusive && info.tag == internal;
    match info.holders.into_iter().next() {
        None => Ok(None),
        Some(holder) if is_ours && holder.watch().is_some() => Ok(Some(holder)),
        Some(holder) => {
            let image = &header.spec;
            let text = format!(
                "{image} is locked by {:?} at {}, with the cookie {:?}; `rbd lock rm` takes such a \
                 lock away",
                holder.name, holder.addr, holder.cookie
            );
            Err(Error::cluster(text, Errno::BUSY))
        }
    }
}

async fn is_alive(steps: &Steps, place: &Place, holder: &Holder) -> Result<bool, Error> {
    let watchers = watchers::list(steps, place).await?;
    let is_his = |watcher: &wire::watch::Watcher| {
        let (at, his) = (watcher.addr, holder.addr);
        Some(watcher.cookie) == holder.watch() && (at.socket, at.nonce) == (his.socket, his.nonce)
    };
    Ok(watchers.iter().any(is_his))
}

/// Asks the owner to release the lock; fails if it answers that it keeps it.
async fn request_release(steps: &Steps, header: &Header, me: ClientId) -> Result<(), Error> {
    let request = Notification::RequestLock { from: me, force: false };
    let answer = steps.request(notification(header, request)).await;
    let replies = match answer {
        Ok(Reply::Notified(result)) => result.replies,
        Err(Errno::BLOCKLISTED) => return Err(blocklisted(header)),
        _ => Default::default(),
    };
    let responses = replies.values().filter(|reply| !reply.is_empty());
    let responses = responses.filter_map(|reply| codec::decode_all("response", reply).ok());
    let responses: Vec<Response> = responses.collect();
    if responses.iter().any(|Response(result)| *result == Errno::ROFS.negative()) {
        let text = format!("{} is used by a client that keeps its exclusive lock", header.spec);
        return Err(Error::cluster(text, Errno::ROFS));
    }
    steps
        .wait(if responses.is_empty() { DELAY_WITHOUT_ANSWER } else { DELAY_AFTER_AGREEMENT })
        .await;
    Ok(())
}

pub(crate) fn notification(header: &Header, notification: Notification) -> ClusterRequest {
    ClusterRequest::Notify { place: header.place(), payload: codec::encode_to_bytes(&notification) }
}

/// Breaks the lock of an owner that does not watch any more.
async fn break_lock_of(
    steps: &Steps,
    header: &Header,
    holder: &Holder,
    me: ClientId,
) -> Result<(), Error> {
    let place = header.place();
    // A later owner watches.
    if !read_lock(steps, &place).await?.holders.contains(holder) {
        return Ok(());
    }
    // The lock is our own, from a watch that ended: our earlier requests stay in order with later ones.
    let is_own =
        holder.name.kind == EntityType::CLIENT && holder.name.number == me.global_id as i64;
    if !is_own && !blocklist(steps, header, holder).await? {
        return Ok(());
    }
    match steps.write(&place, vec![calls::break_lock(holder)]).await {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed(header, "breaking the lock", errno)),
    }
}

/// Blocklists the owner; true once that is done and this client has the map that says so.
async fn blocklist(steps: &Steps, header: &Header, holder: &Holder) -> Result<bool, Error> {
    let addr = match holder.addr.socket {
        Some(socket) => format!("{socket}/{}", holder.addr.nonce),
        None => return Err(failed(header, "breaking the lock", Errno::INVAL)),
    };
    let command = format!(r#"{{"prefix":"osd blocklist","blocklistop":"add","addr":"{addr}"}}"#);
    let result = match steps.command(command).await {
        Ok(output) if output.result >= 0 => Ok(()),
        Ok(output) => Err(Errno(output.result.saturating_neg())),
        Err(errno) => Err(errno),
    };
    match result {
        Ok(()) => {}
        // The control store is out of reach, perhaps for a moment.
        Err(Errno::IO | Errno::AGAIN | Errno::TIMEDOUT) => {
            steps.wait(DELAY_AFTER_AGREEMENT).await;
            return Ok(false);
        }
        Err(errno) => {
            let step = format!(
                "shutting out {addr}, which has the lock of {} and is gone, with `ceph osd \
                 blocklist add`",
                header.spec
            );
            return Err(Error::cluster(step, errno));
        }
    }
    // Later requests carry this epoch, so that OSDs learn of the blocklist entry before they execute them.
    match steps.newest_map().await {
        Ok(_) => Ok(true),
        Err(errno) => Err(failed(header, "breaking the lock", errno)),
    }
}

/// Releases the lock; afterwards it is not ours in any case.
pub(crate) async fn release(steps: &Steps, header: &Header, watch: WatchId) -> Result<(), Error> {
    let identity = LockIdentity::of_watch(watch.0);
    match steps.write(&header.place(), vec![unlock(&identity)]).await {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed(header, "releasing the lock", errno)),
    }
}

/// Changes the cookie of a lock that is held to another watch; false if it is not held any more.
pub(crate) async fn renew(
    steps: &Steps,
    header: &Header,
    old: WatchId,
    new: WatchId,
) -> Result<bool, Error> {
    let (old, new) = (LockIdentity::of_watch(old.0), LockIdentity::of_watch(new.0));
    match steps.write(&header.place(), vec![calls::set_cookie(&old, &new)]).await {
        Ok(_) => Ok(true),
        Err(Errno::BUSY | Errno::NOENT) => Ok(false),
        Err(errno) => Err(failed(header, "renewing the lock", errno)),
    }
}

/// Takes over a lock that follows the image's lock (an object map's) from its previous owner.
pub(crate) async fn take_over(steps: &Steps, place: &Place) -> Result<Result<(), Errno>, Error> {
    loop {
        match steps.write(place, vec![lock(&LockIdentity::NONE)]).await {
            Ok(_) | Err(Errno::EXIST) => return Ok(Ok(())),
            Err(Errno::BUSY) => {}
            Err(errno) => return Ok(Err(errno)),
        }
        for holder in read_lock(steps, place).await?.holders {
            match steps.write(place, vec![calls::break_lock(&holder)]).await {
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Ok(Err(errno)),
            }
        }
    }
}

/// A lock that could not be released is taken from this client once its watch is unregistered.
fn warn_of_release(header: &Header, error: &Error) {
    let image = &header.spec;
    tracing::warn!(%image, %error, "the exclusive lock was not released; the next owner breaks it");
}

/// Runs a function as owner of the image's lock, if the image has that feature. The outcome is the
/// function's, also if the lock cannot be released.
pub(crate) async fn with_lock<T>(
    steps: &Steps,
    header: Header,
    work: impl AsyncFnOnce(&Steps, &Header) -> Result<T, Error>,
) -> Result<T, Error> {
    if !header.features.contains(Features::EXCLUSIVE_LOCK) {
        return work(steps, &header).await;
    }
    let watch = steps.watch(header.place()).await;
    let watch = watch.map_err(|errno| failed(&header, "watching the header", errno))?;
    let outcome = async {
        let me = acquire(steps, &header, watch).await?;
        let outcome = work_as_owner(steps, &header, me, work).await;
        match release(steps, &header, watch).await {
            Ok(()) => steps.send(notification(&header, Notification::ReleasedLock(me))),
            Err(error) => warn_of_release(&header, &error),
        }
        outcome
    }
    .await;
    // A watch that is not unregistered times out.
    let _ = steps.unwatch(watch).await;
    outcome
}

async fn work_as_owner<T>(
    steps: &Steps,
    header: &Header,
    me: ClientId,
    work: impl AsyncFnOnce(&Steps, &Header) -> Result<T, Error>,
) -> Result<T, Error> {
    steps.send(notification(header, Notification::AcquiredLock(me)));
    // The header is read again: the previous owner may have changed it.
    let header = header::read_with_id(steps, &header.spec, header.id.clone()).await?;
    work(steps, &header).await
}

async fn acquire(steps: &Steps, header: &Header, watch: WatchId) -> Result<ClientId, Error> {
    for _ in 0..TRIES_MAX {
        if let Attempt::Acquired(me) = attempt(steps, header, watch).await? {
            return Ok(me);
        }
    }
    let text =
        format!("the client that has the exclusive lock of {} does not release it", header.spec);
    Err(Error::cluster(text, Errno::TIMEDOUT))
}
