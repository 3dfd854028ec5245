//! Queries of the blocklist.

use super::OsdMap;
use std::net::IpAddr;
use types::{AddrType, EntityAddr};

/// True if an address is listed: its instance, its host, or its network.
pub(super) fn is_blocklisted(map: &OsdMap, addr: &EntityAddr) -> bool {
    if map.blocklist.is_empty() && map.range_blocklist.is_empty() {
        return false;
    }
    let instance = EntityAddr { kind: AddrType::Any, ..*addr };
    let host = EntityAddr { nonce: 0, socket: addr.socket.map(without_port), ..instance };
    map.blocklist.contains_key(&instance)
        || map.blocklist.contains_key(&host)
        || map.range_blocklist.keys().any(|range| is_in_range(range, addr))
}

fn without_port(mut socket: std::net::SocketAddr) -> std::net::SocketAddr {
    socket.set_port(0);
    socket
}

fn is_in_range(range: &EntityAddr, addr: &EntityAddr) -> bool {
    let (Some(network), Some(socket)) = (range.socket, addr.socket) else { return false };
    match (network.ip(), socket.ip()) {
        (IpAddr::V4(network), IpAddr::V4(ip)) => {
            let host_bits = 32u32.saturating_sub(range.nonce);
            let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
            (network.to_bits() ^ ip.to_bits()) & mask == 0
        }
        (IpAddr::V6(network), IpAddr::V6(ip)) => {
            let host_bits = 128u32.saturating_sub(range.nonce);
            let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
            (network.to_bits() ^ ip.to_bits()) & mask == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::UTime;

    #[test]
    fn an_entry_covers_an_instance_a_host_or_a_network() {
        let mut map = OsdMap::default();
        let client: EntityAddr = "v2:10.1.2.3:0/77".parse().unwrap();
        assert!(!map.is_blocklisted(&client));
        map.blocklist.insert("any:10.1.2.3:0/77".parse().unwrap(), UTime::ZERO);
        assert!(map.is_blocklisted(&client));
        assert!(!map.is_blocklisted(&"v2:10.1.2.3:0/78".parse().unwrap()));
        map.blocklist.insert("any:10.1.2.4:0/0".parse().unwrap(), UTime::ZERO);
        assert!(map.is_blocklisted(&"v2:10.1.2.4:567/9".parse().unwrap()));
        let range = EntityAddr { kind: AddrType::Cidr, ..("10.2.0.0:0/16".parse().unwrap()) };
        map.range_blocklist.insert(range, UTime::ZERO);
        assert!(map.is_blocklisted(&"v2:10.2.9.9:1/1".parse().unwrap()));
        assert!(!map.is_blocklisted(&"v2:10.3.0.1:1/1".parse().unwrap()));
    }
}
