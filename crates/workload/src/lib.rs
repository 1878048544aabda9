//! What programs ask for: operations, generators, recorded demand and recorded accesses.

pub mod access;
mod partial_file;
pub mod process;
pub mod trace;
