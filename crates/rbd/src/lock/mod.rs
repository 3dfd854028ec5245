//! The exclusive lock of an image: a lock of the class `lock` on the header, which whoever writes takes
//! by itself and gives up when another asks for it.
//!
//! Whether an owner is alive is seen by his watch on the header. Before the lock of one who does not
//! watch is broken, he is blocklisted: what he may still have on its way is refused from then on.

mod calls;

pub(crate) use calls::{Badge, assert_locked, lock, unlock};

use crate::header::{self, Header};
use crate::notify::{ClientId, Notification, Response};
use crate::steps::{Ask, Steps, Stop};
use crate::{Error, Features, tasks};
use calls::{Holder, LockInfo};
use engine::Duration;
use rados::{Place, Reply, WatchId};
use types::{EntityType, Errno};

/// To one who was asked for the lock.
const REST_ASKED: Duration = Duration::from_millis(500);
/// When nobody answered: the owner takes or gives up the lock right now, or has crashed.
const REST_UNANSWERED: Duration = Duration::from_millis(200);
/// How often a task tries to get a lock.
const TRIES_MAX: u32 = 240;

/// What came of one try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attempt {
    Taken(ClientId),
    /// Try again.
    NotYet,
}

/// Tries once to get the lock, from whoever has it.
pub(crate) fn attempt(steps: &mut Steps, header: &Header, watch: WatchId) -> Result<Attempt, Stop> {
    let me = ClientId { global_id: identify(steps)?, handle: watch.0 };
    let place = header.place();
    let badge = Badge::of_watch(watch.0);
    match steps.try_change(&place, || vec![lock(&badge)])? {
        // It may have been taken by a try whose answer nobody waited for.
        Ok(_) | Err(Errno::EXIST) => return Ok(Attempt::Taken(me)),
        Err(Errno::BUSY) => {}
        Err(errno) => return Err(failed(header, "taking the lock", errno).into()),
    }
    if let Some(holder) = holder(steps, header, &place)? {
        match is_alive(steps, &place, &holder)? {
            true => ask_for_it(steps, header, me)?,
            false => take_away(steps, header, &holder, me)?,
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

pub(crate) fn identify(steps: &mut Steps) -> Result<u64, Stop> {
    match steps.ask(|| Ask::Identify)? {
        Ok(Reply::Identity { global_id }) => Ok(global_id),
        _ => Err(Error::cluster("asking for this client's number", Errno::IO).into()),
    }
}

fn look_at_lock(steps: &mut Steps, place: &Place) -> Result<LockInfo, Stop> {
    let reply = steps.look("asking who has the lock", place, || vec![calls::get_info()])?;
    Ok(crate::calls::output(&reply, 0, "the lock")?)
}

/// Who has the lock; an error if it is not one that is given up.
fn holder(steps: &mut Steps, header: &Header, place: &Place) -> Result<Option<Holder>, Stop> {
    let info = look_at_lock(steps, place)?;
    let internal = Badge::of_watch(0).tag.as_bytes();
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
            Err(Error::cluster(text, Errno::BUSY).into())
        }
    }
}

fn is_alive(steps: &mut Steps, place: &Place, holder: &Holder) -> Result<bool, Stop> {
    let watchers = tasks::watchers(steps, place)?;
    let is_his = |watcher: &wire::watch::Watcher| {
        let (at, his) = (watcher.addr, holder.addr);
        Some(watcher.cookie) == holder.watch() && (at.socket, at.nonce) == (his.socket, his.nonce)
    };
    Ok(watchers.iter().any(is_his))
}

/// An error if the owner says that it keeps the lock.
fn ask_for_it(steps: &mut Steps, header: &Header, me: ClientId) -> Result<(), Stop> {
    let request = Notification::RequestLock { from: me, force: false };
    let answer = steps.ask(|| notification(header, request))?;
    let replies = match answer {
        Ok(Reply::Notified(result)) => result.replies,
        Err(Errno::BLOCKLISTED) => return Err(blocklisted(header).into()),
        _ => Default::default(),
    };
    let responses = replies.values().filter(|reply| !reply.is_empty());
    let responses = responses.filter_map(|reply| codec::decode_all("response", reply).ok());
    let responses: Vec<Response> = responses.collect();
    if responses.iter().any(|Response(result)| *result == Errno::ROFS.negative()) {
        let text = format!("{} is used by a client that keeps its exclusive lock", header.spec);
        return Err(Error::cluster(text, Errno::ROFS).into());
    }
    steps.rest(if responses.is_empty() { REST_UNANSWERED } else { REST_ASKED })
}

pub(crate) fn notification(header: &Header, notification: Notification) -> Ask {
    Ask::Notify { place: header.place(), payload: codec::encode_to_bytes(&notification) }
}

/// Breaks the lock of one who does not watch any more.
fn take_away(
    steps: &mut Steps,
    header: &Header,
    holder: &Holder,
    me: ClientId,
) -> Result<(), Stop> {
    let place = header.place();
    // Whoever took it meanwhile watches.
    if !look_at_lock(steps, &place)?.holders.contains(holder) {
        return Ok(());
    }
    // Our own, of a watch that is over: what is on its way is in order with what will be.
    let is_own =
        holder.name.kind == EntityType::CLIENT && holder.name.number == me.global_id as i64;
    if !is_own && !blocklist(steps, header, holder)? {
        return Ok(());
    }
    match steps.try_change(&place, || vec![calls::break_lock(holder)])? {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed(header, "breaking the lock", errno).into()),
    }
}

/// Whether that is done, and known here.
fn blocklist(steps: &mut Steps, header: &Header, holder: &Holder) -> Result<bool, Stop> {
    let addr = match holder.addr.socket {
        Some(socket) => format!("{socket}/{}", holder.addr.nonce),
        None => return Err(failed(header, "breaking the lock", Errno::INVAL).into()),
    };
    let command = format!(r#"{{"prefix":"osd blocklist","blocklistop":"add","addr":"{addr}"}}"#);
    let result = match steps.ask(|| Ask::Command(command))? {
        Ok(Reply::Command(output)) if output.result >= 0 => Ok(()),
        Ok(Reply::Command(output)) => Err(Errno(output.result.saturating_neg())),
        Ok(_) => Err(Errno::IO),
        Err(errno) => Err(errno),
    };
    match result {
        Ok(()) => {}
        // The control store is out of reach, perhaps for a moment.
        Err(Errno::IO | Errno::AGAIN | Errno::TIMEDOUT) => {
            return steps.rest(REST_ASKED).map(|()| false);
        }
        Err(errno) => {
            let step = format!(
                "shutting out {addr}, which has the lock of {} and is gone, with `ceph osd \
                 blocklist add`",
                header.spec
            );
            return Err(Error::cluster(step, errno).into());
        }
    }
    // What is asked from now on reaches no OSD that does not know.
    match steps.ask(|| Ask::NewestMap)? {
        Ok(_) => Ok(true),
        Err(errno) => Err(failed(header, "breaking the lock", errno).into()),
    }
}

/// After it nobody has the lock from us, whatever happened.
pub(crate) fn release(steps: &mut Steps, header: &Header, watch: WatchId) -> Result<(), Stop> {
    let badge = Badge::of_watch(watch.0);
    match steps.try_change(&header.place(), || vec![unlock(&badge)])? {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed(header, "giving up the lock", errno).into()),
    }
}

/// Gives a lock that is held the name of another watch; false if it is not held any more.
pub(crate) fn renew(
    steps: &mut Steps,
    header: &Header,
    old: WatchId,
    new: WatchId,
) -> Result<bool, Stop> {
    let (old, new) = (Badge::of_watch(old.0), Badge::of_watch(new.0));
    match steps.try_change(&header.place(), || vec![calls::set_cookie(&old, &new)])? {
        Ok(_) => Ok(true),
        Err(Errno::BUSY | Errno::NOENT) => Ok(false),
        Err(errno) => Err(failed(header, "renewing the lock", errno).into()),
    }
}

/// Takes a lock whose owner is whoever has the image's, from whoever had that before.
pub(crate) fn seize(steps: &mut Steps, place: &Place) -> Result<Result<(), Errno>, Stop> {
    loop {
        match steps.try_change(place, || vec![lock(&Badge::NONE)])? {
            Ok(_) | Err(Errno::EXIST) => return Ok(Ok(())),
            Err(Errno::BUSY) => {}
            Err(errno) => return Ok(Err(errno)),
        }
        for holder in look_at_lock(steps, place)?.holders {
            match steps.try_change(place, || vec![calls::break_lock(&holder)])? {
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Ok(Err(errno)),
            }
        }
    }
}

/// Does something to an image as the owner of its lock, if it has one.
pub(crate) fn with_lock<T>(
    steps: &mut Steps,
    header: Header,
    work: impl FnOnce(&mut Steps, &Header) -> Result<T, Stop>,
) -> Result<T, Stop> {
    if !header.features.contains(Features::EXCLUSIVE_LOCK) {
        return work(steps, &header);
    }
    let watch = match steps.ask(|| Ask::Watch(header.place()))? {
        Ok(Reply::Watching(watch)) => watch,
        Ok(_) => return Err(failed(&header, "watching the header", Errno::IO).into()),
        Err(errno) => return Err(failed(&header, "watching the header", errno).into()),
    };
    let outcome = match take(steps, &header, watch) {
        Ok(me) => {
            let outcome = work_as_owner(steps, &header, me, work);
            if !matches!(outcome, Err(Stop::Waiting)) {
                release(steps, &header, watch)?;
                steps.tell(|| notification(&header, Notification::ReleasedLock(me)));
            }
            outcome
        }
        Err(stop) => Err(stop),
    };
    if !matches!(outcome, Err(Stop::Waiting)) {
        // A watch that does not end in order ends by itself.
        let _ = steps.ask(|| Ask::Unwatch(watch))?;
    }
    outcome
}

fn work_as_owner<T>(
    steps: &mut Steps,
    header: &Header,
    me: ClientId,
    work: impl FnOnce(&mut Steps, &Header) -> Result<T, Stop>,
) -> Result<T, Stop> {
    steps.tell(|| notification(header, Notification::AcquiredLock(me)));
    // What the last owner did to it is known only now.
    let header = header::read_with_id(steps, &header.spec, header.id.clone())?;
    work(steps, &header)
}

fn take(steps: &mut Steps, header: &Header, watch: WatchId) -> Result<ClientId, Stop> {
    for _ in 0..TRIES_MAX {
        if let Attempt::Taken(me) = attempt(steps, header, watch)? {
            return Ok(me);
        }
    }
    let text =
        format!("the client that has the exclusive lock of {} does not give it up", header.spec);
    Err(Error::cluster(text, Errno::TIMEDOUT).into())
}
