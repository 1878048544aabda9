//! cpupid: who took the last hint fault on a folio, as a CPU and the low bits of a PID, packed as in the
//! kernel.
//!
//! ```text
//!   bits   20 ........ 8 │ 7 ...... 0
//!          CPU, 13 bits  │ PID mod 256        all ones: nobody yet
//! ```
//!
//! An unset cpupid is recognised by the PID bits alone, so threads whose PID is 255 modulo 256 look like
//! nobody. Folios in slow memory store the time of the last scan in the same bits
//! ([`super::migrate::promotion`]). In the kernel: include/linux/page-flags-layout.h and include/linux/mm.h,
//! with NR_CPUS = 8192 as distributions configure it.

use machine::Cpu;

const PID_BITS: u32 = 8;
const PID_MASK: u32 = (1 << PID_BITS) - 1;
const CPU_BITS: u32 = 13;

/// Bits of a cpupid (`LAST_CPUPID_WIDTH`).
pub const WIDTH: u32 = PID_BITS + CPU_BITS;

/// A CPU and the low bits of a PID (`last_cpupid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpupid(u32);

impl Cpupid {
    /// No access yet.
    pub const UNSET: Cpupid = Cpupid((1 << WIDTH) - 1);

    /// The cpupid of a thread on a CPU.
    pub fn new(cpu: Cpu, pid: u32) -> Cpupid {
        Cpupid(u32::from(cpu.0) << PID_BITS | pid & PID_MASK)
    }

    pub fn from_bits(bits: u32) -> Cpupid {
        Cpupid(bits & Cpupid::UNSET.0)
    }

    pub fn bits(self) -> u32 {
        self.0
    }

    /// The CPU. Not a CPU of the machine if the cpupid is unset.
    pub fn cpu(self) -> Cpu {
        Cpu((self.0 >> PID_BITS) as u16)
    }

    /// Whether its CPU is one of the machine's `cpus` (`cpupid_valid`).
    pub fn is_valid(self, cpus: usize) -> bool {
        self.cpu().index() < cpus
    }

    /// Whether it looks unset (`cpupid_pid_unset`).
    pub fn is_pid_unset(self) -> bool {
        self.0 & PID_MASK == PID_MASK
    }

    /// Whether `pid` has the same low bits (`cpupid_match_pid`).
    pub fn matches(self, pid: u32) -> bool {
        self.0 & PID_MASK == pid & PID_MASK
    }
}
