//! The kernel's coarse clock: ticks since the machine booted.

use machine::Time;

/// Ticks of a second (`CONFIG_HZ`), as Debian and most others configure it.
pub const HZ: u64 = 250;
/// A tick, nanoseconds.
pub const TICK_NS: u64 = 1_000_000_000 / HZ;

/// Jiffies of a time in milliseconds, rounded up (`msecs_to_jiffies`).
pub const fn jiffies(ms: u64) -> u64 {
    ms.div_ceil(1000 / HZ)
}

/// The jiffy at a time; 0 means "not set" to the kernel, so boot is at 1.
pub fn jiffies_at(now: Time) -> u64 {
    now.picoseconds() / 1000 / TICK_NS + 1
}

/// When a jiffy begins.
pub const fn time_of(jiffy: u64) -> Time {
    Time::from_nanoseconds(jiffy.saturating_sub(1) * TICK_NS)
}
