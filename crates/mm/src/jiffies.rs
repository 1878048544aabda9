//! Jiffies: the kernel's coarse clock, in ticks since boot.

use machine::Time;

/// Ticks per second (`CONFIG_HZ`), as Debian and most other distributions configure it.
pub const HZ: u64 = 250;
/// Length of a tick, nanoseconds.
pub const TICK_NS: u64 = 1_000_000_000 / HZ;

/// Converts milliseconds to jiffies, rounded up (`msecs_to_jiffies`).
pub const fn jiffies(ms: u64) -> u64 {
    ms.div_ceil(1000 / HZ)
}

/// The jiffy at `now`. Boot is jiffy 1, because the kernel reads 0 as "not set".
pub fn jiffies_at(now: Time) -> u64 {
    now.picoseconds() / 1000 / TICK_NS + 1
}

/// When a sleep of so many jiffies ends that begins at `now`: one jiffy late, and later by the granularity of the timer wheel if it is long
/// (`schedule_timeout`; `calc_index` in kernel/time/timer.c: 63 jiffies to the jiffy, then eight times as many to eight jiffies, and so on).
pub fn timeout(now: Time, jiffies: u64) -> Time {
    let level = (0..8).take_while(|&level| jiffies >= 63 << (3 * level)).count();
    let shift = 3 * level;
    time_of((((jiffies_at(now) + jiffies) >> shift) + 1) << shift)
}

/// When a jiffy begins.
pub const fn time_of(jiffy: u64) -> Time {
    Time::from_nanoseconds(jiffy.saturating_sub(1) * TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sleep_ends_with_a_granule_of_the_timer_wheel() {
        let sleeps = |jiffies: u64| {
            let end = timeout(time_of(1000), jiffies);
            jiffies_at(end) - 1000
        };
        assert_eq!([1, 25, 62].map(sleeps), [2, 26, 63]);
        // 1063 lies in the granule of eight that ends at 1064, 1250 later is in one of 64 that ends at 2304.
        assert_eq!([63, 1250].map(sleeps), [64, 1304]);
    }
}
