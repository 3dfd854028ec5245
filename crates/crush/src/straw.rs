//! Straw lengths of the old straw algorithm (`crush_calc_straw`).
//!
//! Items are visited by rising weight; each step up in weight lengthens the straws of all heavier
//! items. Version 0 of the formula treats equal weights as one group and counts weightless items
//! among those left, both wrongly; maps made with it must stay as they are.

/// Lengths for `weights`, 16.16 fixed point.
pub(crate) fn lengths(version: u8, weights: &[u32]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&index| weights[index]);

    let mut lengths = vec![0; weights.len()];
    let mut grow = Growth { straw: 1.0, below: 0.0, weight_last: 0.0, left: weights.len() as u32 };
    for (rank, &index) in order.iter().enumerate() {
        let weight = weights[index];
        if weight == 0 {
            grow.left -= u32::from(version > 0);
            continue;
        }
        lengths[index] = (grow.straw * f64::from(0x1_0000)) as u32;
        let Some(&next) = order.get(rank + 1) else { break };
        let weight_next = weights[next];
        if version > 0 {
            grow.step(weight, weight_next, 1);
        } else if weight != weight_next {
            let group = order[rank + 1..].iter().take_while(|&&i| weights[i] == weight_next);
            grow.step(weight, weight_next, group.count() as u32);
        }
    }
    lengths
}

struct Growth {
    straw: f64,
    below: f64,
    weight_last: f64,
    left: u32,
}

impl Growth {
    /// `passed` items stop counting among those that are left above.
    fn step(&mut self, weight: u32, weight_next: u32, passed: u32) {
        self.below += (f64::from(weight) - self.weight_last) * f64::from(self.left);
        self.left -= passed;
        let above = f64::from(self.left.wrapping_mul(weight_next - weight));
        let share_below = self.below / (self.below + above);
        self.straw *= (1.0 / share_below).powf(1.0 / f64::from(self.left));
        self.weight_last = f64::from(weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_weights_have_equal_straws_and_no_weight_has_none() {
        for version in [0, 1] {
            assert_eq!(lengths(version, &[7, 7, 7]), [0x1_0000; 3]);
            assert_eq!(lengths(version, &[0, 5])[0], 0);
            assert!(lengths(version, &[]).is_empty());
        }
    }
}
