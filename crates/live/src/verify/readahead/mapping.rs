//! A file in this process's memory, and page faults on it.
//!
//! ```text
//!   2 MiB boundary
//!   │■■■■■■■■■ the file ■■■■■■■■■│      so that what a fault maps around itself depends on its page only
//! ```
//!
//! What loads and stores do behind the compiler's back it cannot check, so this is the one file here with unsafe code.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr::{null_mut, read_volatile, write_volatile};

use sim::readahead::By;
use workload::access::PAGE_SIZE;

use super::case::Said;

/// What one page table maps.
const TABLE: usize = 512 * PAGE_SIZE as usize;

/// A private mapping of a file, which ends with this.
pub(super) struct Mapping {
    /// What was reserved for it: first byte and length.
    reserved: (usize, usize),
    /// First byte and length.
    file: (usize, usize),
}

impl Mapping {
    /// Maps all of a file.
    pub fn of(file: &File, said: Said) -> io::Result<Mapping> {
        let length = file.metadata()?.len() as usize;
        let reserved = length + TABLE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the kernel chooses a place where nothing is.
        let place = unsafe { libc::mmap(null_mut(), reserved, libc::PROT_NONE, flags, -1, 0) };
        let place = checked(place)?;
        let start = place.next_multiple_of(TABLE);
        let mapping = Mapping { reserved: (place, reserved), file: (start, length) };
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let (at, fixed) = (start as *mut libc::c_void, libc::MAP_PRIVATE | libc::MAP_FIXED);
        // SAFETY: it is in what has just been reserved, which nobody else knows of.
        checked(unsafe { libc::mmap(at, length, rights, fixed, file.as_raw_fd(), 0) })?;
        let advice = match said {
            Said::Normal => libc::MADV_NORMAL,
            Said::Sequential => libc::MADV_SEQUENTIAL,
            Said::Random => libc::MADV_RANDOM,
        };
        // SAFETY: none of these changes what memory holds.
        match unsafe { libc::madvise(at, length, advice) } {
            0 => Ok(mapping),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Loads from a page, or stores to it.
    pub fn touch(&self, index: u32, by: By) -> io::Result<()> {
        let (start, length) = self.file;
        let offset = index as usize * PAGE_SIZE as usize;
        if offset >= length {
            return Err(io::Error::other(format!("page {index} is not in the file")));
        }
        let byte = (start + offset) as *mut u8;
        // SAFETY: the page is mapped, of a file that keeps its length; no reference to it exists.
        unsafe {
            match by {
                By::Store => write_volatile(byte, 1),
                By::Read | By::Load => {
                    read_volatile(byte);
                }
            }
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (start, length) = self.reserved;
        // SAFETY: nothing refers to what is in it.
        unsafe { libc::munmap(start as *mut libc::c_void, length) };
    }
}

fn checked(place: *mut libc::c_void) -> io::Result<usize> {
    if place == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(place as usize) }
}

/// Page faults of this thread so far.
pub(super) fn page_faults() -> io::Result<u64> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills all of it, or says that it has not.
    let usage = unsafe {
        match libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) {
            0 => usage.assume_init(),
            _ => return Err(io::Error::last_os_error()),
        }
    };
    Ok(usage.ru_minflt as u64 + usage.ru_majflt as u64)
}
