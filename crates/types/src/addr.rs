//! Network addresses: `entity_addr_t` and `entity_addrvec_t`, in their new and legacy encodings.

use crate::features::MSG_ADDR2;
use codec::{Decode, DecodeErrorKind, Encode, Reader, Result, Writer};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::str::FromStr;
use thiserror::Error;

const FAMILY_INET: u16 = 2;
const FAMILY_INET6: u16 = 10;
/// `sizeof(sockaddr_in)` and `sizeof(sockaddr_in6)` on Linux.
const SOCKADDR_IN_LEN: u32 = 16;
const SOCKADDR_IN6_LEN: u32 = 28;
/// `sizeof(sockaddr_storage)`, which the legacy encoding always carries whole.
const SOCKADDR_STORAGE_LEN: usize = 128;
/// Addresses in one vector at most: a few protocols and families of one daemon.
const ADDRS_MAX: usize = 64;

/// The protocol of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum AddrType {
    /// No protocol: an address that is not set.
    #[default]
    None,
    /// msgr1
    Legacy,
    /// msgr2
    Msgr2,
    /// Any protocol; entries of the blocklist are of this kind.
    Any,
    /// A network; the nonce is the length of its prefix.
    Cidr,
}

/// One address of a daemon or client. The nonce distinguishes incarnations at the same port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityAddr {
    /// The protocol that is spoken at the socket.
    pub kind: AddrType,
    /// Distinguishes processes that had the same socket one after the other; a process id or a random
    /// number.
    pub nonce: u32,
    /// Host and port; the port is zero for clients, which accept no connections. `None` if unset.
    pub socket: Option<SocketAddr>,
}

impl EntityAddr {
    /// An address at which msgr2 is spoken.
    pub fn msgr2(socket: SocketAddr, nonce: u32) -> Self {
        EntityAddr { kind: AddrType::Msgr2, nonce, socket: Some(socket) }
    }

    /// Encodes for a peer with `features`.
    pub fn encode_for(&self, w: &mut Writer, features: u64) {
        if features & MSG_ADDR2 == 0 { self.encode_legacy(w) } else { self.encode(w) }
    }

    fn encode_legacy(&self, w: &mut Writer) {
        w.u32(0);
        w.u32(self.nonce);
        let start = w.len();
        if let Some(socket) = self.socket {
            // The family is big-endian here, unlike in the new encoding.
            w.raw(&family(socket).to_be_bytes());
            encode_socket_tail(w, socket);
        }
        w.zeros(SOCKADDR_STORAGE_LEN - (w.len() - start));
    }

    fn decode_marked(r: &mut Reader<'_>, marker: u8) -> Result<Self> {
        match marker {
            0 => Self::decode_legacy(r),
            1 => r.versioned("address", 1, |r, _| Self::decode_body(r)),
            other => Err(r.invalid("address marker", other.into())),
        }
    }

    fn decode_legacy(r: &mut Reader<'_>) -> Result<Self> {
        r.skip("address padding", 3)?;
        let nonce = r.u32("nonce")?;
        let storage: [u8; SOCKADDR_STORAGE_LEN] = r.array("sockaddr")?;
        let family = u16::from_be_bytes([storage[0], storage[1]]);
        let socket = decode_socket(&mut Reader::new(&storage[2..]), family)?;
        let kind = if socket.is_some() { AddrType::Legacy } else { AddrType::None };
        Ok(EntityAddr { kind, nonce, socket })
    }

    fn decode_body(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let kind = match r.u32("address type")? {
            0 => AddrType::None,
            1 => AddrType::Legacy,
            2 => AddrType::Msgr2,
            3 => AddrType::Any,
            4 => AddrType::Cidr,
            other => return Err(at.invalid("address type", other.into())),
        };
        let nonce = r.u32("nonce")?;
        let socket_raw = r.blob("sockaddr")?;
        let socket = match socket_raw.len() {
            0 => None,
            _ => {
                let mut r = Reader::new(socket_raw);
                let family = r.u16("address family")?;
                decode_socket(&mut r, family)?
            }
        };
        Ok(EntityAddr { kind, nonce, socket })
    }
}

fn family(socket: SocketAddr) -> u16 {
    if socket.is_ipv4() { FAMILY_INET } else { FAMILY_INET6 }
}

/// The rest of a `sockaddr_in` or `sockaddr_in6` after the family.
fn encode_socket_tail(w: &mut Writer, socket: SocketAddr) {
    w.raw(&socket.port().to_be_bytes());
    match socket {
        SocketAddr::V4(v4) => {
            w.raw(&v4.ip().octets());
            w.zeros(8);
        }
        SocketAddr::V6(v6) => {
            w.u32(v6.flowinfo().to_be());
            w.raw(&v6.ip().octets());
            w.u32(v6.scope_id());
        }
    }
}

fn decode_socket(r: &mut Reader<'_>, family: u16) -> Result<Option<SocketAddr>> {
    let port = |r: &mut Reader<'_>| r.array("port").map(u16::from_be_bytes);
    match family {
        FAMILY_INET => {
            let port = port(r)?;
            let ip: [u8; 4] = r.array("IPv4 address")?;
            Ok(Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(ip)), port)))
        }
        FAMILY_INET6 => {
            let port = port(r)?;
            let flow = r.u32("flow")?;
            let ip: [u8; 16] = r.array("IPv6 address")?;
            let scope = r.u32("scope")?;
            let v6 = SocketAddrV6::new(Ipv6Addr::from(ip), port, u32::from_be(flow), scope);
            Ok(Some(SocketAddr::V6(v6)))
        }
        _ => Ok(None),
    }
}

impl Encode for EntityAddr {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.versioned(1, 1, |w| {
            w.u32(self.kind as u32);
            w.u32(self.nonce);
            let Some(socket) = self.socket else { return w.u32(0) };
            w.u32(if socket.is_ipv4() { SOCKADDR_IN_LEN } else { SOCKADDR_IN6_LEN });
            w.u16(family(socket));
            encode_socket_tail(w, socket);
        });
    }
}

impl Decode for EntityAddr {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let marker = r.u8("address marker")?;
        Self::decode_marked(r, marker)
    }
}

impl fmt::Display for EntityAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.kind {
            AddrType::None => return f.write_str("-"),
            AddrType::Legacy => "v1",
            AddrType::Msgr2 => "v2",
            AddrType::Any => "any",
            AddrType::Cidr => "cidr",
        };
        match self.socket {
            Some(socket) => write!(f, "{prefix}:{socket}/{}", self.nonce),
            None => write!(f, "{prefix}:-/{}", self.nonce),
        }
    }
}

/// A text that is no address; the field is that text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not an address like v2:192.168.0.1:3300/0")]
pub struct ParseAddrError(pub String);

impl FromStr for EntityAddr {
    type Err = ParseAddrError;

    fn from_str(text: &str) -> Result<Self, ParseAddrError> {
        let error = || ParseAddrError(text.to_owned());
        let (kind, rest) = match text {
            _ if text.starts_with("v1:") => (AddrType::Legacy, &text[3..]),
            _ if text.starts_with("v2:") => (AddrType::Msgr2, &text[3..]),
            _ if text.starts_with("any:") => (AddrType::Any, &text[4..]),
            _ => (AddrType::Msgr2, text),
        };
        let (socket, nonce) = rest.split_once('/').unwrap_or((rest, "0"));
        let nonce = nonce.parse().map_err(|_| error())?;
        let socket = match socket.parse::<SocketAddr>() {
            Ok(socket) => socket,
            Err(_) => SocketAddr::new(socket.parse::<IpAddr>().map_err(|_| error())?, 0),
        };
        Ok(EntityAddr { kind, nonce, socket: Some(socket) })
    }
}

/// All addresses of one daemon or client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityAddrVec(pub Vec<EntityAddr>);

impl EntityAddrVec {
    /// The addresses of a daemon that has one.
    pub fn one(addr: EntityAddr) -> Self {
        EntityAddrVec(vec![addr])
    }

    /// The msgr2 address.
    pub fn msgr2(&self) -> Option<EntityAddr> {
        self.0.iter().copied().find(|addr| addr.kind == AddrType::Msgr2)
    }

    /// The address for an old reader: the msgr1 address if there is one, else the first.
    pub fn legacy(&self) -> EntityAddr {
        let legacy = self.0.iter().find(|addr| addr.kind == AddrType::Legacy);
        legacy.or(self.0.first()).copied().unwrap_or_default()
    }

    /// Encodes for a peer with `features`.
    pub fn encode_for(&self, w: &mut Writer, features: u64) {
        if features & MSG_ADDR2 == 0 { self.legacy().encode_legacy(w) } else { self.encode(w) }
    }
}

impl Encode for EntityAddrVec {
    fn encode(&self, w: &mut Writer) {
        w.u8(2);
        w.value(&self.0);
    }
}

impl Decode for EntityAddrVec {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        match r.u8("address vector marker")? {
            2 => {
                let at = *r;
                let addrs: Vec<EntityAddr> = r.value()?;
                if addrs.len() > ADDRS_MAX {
                    let (length, limit) = (addrs.len() as u64, ADDRS_MAX as u64);
                    return Err(at.error("addresses", DecodeErrorKind::TooLong { length, limit }));
                }
                Ok(EntityAddrVec(addrs))
            }
            marker => EntityAddr::decode_marked(r, marker).map(EntityAddrVec::one),
        }
    }
}

impl fmt::Display for EntityAddrVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return one.fmt(f);
        }
        let parts: Vec<String> = self.0.iter().map(EntityAddr::to_string).collect();
        write!(f, "[{}]", parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::{decode_all, encode_to_bytes};

    #[test]
    fn addresses_round_trip_in_both_encodings() {
        for text in ["v2:127.0.0.1:3300/7", "v1:[::1]:6789/9"] {
            let addr: EntityAddr = text.parse().unwrap();
            assert_eq!(addr.to_string(), text);
            assert_eq!(decode_all::<EntityAddr>("addr", &encode_to_bytes(&addr)).unwrap(), addr);
            let mut w = Writer::new();
            addr.encode_for(&mut w, 0);
            assert_eq!(w.len(), 8 + SOCKADDR_STORAGE_LEN);
            let legacy: EntityAddr = decode_all("addr", w.as_slice()).unwrap();
            assert_eq!((legacy.socket, legacy.nonce), (addr.socket, addr.nonce));
        }
    }

    #[test]
    fn vectors_round_trip_and_old_readers_get_the_msgr1_address() {
        let vector = EntityAddrVec(vec![
            "v2:10.0.0.1:3300/0".parse().unwrap(),
            "v1:10.0.0.1:6789/0".parse().unwrap(),
        ]);
        let bytes = encode_to_bytes(&vector);
        assert_eq!(decode_all::<EntityAddrVec>("addrs", &bytes).unwrap(), vector);
        assert_eq!(vector.legacy().kind, AddrType::Legacy);
        for end in 0..bytes.len() {
            assert!(decode_all::<EntityAddrVec>("addrs", &bytes[..end]).is_err());
        }
    }
}
