//! The kernel with GFNI in registers of 512 bits. Masks serve the ends of slices, so it computes every
//! length.
//!
//! The affine instruction multiplies by any polynomial's field; `gf2p8mulb` knows another field only.

use super::product::{Column, Product, with_constants};
use super::tables::AFFINE;
use std::arch::x86_64::*;
use std::array::from_fn;

const REGISTER: usize = 64;

/// Computes all; returns the length.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) fn run(product: &mut Product<'_, '_>) -> usize {
    with_constants!(product, steps)
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn steps<const OUTPUTS: usize, const IS_FIRST_XOR: bool>(product: &mut Product<'_, '_>) -> usize {
    let len = product.len();
    let pairs = len / (2 * REGISTER) * (2 * REGISTER);
    for at in (0..pairs).step_by(2 * REGISTER) {
        step::<2, OUTPUTS, IS_FIRST_XOR>(product, at, !0);
    }
    for at in (pairs..len).step_by(REGISTER) {
        let bytes = REGISTER.min(len - at);
        step::<1, OUTPUTS, IS_FIRST_XOR>(product, at, !0 >> (REGISTER - bytes));
    }
    len
}

/// Computes so many registers from `at` on; of each only the bytes of the mask.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn step<const REGISTERS: usize, const OUTPUTS: usize, const IS_FIRST_XOR: bool>(
    product: &mut Product<'_, '_>,
    at: usize,
    mask: __mmask64,
) {
    let places = REGISTERS * REGISTER - mask.leading_zeros() as usize;
    debug_assert!(at + places <= product.len());
    // SAFETY of the loads and stores: all slices are `len` bytes long, and the bytes of the mask end before.
    let load = |from: *const u8| -> [__m512i; REGISTERS] {
        from_fn(|i| unsafe { _mm512_maskz_loadu_epi8(mask, from.add(at + i * REGISTER).cast()) })
    };
    let mut sums = [[_mm512_setzero_si512(); REGISTERS]; OUTPUTS];
    if product.accumulates {
        sums = from_fn(|j| load(product.outputs[j].as_ptr()));
    }
    for (source, column) in product.sources.iter().zip(product.columns) {
        add::<REGISTERS, OUTPUTS, IS_FIRST_XOR>(&mut sums, load(source.as_ptr()), column);
    }
    for (output, sum) in product.outputs.iter_mut().zip(sums) {
        for (i, register) in sum.into_iter().enumerate() {
            let to = output.as_mut_ptr();
            unsafe { _mm512_mask_storeu_epi8(to.add(at + i * REGISTER).cast(), mask, register) };
        }
    }
}

/// Adds the products of `bytes` to the sum of each output.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn add<const REGISTERS: usize, const OUTPUTS: usize, const IS_FIRST_XOR: bool>(
    sums: &mut [[__m512i; REGISTERS]; OUTPUTS],
    bytes: [__m512i; REGISTERS],
    column: &Column,
) {
    for j in 0..OUTPUTS {
        if IS_FIRST_XOR && j == 0 {
            sums[j] = from_fn(|i| _mm512_xor_si512(sums[j][i], bytes[i]));
            continue;
        }
        let matrix = _mm512_set1_epi64(AFFINE[usize::from(column[j])] as i64);
        sums[j] = from_fn(|i| {
            _mm512_xor_si512(sums[j][i], _mm512_gf2p8affine_epi64_epi8::<0>(bytes[i], matrix))
        });
    }
}
