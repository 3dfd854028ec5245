//! All kernels of this processor compute what the field defines.

use erasure::{Column, Kernel, OUTPUTS_MAX, field};
use proptest::prelude::*;

mod common;
use common::bytes;

/// The product by its definition.
fn expected(before: &[u8], sources: &[&[u8]], columns: &[Column], output: usize) -> Vec<u8> {
    let sum = |at: usize, start: u8| {
        let terms =
            sources.iter().zip(columns).map(|(source, c)| field::mul(c[output], source[at]));
        terms.fold(start, |sum, term| sum ^ term)
    };
    before.iter().enumerate().map(|(at, start)| sum(at, *start)).collect()
}

/// Computes with slices that begin at odd addresses, and checks that nothing beside them changes.
fn check(
    kernel: Kernel,
    columns: &[Column],
    outputs: usize,
    len: usize,
    offset: usize,
    accumulates: bool,
) {
    let stored: Vec<Vec<u8>> =
        (0..columns.len()).map(|i| bytes(i as u64 + 7, len + offset + i)).collect();
    let sources: Vec<&[u8]> = stored.iter().enumerate().map(|(i, s)| &s[offset + i..]).collect();
    let before: Vec<Vec<u8>> =
        (0..outputs).map(|j| bytes(j as u64 + 99, len + 2 * (offset + j))).collect();
    let mut after = before.clone();
    let mut targets: Vec<&mut [u8]> =
        after.iter_mut().enumerate().map(|(j, o)| &mut o[offset + j..][..len]).collect();
    match accumulates {
        true => kernel.dot_xor(&mut targets, &sources, columns),
        false => kernel.dot(&mut targets, &sources, columns),
    }
    for (j, (before, after)) in before.iter().zip(&after).enumerate() {
        let place = offset + j..offset + j + len;
        let start = if accumulates { before[place.clone()].to_vec() } else { vec![0; len] };
        let name = kernel.name();
        assert_eq!(
            after[place.clone()],
            expected(&start, &sources, columns, j),
            "{name} {len} {j}"
        );
        assert_eq!(after[..place.start], before[..place.start], "{name} {len}");
        assert_eq!(after[place.end..], before[place.end..], "{name} {len}");
    }
}

#[test]
fn every_length_of_every_kernel() {
    for kernel in Kernel::available() {
        for len in (0..=300).chain([4095, 4096, 4097, 65536 + 63]) {
            for outputs in 1..=OUTPUTS_MAX {
                let columns = [[1, 2, 143, 0], [1, 70, 255, 1], [1, 200, 29, 142]];
                check(*kernel, &columns, outputs, len, len % 7, len % 2 == 0);
                check(
                    *kernel,
                    &columns.map(|c| [c[1], c[0], c[2], c[3]]),
                    outputs,
                    len,
                    len % 5,
                    len % 2 == 1,
                );
            }
        }
    }
}

#[test]
fn every_coefficient_times_every_byte() {
    let source: Vec<u8> = (0..=255).collect();
    for kernel in Kernel::available() {
        for coefficient in 0..=255 {
            let mut target = vec![0; 256];
            kernel.mul_xor(&mut target, &source, coefficient);
            let products: Vec<u8> =
                source.iter().map(|byte| field::mul(coefficient, *byte)).collect();
            assert_eq!(target, products, "{} {coefficient}", kernel.name());
        }
    }
}

#[test]
fn without_sources_the_outputs_are_zeros() {
    for kernel in Kernel::available() {
        let mut output = [7; 100];
        kernel.dot(&mut [&mut output], &[], &[]);
        assert_eq!(output, [0; 100]);
        kernel.dot(&mut [], &[], &[]);
    }
}

#[test]
#[should_panic(expected = "sources as long as outputs")]
fn slices_of_different_lengths_are_refused() {
    erasure::xor(&mut [0; 65], &[0; 64]);
}

#[test]
fn the_best_kernel_uses_all_that_the_processor_has() {
    let names: Vec<&str> = Kernel::available().iter().map(|kernel| kernel.name()).collect();
    assert_eq!(names.last(), Some(&"scalar"));
    assert_eq!(Kernel::best(), Kernel::available()[0]);
    #[cfg(target_arch = "x86_64")]
    assert_eq!(names.contains(&"avx2"), is_x86_feature_detected!("avx2"));
}

proptest! {
    #[test]
    fn kernels_compute_products(
        columns in proptest::collection::vec(any::<Column>(), 0..20),
        outputs in 1..=OUTPUTS_MAX,
        len in 0..2000usize,
        offset in 0..64usize,
        accumulates: bool,
        is_first_xor: bool,
    ) {
        let mut columns = columns;
        columns.iter_mut().filter(|_| is_first_xor).for_each(|column| column[0] = 1);
        for kernel in Kernel::available() {
            check(*kernel, &columns, outputs, len, offset, accumulates);
        }
    }
}
