//! Pools of huge pages.

pub mod features;
