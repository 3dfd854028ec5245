//! Clients of a journal, and the position that each has committed.

use super::values::{Client, SetPosition};
use super::{header, tags};
use crate::{Method, ObjectContext, Result, methods, omap};
use bytes::Bytes;
use types::Errno;

pub(super) const METHODS: &[Method] = methods! {
    "client_commit": READ_WRITE => commit,
    "get_client": READ => get,
    "client_register": READ_WRITE => register,
    "client_update_data": READ_WRITE => set_data,
    "client_update_state": READ_WRITE => set_state,
    "client_unregister": READ_WRITE => unregister,
    "client_list": READ => list,
};

const PREFIX: &str = "client_";

fn key(id: &[u8]) -> Bytes {
    omap::key(PREFIX, id)
}

pub(super) fn get(object: &mut dyn ObjectContext, id: Bytes) -> Result<Client> {
    omap::require(object, key(&id))
}

fn store(object: &mut dyn ObjectContext, client: &Client) -> Result<()> {
    omap::set(object, key(&client.id), client)
}

pub(super) fn all(object: &mut dyn ObjectContext) -> Result<Vec<Client>> {
    let listed = omap::list_all(object, PREFIX)?;
    Ok(listed.into_iter().map(|(_, client)| client).collect())
}

fn list(object: &mut dyn ObjectContext, (after, max): (Bytes, u64)) -> Result<Vec<Client>> {
    let listed = omap::list(object, PREFIX, &after, max)?;
    Ok(listed.into_iter().map(|(_, client)| client).collect())
}

/// A new client begins at the position of the slowest one: everything from there on is still in the journal.
fn register(object: &mut dyn ObjectContext, (id, data): (Bytes, Bytes)) -> Result<()> {
    header::order(object, ())?;
    if omap::contains(object, key(&id))? {
        return Err(Errno::EXIST.into());
    }
    let committed = farthest_behind(&all(object)?);
    store(object, &Client { id, data, committed, state: Client::CONNECTED })
}

fn farthest_behind(clients: &[Client]) -> SetPosition {
    let connected = clients.iter().filter(|client| client.is_connected());
    let committed = connected.map(|client| &client.committed);
    // A client that has committed nothing has `None`, the least position.
    let newest = |set: &&SetPosition| set.0.first().map(|position| (position.tag, position.entry));
    committed.min_by_key(newest).cloned().unwrap_or_default()
}

fn set_data(object: &mut dyn ObjectContext, (id, data): (Bytes, Bytes)) -> Result<()> {
    let client = get(object, id)?;
    store(object, &Client { data, ..client })
}

fn set_state(object: &mut dyn ObjectContext, (id, state): (Bytes, u8)) -> Result<()> {
    let client = get(object, id)?;
    store(object, &Client { state, ..client })
}

fn unregister(object: &mut dyn ObjectContext, id: Bytes) -> Result<()> {
    get(object, id.clone())?;
    omap::remove(object, key(&id))?;
    tags::expire(object, Some(&id))
}

fn commit(object: &mut dyn ObjectContext, (id, committed): (Bytes, SetPosition)) -> Result<()> {
    if committed.0.len() > header::splay_width(object, ())?.into() {
        return Err(Errno::INVAL.into());
    }
    let client = get(object, id)?;
    if client.committed == committed {
        return Ok(());
    }
    store(object, &Client { committed, ..client })
}
