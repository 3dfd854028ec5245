//! Authentication method `none`: names are believed, and nothing is secret.

use super::AUTH_MODE_AUTHORIZER;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::EntityName;

/// `AuthNoneAuthorizer`: authorizer of a client without authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoneAuthorizer {
    /// The asserted name.
    pub name: EntityName,
    /// Zero, or the id that the monitor assigned.
    pub global_id: u64,
}

impl Encode for NoneAuthorizer {
    fn encode(&self, w: &mut Writer) {
        w.u8(AUTH_MODE_AUTHORIZER);
        w.value(&self.name);
        w.u64(self.global_id);
    }
}

impl Decode for NoneAuthorizer {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8("authorizer version")?;
        Ok(NoneAuthorizer { name: r.value()?, global_id: r.u64("global id")? })
    }
}
