//! What the kernel decides: zones, buddy lists, per-CPU pagesets and their counters.
