//! How long a task sleeps whose memory cgroup is above memory.high: the longer the farther above, and the more the task itself has
//! been charged (`calculate_overage`, `calculate_high_delay` in mm/memcontrol.c, the same from 6.1 to 6.12).
//!
//! ```text
//!   above by    1 %   4 %   10 %   18 %          with 64 pages that the task has been charged
//!   sleeps       0   102    639   2000 ms        never longer than that at a time, and not for 10 ms or less
//! ```

use super::CHARGE_BATCH;
use crate::jiffies::HZ;

/// The longest sleep, in jiffies (`MEMCG_MAX_HIGH_DELAY_JIFFIES`).
const MAX_HIGH_DELAY: u64 = 2 * HZ;
/// Bits of a usage above the limit behind the binary point (`MEMCG_DELAY_PRECISION_SHIFT`).
const PRECISION_SHIFT: u32 = 20;
/// Scales the square of it to jiffies (`MEMCG_DELAY_SCALING_SHIFT`).
const SCALING_SHIFT: u32 = 14;

/// How far a usage is above memory.high, as a part of memory.high with 20 bits behind the binary point.
pub fn overage(usage: u64, high: u64) -> u64 {
    (usage.saturating_sub(high) << PRECISION_SHIFT) / high.max(1)
}

/// Jiffies that a task sleeps which has been charged `pages` in a memcg so far above memory.high; none if reclaim should rather go on,
/// because it is a hundredth of a second or less. The products wrap as in the kernel, where limits of next to nothing reach that.
pub fn high_delay(pages: u64, overage: u64) -> u64 {
    let jiffies = overage.wrapping_mul(overage).wrapping_mul(HZ) >> PRECISION_SHIFT >> SCALING_SHIFT;
    let jiffies = (jiffies.wrapping_mul(pages) / CHARGE_BATCH).min(MAX_HIGH_DELAY);
    if jiffies <= HZ / 100 { 0 } else { jiffies }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table that the kernel prints beside the formula, for memory.high of 100 MiB: `mm/memcontrol.c`.
    #[test]
    fn delays_are_those_of_the_kernels_table() {
        let milliseconds = |mib: u64| high_delay(CHARGE_BATCH, overage(mib * 256, 100 * 256)) * 1000 / HZ;
        for (mib, printed) in
            [(100, 0), (102, 25), (104, 102), (107, 313), (110, 639), (115, 1439), (119, 2000)]
        {
            // A jiffy is 4 ms.
            assert!(milliseconds(mib).abs_diff(printed) <= 4, "{mib} MiB: {} ms", milliseconds(mib));
        }
        // 6 ms are too short to sleep.
        assert_eq!(milliseconds(101), 0);
    }

    #[test]
    fn who_is_charged_more_sleeps_longer() {
        let at = |pages| high_delay(pages, overage(110, 100));
        assert!(at(32).abs_diff(at(64) / 2) <= 1 && at(128) == 2 * at(64));
        // A limit of nothing counts as one of a page.
        assert_eq!((overage(2, 0), overage(2, 1)), (2 << 20, 1 << 20));
    }
}
