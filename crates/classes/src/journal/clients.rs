//! Clients of a journal, and the position that each has committed.

use super::values::{Client, SetPosition};
use super::{header, stored, tags};
use crate::method::{Method, methods};
use crate::object::{ObjectContext, Result};
use crate::omap;
use bytes::Bytes;
use types::Errno;

pub(super) const METHODS: &[Method] = methods! {
    "client_commit": READ_WRITE => commit,
    "get_client": READ => stored::client,
    "client_register": READ_WRITE => register,
    "client_update_data": READ_WRITE => set_data,
    "client_update_state": READ_WRITE => set_state,
    "client_unregister": READ_WRITE => unregister,
    "client_list": READ => list,
};

fn list(object: &mut dyn ObjectContext, (after, max): (Bytes, u64)) -> Result<Vec<Client>> {
    let listed = omap::list(object, stored::CLIENT_PREFIX, &after, max)?;
    Ok(listed.into_iter().map(|(_, client)| client).collect())
}

/// A new client begins at the position of the slowest one: everything from there on is still in the journal.
fn register(object: &mut dyn ObjectContext, (id, data): (Bytes, Bytes)) -> Result<()> {
    header::order(object, ())?;
    if omap::contains(object, stored::client_key(&id))? {
        return Err(Errno::EXIST.into());
    }
    let committed = farthest_behind(&stored::clients(object)?);
    stored::set_client(object, &Client { id, data, committed, state: Client::CONNECTED })
}

fn farthest_behind(clients: &[Client]) -> SetPosition {
    let connected = clients.iter().filter(|client| client.is_connected());
    let committed = connected.map(|client| &client.committed);
    // A client that has committed nothing has `None`, the least position.
    let newest = |set: &&SetPosition| set.0.first().map(|position| (position.tag, position.entry));
    committed.min_by_key(newest).cloned().unwrap_or_default()
}

fn set_data(object: &mut dyn ObjectContext, (id, data): (Bytes, Bytes)) -> Result<()> {
    let client = stored::client(object, id)?;
    stored::set_client(object, &Client { data, ..client })
}

fn set_state(object: &mut dyn ObjectContext, (id, state): (Bytes, u8)) -> Result<()> {
    let client = stored::client(object, id)?;
    stored::set_client(object, &Client { state, ..client })
}

fn unregister(object: &mut dyn ObjectContext, id: Bytes) -> Result<()> {
    stored::client(object, id.clone())?;
    omap::remove(object, stored::client_key(&id))?;
    tags::expire(object, Some(&id))
}

fn commit(object: &mut dyn ObjectContext, (id, committed): (Bytes, SetPosition)) -> Result<()> {
    if committed.0.len() > header::splay_width(object, ())?.into() {
        return Err(Errno::INVAL.into());
    }
    let client = stored::client(object, id)?;
    if client.committed == committed {
        return Ok(());
    }
    stored::set_client(object, &Client { committed, ..client })
}
