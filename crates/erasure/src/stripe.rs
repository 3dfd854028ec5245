//! Coefficients in the order in which kernels take them: for each group of outputs one column per source.

use crate::kernels::{Column, Kernel, OUTPUTS_MAX};
use crate::matrix::Matrix;

/// A matrix that is multiplied with slices of bytes: one source for each column, one output for each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StripeMatrix {
    sources: usize,
    outputs: usize,
    /// `sources` columns for each group of [`OUTPUTS_MAX`] outputs.
    columns: Vec<Column>,
}

impl StripeMatrix {
    pub(crate) fn of(matrix: &Matrix) -> Self {
        let (outputs, sources) = (matrix.rows(), matrix.columns());
        let cell = |row, column| if row < outputs { matrix.cell(row, column) } else { 0 };
        let column = |first, source| std::array::from_fn(|j| cell(first + j, source));
        let groups = (0..outputs).step_by(OUTPUTS_MAX);
        let columns = groups.flat_map(|first| (0..sources).map(move |source| (first, source)));
        let columns = columns.map(|(first, source)| column(first, source)).collect();
        StripeMatrix { sources, outputs, columns }
    }

    /// Number of sources.
    pub(crate) fn sources(&self) -> usize {
        self.sources
    }

    /// The coefficient of a source in an output.
    pub(crate) fn coefficient(&self, output: usize, source: usize) -> u8 {
        assert!(output < self.outputs && source < self.sources, "output {output} of {source}");
        self.columns[output / OUTPUTS_MAX * self.sources + source][output % OUTPUTS_MAX]
    }

    /// Sets the outputs to the product with the sources.
    pub(crate) fn multiply(&self, kernel: Kernel, sources: &[&[u8]], outputs: &mut [&mut [u8]]) {
        assert_eq!(sources.len(), self.sources, "one slice for each source");
        assert_eq!(outputs.len(), self.outputs, "one slice for each output");
        let groups = outputs.chunks_mut(OUTPUTS_MAX).zip(self.columns.chunks(self.sources));
        for (outputs, columns) in groups {
            kernel.dot(outputs, sources, columns);
        }
    }

    /// Sets the outputs to the product with the sum of `parts`, as far as the source `source` contributes
    /// to it; or adds it to them.
    pub(crate) fn multiply_one(
        &self,
        kernel: Kernel,
        source: usize,
        parts: [&[u8]; 2],
        outputs: &mut [&mut [u8]],
        accumulates: bool,
    ) {
        assert!(source < self.sources, "source {source} of {}", self.sources);
        assert_eq!(outputs.len(), self.outputs, "one slice for each output");
        let groups = outputs.chunks_mut(OUTPUTS_MAX).zip(self.columns.chunks(self.sources));
        for (outputs, columns) in groups {
            let columns = [columns[source]; 2];
            match accumulates {
                true => kernel.dot_xor(outputs, &parts, &columns),
                false => kernel.dot(outputs, &parts, &columns),
            }
        }
    }
}
