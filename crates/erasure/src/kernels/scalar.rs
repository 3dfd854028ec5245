//! The kernel without particular instructions; the others leave the ends of slices to it.

use super::product::Product;
use super::tables::NIBBLES;

/// Computes the bytes from `start` on.
pub(super) fn run(product: &mut Product<'_, '_>, start: usize) {
    if start == product.len() {
        return;
    }
    for (j, output) in product.outputs.iter_mut().enumerate() {
        let output = &mut output[start..];
        if !product.accumulates {
            output.fill(0);
        }
        for (source, column) in product.sources.iter().zip(product.columns) {
            mul_xor(output, &source[start..], column[j]);
        }
    }
}

fn mul_xor(output: &mut [u8], source: &[u8], coefficient: u8) {
    let pairs = output.iter_mut().zip(source);
    if coefficient == 1 {
        return pairs.for_each(|(output, byte)| *output ^= byte);
    }
    let (low, high) = NIBBLES.0[usize::from(coefficient)].split_at(16);
    pairs.for_each(|(output, byte)| {
        *output ^= low[usize::from(byte & 15)] ^ high[usize::from(byte >> 4)];
    });
}
