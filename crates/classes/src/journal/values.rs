//! Stored and exchanged values of class `journal`, in Ceph's encodings.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};

/// `ObjectPosition`: an entry, and the data object that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// Number of the data object.
    pub object: u64,
    /// Tag under which the entry was written.
    pub tag: u64,
    /// Number of the entry within its tag.
    pub entry: u64,
}

impl Encode for Position {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| w.value(&(self.object, self.tag, self.entry)));
    }
}

impl Decode for Position {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("position", 1, |r, _| {
            let (object, tag, entry) = r.value()?;
            Ok(Position { object, tag, entry })
        })
    }
}

/// `ObjectSetPosition`: the last entry of each data object in use, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SetPosition(pub Vec<Position>);

impl Encode for SetPosition {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| w.value(&self.0));
    }
}

impl Decode for SetPosition {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("positions", 1, |r, _| Ok(SetPosition(r.value()?)))
    }
}

/// `Client`: a writer or reader of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Client {
    /// Name of the client; empty for the image's own.
    pub id: Bytes,
    /// Data of the client, which the class does not interpret.
    pub data: Bytes,
    /// Position up to which the client has processed entries.
    pub committed: SetPosition,
    /// [`Client::CONNECTED`] or [`Client::DISCONNECTED`].
    pub state: u8,
}

impl Client {
    /// The journal keeps what the client has not processed.
    pub const CONNECTED: u8 = 0;
    /// The client is so far behind that the journal is trimmed without it.
    pub const DISCONNECTED: u8 = 1;

    /// True unless the client is disconnected.
    pub fn is_connected(&self) -> bool {
        self.state != Self::DISCONNECTED
    }
}

impl Encode for Client {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.value(&self.id);
            w.value(&self.data);
            w.value(&self.committed);
            w.u8(self.state);
        });
    }
}

impl Decode for Client {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("journal client", 1, |r, _| {
            let (id, data, committed, state) = r.value()?;
            Ok(Client { id, data, committed, state })
        })
    }
}

/// `Tag`: entries of one writer. A newer tag of the same class replaces an older one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tag {
    /// Number of the tag, in order of creation.
    pub number: u64,
    /// Class of the tag.
    pub class: u64,
    /// Data of the writer, which the class does not interpret.
    pub data: Bytes,
}

impl Tag {
    /// As a class: requests a new class.
    pub const CLASS_NEW: u64 = u64::MAX;
}

impl Encode for Tag {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.number);
            w.u64(self.class);
            w.value(&self.data);
        });
    }
}

impl Decode for Tag {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("journal tag", 1, |r, _| {
            let (number, class, data) = r.value()?;
            Ok(Tag { number, class, data })
        })
    }
}
