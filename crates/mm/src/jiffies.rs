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

/// When a jiffy begins.
pub const fn time_of(jiffy: u64) -> Time {
    Time::from_nanoseconds(jiffy.saturating_sub(1) * TICK_NS)
}
