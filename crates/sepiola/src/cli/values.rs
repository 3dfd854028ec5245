//! Values that several commands for images take.

use rbd::Features;

/// A power of two, as its exponent.
pub fn object_order(text: &str) -> Result<u8, String> {
    let size = stdx::parse_bytes(text).filter(|size| size.is_power_of_two());
    let order =
        size.map(|size| size.trailing_zeros() as u8).filter(|order| (12..=25).contains(order));
    order.ok_or_else(|| "expected a power of two from 4K to 32M".to_owned())
}

pub fn features(text: &str) -> Result<Features, String> {
    Features::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_size_is_a_power_of_two_within_bounds() {
        assert_eq!(object_order("4M"), Ok(22));
        assert!(object_order("3M").is_err() && object_order("64M").is_err());
    }
}
