//! Common parts of all messages, and the macros that turn a list of fields into a codec.

use codec::{Decode, DecodeError, Reader, Result};
use engine::Message;

/// A message's fields. The transaction id is not among them: it belongs to [`Message`].
pub trait MessageBody: Sized {
    /// `CEPH_MSG_*` or `MSG_*`.
    const KIND: u16;

    /// The message for a peer with `features`.
    fn encode(&self, features: u64) -> Message;

    /// Decodes the front of a message of this kind, in any supported version.
    fn decode(message: &Message) -> Result<Self>;
}

/// Field names in errors of primitives, which are less specific than the name of the field.
const GENERIC_NAMES: [&str; 14] = [
    "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "bool", "f64", "string", "bytes", "list",
    "map",
];

/// Decodes a field; errors carry its name unless something inside it has a better one.
pub(crate) fn field<T: Decode>(r: &mut Reader<'_>, name: &'static str) -> Result<T> {
    r.value().map_err(|error: DecodeError| {
        let generic = GENERIC_NAMES.contains(&error.field);
        DecodeError { field: if generic { name } else { error.field }, ..error }
    })
}

/// Prefix of every message to a monitor's services: the version of the map that the sender has (in replies,
/// knows of), and two numbers that are no longer used.
pub(crate) fn encode_paxos(w: &mut codec::Writer, version: u64) {
    w.u64(version);
    w.i16(-1);
    w.u64(0);
}

pub(crate) fn decode_paxos(r: &mut Reader<'_>) -> Result<u64> {
    let version = r.u64("version")?;
    r.skip("session", 10)?;
    Ok(version)
}

/// Defines a message whose front is its fields in order.
///
/// `paxos(name)` puts the service prefix first, its version is field `name`; `data(name)` makes
/// the data segment a field. A field that is there only `since` a version takes its default when
/// an older writer left it out.
macro_rules! message {
    (
        $(#[$doc:meta])*
        $name:ident = $kind:literal, version $version:literal, compat $compat:literal
        $(, paxos($paxos:ident))? $(, data($data:ident))?
        { $($(#[$field_doc:meta])* $field:ident: $type:ty $(, since $since:literal)?;)* }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            $(
                /// The version of the map that the sender has or answers from.
                pub $paxos: u64,
            )?
            $($(#[$field_doc])* pub $field: $type,)*
            $(
                /// The data segment.
                pub $data: ::bytes::Bytes,
            )?
        }

        impl $crate::MessageBody for $name {
            const KIND: u16 = $kind;

            fn encode(&self, _features: u64) -> ::engine::Message {
                #[allow(unused_mut)]
                let mut w = ::codec::Writer::new();
                $($crate::body::encode_paxos(&mut w, self.$paxos);)?
                $(w.value(&self.$field);)*
                let message = ::engine::Message::new($kind, $version, $compat, w.into_bytes());
                $(let message = message.with_data(self.$data.clone());)?
                message
            }

            fn decode(message: &::engine::Message) -> ::codec::Result<Self> {
                #[allow(unused_mut, unused_variables)]
                let mut r = ::codec::Reader::new(&message.front);
                Ok($name {
                    $($paxos: $crate::body::decode_paxos(&mut r)?,)?
                    $($field: decode_field!(r, message.version, $field $(, $since)?),)*
                    $($data: message.data.clone(),)?
                })
            }
        }
    };
}

/// Defines a structure behind a version header, with the rules of `message!` for its fields.
macro_rules! structure {
    (
        $(#[$doc:meta])*
        $name:ident, version $version:literal, compat $compat:literal
        { $($(#[$field_doc:meta])* $field:ident: $type:ty $(, since $since:literal)?;)* }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl ::codec::Encode for $name {
            fn encode(&self, w: &mut ::codec::Writer) {
                w.versioned($version, $compat, |w| {
                    $(w.value(&self.$field);)*
                });
            }
        }

        impl ::codec::Decode for $name {
            fn decode(r: &mut ::codec::Reader<'_>) -> ::codec::Result<Self> {
                #[allow(unused_variables)]
                r.versioned(stringify!($name), $version, |r, version| {
                    Ok($name { $($field: decode_field!(*r, version, $field $(, $since)?),)* })
                })
            }
        }
    };
}

macro_rules! decode_field {
    ($r:expr, $version:expr, $field:ident) => {
        $crate::body::field(&mut $r, stringify!($field))?
    };
    ($r:expr, $version:expr, $field:ident, $since:literal) => {
        if $version >= $since {
            $crate::body::field(&mut $r, stringify!($field))?
        } else {
            Default::default()
        }
    };
}
