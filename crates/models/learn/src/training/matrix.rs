//! Products of matrices, in one fixed order of additions on every machine.

/// Columns computed together.
const LANES: usize = 8;
/// Rows computed together.
const ROWS: usize = 4;
/// Vectors of columns computed together.
const VECTORS: usize = 2;

/// A matrix, row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) values: Vec<f32>,
}

impl Matrix {
    pub(crate) fn zero(rows: usize, columns: usize) -> Matrix {
        Matrix { rows, columns, values: vec![0.0; rows * columns] }
    }

    pub(crate) fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.columns..][..self.columns]
    }

    pub(crate) fn row_mut(&mut self, index: usize) -> &mut [f32] {
        &mut self.values[index * self.columns..][..self.columns]
    }

    pub(crate) fn transposed(&self) -> Matrix {
        let mut out = Matrix::zero(self.columns, self.rows);
        for row in 0..self.rows {
            for column in 0..self.columns {
                out.values[column * self.rows + row] = self.values[row * self.columns + column];
            }
        }
        out
    }

    /// Adds `a x b`.
    #[allow(unsafe_code)]
    pub(crate) fn add_product(&mut self, a: &Matrix, b: &Matrix) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            unsafe { add_product_avx2(self, a, b) };
            return;
        }
        add_product(self, a, b);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_product_avx2(c: &mut Matrix, a: &Matrix, b: &Matrix) {
    add_product(c, a, b);
}

#[inline(always)]
fn add_product(c: &mut Matrix, a: &Matrix, b: &Matrix) {
    let whole_rows = c.rows - c.rows % ROWS;
    let whole_columns = c.columns - c.columns % (LANES * VECTORS);
    for column in (0..whole_columns).step_by(LANES * VECTORS) {
        for row in (0..whole_rows).step_by(ROWS) {
            tile::<ROWS>(c, a, b, row, column);
        }
        for row in whole_rows..c.rows {
            tile::<1>(c, a, b, row, column);
        }
    }
    for row in 0..c.rows {
        for column in whole_columns..c.columns {
            let products = a.row(row).iter().zip(b.values[column..].iter().step_by(b.columns));
            let sum = products.fold(0.0, |sum, (x, y)| sum + x * y);
            c.values[row * c.columns + column] += sum;
        }
    }
}

#[inline(always)]
fn tile<const R: usize>(c: &mut Matrix, a: &Matrix, b: &Matrix, row: usize, column: usize) {
    let mut sums = [[[0.0f32; LANES]; VECTORS]; R];
    let rows: [&[f32]; R] = std::array::from_fn(|r| a.row(row + r));
    // By index: all rows are read in step.
    #[allow(clippy::needless_range_loop)]
    for k in 0..a.columns {
        let line = &b.values[k * b.columns + column..][..LANES * VECTORS];
        for r in 0..R {
            let x = rows[r][k];
            for v in 0..VECTORS {
                for lane in 0..LANES {
                    sums[r][v][lane] += x * line[v * LANES + lane];
                }
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        let out = &mut c.values[(row + r) * c.columns + column..][..LANES * VECTORS];
        for (out, sum) in out.iter_mut().zip(sums.as_flattened()) {
            *out += sum;
        }
    }
}
