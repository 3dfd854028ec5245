//! Grants that are limited to peers within a network.

use std::net::IpAddr;

/// An IP network such as `10.0.0.0/8`. An invalid network contains no address, so that a typing error never
/// widens a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Network {
    parsed: Option<(IpAddr, u32)>,
}

impl Network {
    /// An invalid text is a network without addresses.
    pub fn parse(text: &str) -> Self {
        Network { parsed: parse(text) }
    }

    /// An unknown peer address is in no network.
    pub fn contains(&self, peer: Option<IpAddr>) -> bool {
        match (self.parsed, peer) {
            (Some((IpAddr::V4(network), prefix)), Some(IpAddr::V4(peer))) => {
                let shift = 32 - prefix.min(32);
                same_front(network.to_bits().into(), peer.to_bits().into(), shift)
            }
            (Some((IpAddr::V6(network), prefix)), Some(IpAddr::V6(peer))) => {
                same_front(network.to_bits(), peer.to_bits(), 128 - prefix.min(128))
            }
            _ => false,
        }
    }
}

fn parse(text: &str) -> Option<(IpAddr, u32)> {
    let (address, prefix) = text.split_once('/')?;
    let address = address.strip_prefix('[').and_then(|a| a.strip_suffix(']')).unwrap_or(address);
    Some((address.parse().ok()?, prefix.parse().ok()?))
}

fn same_front(a: u128, b: u128, ignored_bits: u32) -> bool {
    (a ^ b).checked_shr(ignored_bits).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_members_only() {
        let contains =
            |network: &str, peer: &str| Network::parse(network).contains(peer.parse().ok());
        assert!(contains("192.168.0.0/16", "192.168.7.1"));
        assert!(!contains("192.168.0.0/16", "192.169.0.1"));
        assert!(contains("0.0.0.0/0", "8.8.8.8"));
        assert!(contains("1.2.3.4/32", "1.2.3.4"));
        assert!(!contains("1.2.3.4/32", "1.2.3.5"));
        assert!(contains("::/0", "::1"));
        assert!(contains("[fd00::]/8", "fd12::9"));
        assert!(!contains("fd00::/8", "192.168.0.1"));
        assert!(!contains("10.0.0.0", "10.0.0.0"));
        assert!(!contains("10.0.0.0/x", "10.0.0.0"));
        assert!(!Network::parse("0.0.0.0/0").contains(None));
    }
}
