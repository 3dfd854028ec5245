//! Formatting of addresses.

use serde_json::{Value, json};
use types::{AddrType, EntityAddr, EntityAddrVec};

/// A list of addresses, as in `addrvec`.
pub fn vector(addrs: &EntityAddrVec) -> Value {
    json!({ "addrvec": addrs.0.iter().map(one).collect::<Vec<_>>() })
}

/// One address with its type and nonce.
pub fn one(addr: &EntityAddr) -> Value {
    let kind = match addr.kind {
        AddrType::None => "none",
        AddrType::Legacy => "v1",
        AddrType::Msgr2 => "v2",
        AddrType::Cidr => "cidr",
        AddrType::Any => "any",
    };
    json!({ "type": kind, "addr": socket(addr), "nonce": addr.nonce })
}

fn socket(addr: &EntityAddr) -> String {
    addr.socket.map_or_else(|| "-".to_owned(), |socket| socket.to_string())
}

/// `127.0.0.1:6803/225`: the address that clients of msgr1 use.
pub fn legacy(addrs: &EntityAddrVec) -> String {
    plain(&addrs.legacy())
}

/// An address without its protocol.
pub fn plain(addr: &EntityAddr) -> String {
    match addr.socket {
        Some(socket) => format!("{socket}/{}", addr.nonce),
        None => "(unrecognized address family 0)/0".to_owned(),
    }
}
