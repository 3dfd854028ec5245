//! Names of entities: `client.admin`, `osd.3`, `mon.a`.

use codec::{Decode, Encode, Reader, Result, Writer};
use std::fmt;
use std::str::FromStr;

/// The kind of a participant; a bit mask in the protocol (`CEPH_ENTITY_TYPE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityType(pub u8);

impl EntityType {
    /// A monitor.
    pub const MON: EntityType = EntityType(0x01);
    /// A metadata server of CephFS.
    pub const MDS: EntityType = EntityType(0x02);
    /// An OSD.
    pub const OSD: EntityType = EntityType(0x04);
    /// A client of any kind.
    pub const CLIENT: EntityType = EntityType(0x08);
    /// A manager daemon.
    pub const MGR: EntityType = EntityType(0x10);
    /// The authentication service, to which tickets for tickets belong.
    pub const AUTH: EntityType = EntityType(0x20);
    /// Stands for all kinds where a filter is meant.
    pub const ANY: EntityType = EntityType(0xff);

    const NAMES: [(EntityType, &'static str); 6] = [
        (EntityType::MON, "mon"),
        (EntityType::MDS, "mds"),
        (EntityType::OSD, "osd"),
        (EntityType::CLIENT, "client"),
        (EntityType::MGR, "mgr"),
        (EntityType::AUTH, "auth"),
    ];

    /// Ceph's name of the kind, `osd`; `unknown` for numbers that Ceph does not define.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, _)| *kind == self).map_or("unknown", |(_, name)| name)
    }

    /// The kind of this name; `None` if Ceph has none.
    pub fn from_name(name: &str) -> Option<EntityType> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }
}

impl fmt::Display for EntityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `EntityName`: the authentication identity, `client.admin`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityName {
    /// The kind of daemon or client.
    pub kind: EntityType,
    /// The name within the kind: an OSD's number, a client's user.
    pub id: String,
}

impl EntityName {
    /// The entity of this kind and id.
    pub fn new(kind: EntityType, id: impl Into<String>) -> Self {
        EntityName { kind, id: id.into() }
    }

    /// `client.<id>`
    pub fn client(id: &str) -> Self {
        EntityName::new(EntityType::CLIENT, id)
    }

    /// `osd.<id>`
    pub fn osd(id: i32) -> Self {
        EntityName::new(EntityType::OSD, id.to_string())
    }
}

impl Encode for EntityName {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.kind.0.into());
        w.string(&self.id);
    }
}

impl Decode for EntityName {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let kind = r.u32("entity type")?;
        let kind = u8::try_from(kind).map_err(|_| at.invalid("entity type", kind.into()))?;
        Ok(EntityName { kind: EntityType(kind), id: r.string("entity id")? })
    }
}

impl fmt::Display for EntityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.id)
    }
}

impl FromStr for EntityName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (kind, id) = text.split_once('.').ok_or(())?;
        let kind = EntityType::from_name(kind).ok_or(())?;
        Ok(EntityName::new(kind, id))
    }
}

/// `entity_name_t`: the messenger's name of a participant, `client.4123` or `osd.3`. For clients the number
/// is the global id that the monitor assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ParticipantName {
    /// The kind of daemon or client.
    pub kind: EntityType,
    /// An OSD's id, a monitor's rank, a client's global id.
    pub number: i64,
}

impl ParticipantName {
    /// The participant of this kind and number.
    pub fn new(kind: EntityType, number: i64) -> Self {
        ParticipantName { kind, number }
    }
}

impl Encode for ParticipantName {
    fn encode(&self, w: &mut Writer) {
        w.u8(self.kind.0);
        w.i64(self.number);
    }
}

impl Decode for ParticipantName {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let kind = EntityType(r.u8("entity type")?);
        Ok(ParticipantName { kind, number: r.i64("entity number")? })
    }
}

impl fmt::Display for ParticipantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            -1 => write!(f, "{}.?", self.kind),
            number => write!(f, "{}.{number}", self.kind),
        }
    }
}
