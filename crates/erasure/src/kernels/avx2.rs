//! The kernel with AVX2: products of 32 bytes at once by table lookups of their nibbles.

use super::product::{Column, Product, with_constants};
use super::tables::NIBBLES;
use std::arch::x86_64::*;
use std::array::from_fn;

/// Bytes of one step: two registers.
const STEP: usize = 64;
const REGISTER: usize = 32;

/// Computes a prefix; returns its length.
#[target_feature(enable = "avx2")]
pub(super) fn run(product: &mut Product<'_, '_>) -> usize {
    with_constants!(product, steps)
}

#[target_feature(enable = "avx2")]
fn steps<const OUTPUTS: usize, const IS_FIRST_XOR: bool>(product: &mut Product<'_, '_>) -> usize {
    let outputs: [*mut u8; OUTPUTS] = from_fn(|j| product.outputs[j].as_mut_ptr());
    let done = product.len() / STEP * STEP;
    for at in (0..done).step_by(STEP) {
        let mut sums = [[_mm256_setzero_si256(); 2]; OUTPUTS];
        if product.accumulates {
            // SAFETY: all slices are `len` bytes long, and `at + STEP <= len`.
            sums = from_fn(|j| unsafe { load(outputs[j].add(at)) });
        }
        for (source, column) in product.sources.iter().zip(product.columns) {
            // SAFETY: as above.
            let bytes = unsafe { load(source.as_ptr().add(at)) };
            add::<OUTPUTS, IS_FIRST_XOR>(&mut sums, bytes, column);
        }
        for (output, sum) in outputs.iter().zip(sums) {
            // SAFETY: as above; no other reference to the outputs is used meanwhile.
            unsafe { store(output.add(at), sum) };
        }
    }
    done
}

/// Adds the products of `bytes` to the sum of each output.
#[inline]
#[target_feature(enable = "avx2")]
fn add<const OUTPUTS: usize, const IS_FIRST_XOR: bool>(
    sums: &mut [[__m256i; 2]; OUTPUTS],
    bytes: [__m256i; 2],
    column: &Column,
) {
    let mask = _mm256_set1_epi8(15);
    let low = bytes.map(|bytes| _mm256_and_si256(bytes, mask));
    let high = bytes.map(|bytes| _mm256_and_si256(_mm256_srli_epi64(bytes, 4), mask));
    for j in 0..OUTPUTS {
        if IS_FIRST_XOR && j == 0 {
            sums[j] = from_fn(|i| _mm256_xor_si256(sums[j][i], bytes[i]));
            continue;
        }
        let [of_low, of_high] = tables(column[j]);
        sums[j] = from_fn(|i| {
            let low = _mm256_shuffle_epi8(of_low, low[i]);
            let high = _mm256_shuffle_epi8(of_high, high[i]);
            _mm256_xor_si256(sums[j][i], _mm256_xor_si256(low, high))
        });
    }
}

/// Products of low and of high nibbles, in both lanes of a register.
#[inline]
#[target_feature(enable = "avx2")]
fn tables(coefficient: u8) -> [__m256i; 2] {
    let table = NIBBLES.0[usize::from(coefficient)].as_ptr().cast::<__m128i>();
    // SAFETY: a table has 32 bytes.
    let halves = unsafe { [_mm_loadu_si128(table), _mm_loadu_si128(table.add(1))] };
    halves.map(|half| _mm256_broadcastsi128_si256(half))
}

/// # Safety
/// `from` is valid for reads of [`STEP`] bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(from: *const u8) -> [__m256i; 2] {
    // SAFETY: by the contract; the load needs no alignment.
    from_fn(|i| unsafe { _mm256_loadu_si256(from.add(i * REGISTER).cast()) })
}

/// # Safety
/// `to` is valid for writes of [`STEP`] bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(to: *mut u8, value: [__m256i; 2]) {
    for (i, register) in value.into_iter().enumerate() {
        // SAFETY: by the contract; the store needs no alignment.
        unsafe { _mm256_storeu_si256(to.add(i * REGISTER).cast(), register) };
    }
}
