//! What programs ask for: operations, generators, recorded demand and recorded accesses.

pub mod access;
pub mod demand;
pub mod process;
pub mod trace;
