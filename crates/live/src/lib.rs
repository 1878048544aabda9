//! The Linux kernel this runs on: record its demand, observe its state, verify the twin.
