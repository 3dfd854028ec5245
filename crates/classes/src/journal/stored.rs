//! Clients as stored in a journal's header.

use super::values::Client;
use crate::object::{ObjectContext, Result};
use crate::omap;
use bytes::Bytes;

/// Before the name of a client in the key of its entry.
pub(super) const CLIENT_PREFIX: &str = "client_";

pub(super) fn client_key(id: &[u8]) -> Bytes {
    omap::key(CLIENT_PREFIX, id)
}

/// ENOENT if no client of that name is registered.
pub(super) fn client(object: &mut dyn ObjectContext, id: Bytes) -> Result<Client> {
    omap::require(object, client_key(&id))
}

pub(super) fn set_client(object: &mut dyn ObjectContext, client: &Client) -> Result<()> {
    omap::set(object, client_key(&client.id), client)
}

pub(super) fn clients(object: &mut dyn ObjectContext) -> Result<Vec<Client>> {
    let listed = omap::list_all(object, CLIENT_PREFIX)?;
    Ok(listed.into_iter().map(|(_, client)| client).collect())
}
