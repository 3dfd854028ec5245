//! Kernels: products of a matrix with byte slices, for each instruction set.
//!
//! A kernel computes up to [`OUTPUTS_MAX`] outputs at once and reads each source once for all of them. All
//! kernels return the same bytes; [`Kernel::best`] is the fastest that this processor has.

mod product;
mod scalar;
mod tables;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod gfni256;
#[cfg(target_arch = "x86_64")]
mod gfni512;

pub use product::{Column, OUTPUTS_MAX};

use product::Product;
use std::sync::OnceLock;

/// The instructions with which products are computed. A value exists only for those that this processor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel(Instructions);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instructions {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Gfni256,
    #[cfg(target_arch = "x86_64")]
    Gfni512,
}

impl Kernel {
    /// The kernels of this processor, the fastest first.
    pub fn available() -> &'static [Kernel] {
        static AVAILABLE: OnceLock<Vec<Kernel>> = OnceLock::new();
        AVAILABLE.get_or_init(detect)
    }

    /// The fastest kernel of this processor.
    pub fn best() -> Kernel {
        Kernel::available()[0]
    }

    /// The kernel that every processor has.
    pub fn scalar() -> Kernel {
        Kernel(Instructions::Scalar)
    }

    /// A name for reports.
    pub fn name(self) -> &'static str {
        match self.0 {
            Instructions::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Instructions::Gfni256 => "gfni256",
            #[cfg(target_arch = "x86_64")]
            Instructions::Gfni512 => "gfni512",
        }
    }

    /// `target ^= source`. Both have the same length.
    pub fn xor(self, target: &mut [u8], source: &[u8]) {
        self.mul_xor(target, source, 1);
    }

    /// `target ^= coefficient * source`. Both have the same length.
    pub fn mul_xor(self, target: &mut [u8], source: &[u8], coefficient: u8) {
        self.run(&mut [target], &[source], &[[coefficient; OUTPUTS_MAX]], true);
    }

    /// `outputs[j] = sum of columns[i][j] * sources[i]`: one column for each source, at most [`OUTPUTS_MAX`]
    /// outputs, and all slices of the same length. Without sources the outputs are zeros.
    pub fn dot(self, outputs: &mut [&mut [u8]], sources: &[&[u8]], columns: &[Column]) {
        self.run(outputs, sources, columns, false);
    }

    /// As [`Kernel::dot`], but added to the outputs.
    pub fn dot_xor(self, outputs: &mut [&mut [u8]], sources: &[&[u8]], columns: &[Column]) {
        self.run(outputs, sources, columns, true);
    }

    /// Computes with all coefficients, bytes and numbers of outputs what the scalar kernel does. A processor
    /// or an emulator with a defect must not make parities of which nothing can be decoded. Takes 0.1 ms.
    #[cfg(target_arch = "x86_64")]
    fn is_right(self) -> bool {
        const BYTES: usize = 256 + 19;
        let bytes: [u8; BYTES] = std::array::from_fn(|i| i as u8);
        (0..=255).all(|coefficient: u8| {
            let outputs = usize::from(coefficient) % OUTPUTS_MAX + 1;
            let mut column = [1; OUTPUTS_MAX];
            column[outputs - 1] = coefficient;
            let products = |kernel: Kernel| {
                let mut sums = [[7; BYTES]; OUTPUTS_MAX];
                let mut slices = sums.each_mut().map(|sum| sum.as_mut_slice());
                kernel.dot_xor(&mut slices[..outputs], &[&bytes], &[column]);
                sums
            };
            products(self) == products(Kernel::scalar())
        })
    }

    fn run(
        self,
        outputs: &mut [&mut [u8]],
        sources: &[&[u8]],
        columns: &[Column],
        accumulates: bool,
    ) {
        let Some(len) = outputs.first().map(|output| output.len()) else { return };
        assert!(outputs.len() <= OUTPUTS_MAX, "{} outputs", outputs.len());
        assert_eq!(sources.len(), columns.len(), "one column for each source");
        // The kernels read and write `len` bytes of each slice without further checks.
        assert!(outputs.iter().all(|output| output.len() == len), "outputs of equal length");
        assert!(sources.iter().all(|source| source.len() == len), "sources as long as outputs");
        let mut product = Product { outputs, sources, columns, accumulates };
        let product = &mut product;
        let done = match self.0 {
            Instructions::Scalar => 0,
            // SAFETY of all: `detect` makes such a value only if the processor has the instructions.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { avx2::run(product) },
            #[cfg(target_arch = "x86_64")]
            Instructions::Gfni256 => unsafe { gfni256::run(product) },
            #[cfg(target_arch = "x86_64")]
            Instructions::Gfni512 => unsafe { gfni512::run(product) },
        };
        scalar::run(product, done);
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Vec<Kernel> {
    let has_avx2 = is_x86_feature_detected!("avx2");
    let has_gfni = is_x86_feature_detected!("gfni");
    let has_avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    let kernels = [
        (Instructions::Gfni512, has_gfni && has_avx512),
        (Instructions::Gfni256, has_gfni && has_avx2),
        (Instructions::Avx2, has_avx2),
        (Instructions::Scalar, true),
    ];
    let kernels = kernels.into_iter().filter(|(_, has)| *has).map(|(kernel, _)| Kernel(kernel));
    kernels.filter(|kernel| kernel.is_right()).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Vec<Kernel> {
    vec![Kernel::scalar()]
}
