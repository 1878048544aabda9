//! What programs ask for: operations, generators and recorded demand.

pub mod process;
pub mod trace;
