//! Weights: 16.16 fixed point, `0x10000` is 1.0. By convention a device weighs its size in TiB.

/// 1.0
pub const WEIGHT_ONE: u32 = 0x1_0000;

/// The largest weight that commands accept: it must survive Ceph's signed arithmetic.
pub const WEIGHT_MAX: u32 = i32::MAX as u32;

/// The weight nearest below `value`; `None` if it is negative, too large or NaN.
///
/// Computed in single precision, as Ceph's commands and tools round.
pub fn from_float(value: f32) -> Option<u32> {
    let scaled = value * WEIGHT_ONE as f32;
    (scaled >= 0.0 && scaled < WEIGHT_MAX as f32).then_some(scaled as u32)
}

/// The weight as a number, in single precision as Ceph prints it.
pub fn to_float(weight: u32) -> f32 {
    weight as f32 / WEIGHT_ONE as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_outside_the_range_have_no_weight() {
        assert_eq!(from_float(1.5), Some(0x1_8000));
        assert_eq!(from_float(0.0), Some(0));
        for bad in [-0.1, f32::NAN, f32::INFINITY, 32768.0, 1e30] {
            assert_eq!(from_float(bad), None, "{bad}");
        }
    }
}
