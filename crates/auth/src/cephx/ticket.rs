//! Tickets: sealed by the monitor, they tell a service the identity and the rights of its peer.

use super::{TicketBlob, principal::LEGACY_UID};
use crate::{CryptoError, CryptoKey, Entropy, KeyUsage, open, seal};
use codec::{Decode, Encode, Reader, Result, Writer};
use types::{EntityName, UTime};

/// `AuthCapsInfo`: the capability text for one service, or everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthCaps {
    /// Everything is allowed, whatever the text says.
    pub allow_all: bool,
    /// Capability text in the language of the service.
    pub text: String,
}

impl AuthCaps {
    /// Capability text without `allow_all`.
    pub fn new(text: &str) -> Self {
        AuthCaps { allow_all: false, text: text.to_owned() }
    }
}

impl Encode for AuthCaps {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.bool(self.allow_all);
        w.sized(|w| {
            if !self.text.is_empty() {
                w.string(&self.text);
            }
        });
    }
}

impl Decode for AuthCaps {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8("caps version")?;
        let allow_all = r.bool("allow all")?;
        let mut caps = Reader::new(r.blob("caps")?);
        let text = if caps.is_empty() { String::new() } else { caps.string("caps text")? };
        Ok(AuthCaps { allow_all, text })
    }
}

/// `AuthTicket`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthTicket {
    /// Name of the holder.
    pub name: EntityName,
    /// Global id of the holder.
    pub global_id: u64,
    /// Wall-clock time at the monitor.
    pub created: UTime,
    /// End of the ticket's lifetime.
    pub expires: UTime,
    /// Capabilities for the service.
    pub caps: AuthCaps,
    /// Not used; zero.
    pub flags: u32,
}

impl Encode for AuthTicket {
    fn encode(&self, w: &mut Writer) {
        w.u8(2);
        w.value(&self.name);
        w.u64(self.global_id);
        w.u64(LEGACY_UID);
        w.value(&self.created);
        w.value(&self.expires);
        w.value(&self.caps);
        w.u32(self.flags);
    }
}

impl Decode for AuthTicket {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let version = r.u8("ticket version")?;
        let name = r.value()?;
        let global_id = r.u64("global id")?;
        if version >= 2 {
            r.u64("legacy uid")?;
        }
        Ok(AuthTicket {
            name,
            global_id,
            created: r.value()?,
            expires: r.value()?,
            caps: r.value()?,
            flags: r.u32("ticket flags")?,
        })
    }
}

/// `CephXServiceTicketInfo`: content of a ticket for a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceTicketInfo {
    /// Identity and rights of the holder.
    pub ticket: AuthTicket,
    /// Key that the holder must have.
    pub session_key: CryptoKey,
}

impl ServiceTicketInfo {
    pub(super) fn seal(
        &self,
        secret_id: u64,
        secret: &CryptoKey,
        entropy: &mut Entropy,
    ) -> std::result::Result<TicketBlob, CryptoError> {
        let blob = seal(self, secret, KeyUsage::TicketInfo, entropy)?.into();
        Ok(TicketBlob { secret_id, blob })
    }

    pub(super) fn open(
        ticket: &TicketBlob,
        secret: &CryptoKey,
    ) -> std::result::Result<Self, CryptoError> {
        open("ticket", &ticket.blob, secret, KeyUsage::TicketInfo)
    }
}

impl Encode for ServiceTicketInfo {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.value(&self.ticket);
        w.value(&self.session_key);
    }
}

impl Decode for ServiceTicketInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8("ticket info version")?;
        Ok(ServiceTicketInfo { ticket: r.value()?, session_key: r.value()? })
    }
}

/// `CephXServiceTicket`: content of a ticket for its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceTicket {
    /// Key that belongs to the ticket.
    pub session_key: CryptoKey,
    /// Lifetime, as a duration.
    pub validity: UTime,
}

impl Encode for ServiceTicket {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.value(&self.session_key);
        w.value(&self.validity);
    }
}

impl Decode for ServiceTicket {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u8("service ticket version")?;
        Ok(ServiceTicket { session_key: r.value()?, validity: r.value()? })
    }
}
