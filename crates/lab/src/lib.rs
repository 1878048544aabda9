//! Experiments: scenarios, variants, seeds, statistics, results on disk and published tables.
//!
//! ```text
//!   scenario (TOML) ─► Run (variant, seed, machine, settings) ─ sim ─► Outcome
//!   experiment: variants x seeds, all cores ─► results (directory) ─► comparison, published tables
//!   scenarios x values of settings ─► sweep: which point to choose, what it gains, what it costs
//!   two kernels ─► explain: players, releases, shares ─► what moved a metric
//!   trace of accesses ─► rulers: policies x memory sizes ─► miss-ratio curves
//! ```

pub mod applicable_features;
pub mod applicable_settings;
pub mod calibration;
pub mod comparison;
pub mod dates;
pub mod equilibrium;
pub mod experiment;
pub mod explain;
pub mod pid_filter;
pub mod published;
pub mod reclaim;
pub mod results;
pub mod rulers;
pub mod scenario;
pub mod sensitivity;
pub mod statistics;
pub mod study;
pub mod sweep;
