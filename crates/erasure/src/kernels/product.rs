//! The task of a kernel.

/// Outputs that a kernel computes in registers at once.
pub const OUTPUTS_MAX: usize = 4;

/// The coefficients of one source for each output. Those of missing outputs are not used.
pub type Column = [u8; OUTPUTS_MAX];

/// One product, with checked lengths: `outputs[j] = sum of columns[i][j] * sources[i]`.
pub(super) struct Product<'a, 'b> {
    pub(super) outputs: &'a mut [&'b mut [u8]],
    pub(super) sources: &'a [&'a [u8]],
    pub(super) columns: &'a [Column],
    /// True if the sum is added to the outputs instead of replacing them.
    pub(super) accumulates: bool,
}

impl Product<'_, '_> {
    /// Bytes of each slice.
    pub(super) fn len(&self) -> usize {
        self.outputs[0].len()
    }

    /// True if the first output is the XOR of the sources, as in most codes: no kernel multiplies by 1.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn is_first_xor(&self) -> bool {
        self.columns.iter().all(|column| column[0] == 1)
    }
}

/// Calls a function of the number of outputs and of whether the first of them is XOR, as constants.
#[cfg(target_arch = "x86_64")]
macro_rules! with_constants {
    ($product:ident, $run:ident) => {
        match ($product.outputs.len(), $product.is_first_xor()) {
            (1, false) => $run::<1, false>($product),
            (1, true) => $run::<1, true>($product),
            (2, false) => $run::<2, false>($product),
            (2, true) => $run::<2, true>($product),
            (3, false) => $run::<3, false>($product),
            (3, true) => $run::<3, true>($product),
            (4, false) => $run::<4, false>($product),
            (4, true) => $run::<4, true>($product),
            (outputs, _) => unreachable!("{outputs} outputs"),
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(super) use with_constants;
