//! What programs ask for: operations, generators, recorded demand and recorded accesses.

pub mod access;
pub mod demand;
pub mod mappings;
mod partial_file;
pub mod process;
pub mod threads;
pub mod trace;
