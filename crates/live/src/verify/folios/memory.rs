//! The observed process: maps memory and touches it, as it is told line by line.
//!
//! ```text
//!   2 MiB boundary
//!   │   reservation of 16 MiB, PROT_NONE                                │
//!   │        │■■■■■■ the VMA ■■■■■■│                                    │
//!
//!   orders on stdin ─► this process ──── pipe ─► the child that it forks
//!   answers on stdout ◄─┘   ▲─────────── pipe ───┘
//! ```
//!
//! This program is started again with a hidden subcommand that calls [`run`], and has a single thread. Its
//! own memory is mapped before faults are counted, and consists of 4 KiB pages: large folios are allowed only
//! during the operations of a case (`PR_SET_THP_DISABLE`), because a fork would split those of its heap,
//! which the kernel counts. The compiler cannot check what is done to the address space, so this is the only
//! file with unsafe code.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::case::Advice;
use super::outcome::{Folios, Mapped, folios, layout};

const PAGE: usize = 4096;
const HUGE: usize = 512 * PAGE;
const RESERVATION: usize = 16 << 20;
/// Offset of the VMA in the reservation, before its own offset: far from both ends.
const INTO_RESERVATION: usize = 4 << 20;

/// Buffer size, larger than `/proc/self/smaps`.
const SMAPS: usize = 1 << 20;

/// A command to the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Unmap everything that a case has mapped.
    Clear,
    /// Map a VMA.
    Map {
        offset: u64,
        pages: u64,
        advice: Advice,
    },
    /// Map the VMA again with `MAP_POPULATE`.
    Populate,
    /// Store to pages, or load from them.
    Touch {
        pages: Vec<u64>,
        write: bool,
    },
    Lock,
    Drop(Range<u64>),
    /// Split the VMA after this many pages.
    Split(u64),
    /// Fork a child.
    Fork,
    /// Let the child exit.
    Exit,
    /// Report which folios map the pages.
    Layout,
    /// Read smaps.
    Smaps,
    /// Forward a command to the child.
    Child(Box<Order>),
}

/// The answer to a command.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Number of page faults during the command.
    pub faults: u64,
    /// The pages of the VMA, see [`layout`](super::outcome::layout).
    pub layout: String,
    /// The large folios that map pages of the VMA, by frame.
    pub folios: Folios,
    /// Number of large folios by order that did not exist before the command.
    pub made: BTreeMap<u8, i64>,
    /// `Rss` in KiB.
    pub rss_kib: u64,
    /// `THPeligible`.
    pub eligible: bool,
    /// The error, if the command failed.
    pub problem: Option<String>,
}

/// The hidden subcommand that calls [`run`].
pub const MEMORY: &str = "memory";

/// Executes commands until the end of stdin.
pub fn run() -> io::Result<()> {
    Program::new()?.obey(BufReader::new(io::stdin()), io::stdout())
}

/// The command line of the process. It starts with large folios disabled.
pub(super) fn command(program: &[String]) -> Command {
    let (name, words) = program.split_first().expect("a program has a name");
    let mut command = Command::new(name);
    command.args(words);
    // SAFETY: this is a single system call, and nothing else happens between fork and exec.
    unsafe { command.pre_exec(disallow_large_folios) };
    command
}

/// Allows large folios in this process and its future children.
fn allow_large_folios() -> io::Result<()> {
    set_thp_disable(0)
}

/// Disallows large folios in this process and its future children.
pub(super) fn disallow_large_folios() -> io::Result<()> {
    set_thp_disable(1)
}

fn set_thp_disable(disable: libc::c_ulong) -> io::Result<()> {
    let none: libc::c_ulong = 0;
    // SAFETY: this affects the size of pages, not the contents of memory.
    checked(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, disable, none, none, none) })
}

/// Runs `action` with large folios allowed.
fn with_large_folios<T>(action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    allow_large_folios()?;
    let result = action();
    disallow_large_folios()?;
    result
}

struct Program {
    pagemap: File,
    flags: File,
    /// The contents of `/proc/self/smaps`. The buffer is populated in advance.
    smaps: Vec<u8>,
    /// Address and length of the VMA in bytes, and the number of pages before the split.
    area: (usize, usize),
    first_part: u64,
    reservations: Vec<usize>,
    child: Option<Child>,
}

struct Child {
    pid: libc::pid_t,
    orders: File,
    answers: BufReader<File>,
}

/// Converts a return value of -1 to the error in errno.
fn checked(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn no_child() -> io::Error {
    io::Error::other("there is no child")
}

fn minor_faults() -> u64 {
    // SAFETY: `rusage` is plain data, and the kernel writes one to this address.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    usage.ru_minflt as u64
}

fn map(address: usize, length: usize, protection: libc::c_int, flags: libc::c_int) -> io::Result<usize> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: fixed addresses are used only within the reservation, where nothing else is mapped.
    let mapped = unsafe { libc::mmap(address as *mut libc::c_void, length, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(mapped as usize) }
}

impl Program {
    fn new() -> io::Result<Program> {
        Ok(Program {
            pagemap: File::open("/proc/self/pagemap")?,
            flags: File::open("/proc/kpageflags")?,
            smaps: vec![1; SMAPS],
            area: (0, 0),
            first_part: 0,
            reservations: Vec::new(),
            child: None,
        })
    }

    fn obey(&mut self, orders: impl BufRead, mut answers: impl Write) -> io::Result<()> {
        for line in orders.lines() {
            let order: Order = serde_json::from_str(&line?)?;
            let answer = self
                .answer(order)
                .unwrap_or_else(|error| Answer { problem: Some(error.to_string()), ..Answer::default() });
            let mut line = serde_json::to_string(&answer)?;
            line.push('\n');
            answers.write_all(line.as_bytes())?;
            answers.flush()?;
        }
        Ok(())
    }

    fn answer(&mut self, order: Order) -> io::Result<Answer> {
        let (start, length) = self.area;
        let mut answer = Answer::default();
        match order {
            Order::Clear => self.unmap_all()?,
            Order::Map { offset, pages, advice } => self.map(offset, pages, advice)?,
            Order::Populate => {
                let protection = libc::PROT_READ | libc::PROT_WRITE;
                let flags = libc::MAP_FIXED | libc::MAP_POPULATE;
                answer = self.watched(|| map(start, length, protection, flags).map(drop))?;
            }
            Order::Touch { pages, write } => {
                pages.iter().try_for_each(|&page| self.bytes(&(page..page + 1)).map(drop))?;
                let touch = if write { store } else { load };
                answer = self.watched(|| {
                    touch(start, &pages);
                    Ok(())
                })?;
            }
            Order::Lock => {
                // SAFETY: the VMA is mapped.
                let lock = || checked(unsafe { libc::mlock(start as *const libc::c_void, length) });
                answer = self.watched(lock)?;
            }
            Order::Drop(pages) => {
                let (at, length) = self.bytes(&pages)?;
                // SAFETY: the range is within the VMA, to which there are no references.
                checked(unsafe { libc::madvise(at as *mut libc::c_void, length, libc::MADV_DONTNEED) })?;
            }
            Order::Split(pages) => self.split(pages)?,
            Order::Fork => self.fork()?,
            Order::Exit => self.wait_for_child()?,
            Order::Layout => {
                let pages = self.pages()?;
                (answer.layout, answer.folios) = (layout(&pages), folios(&pages));
            }
            Order::Smaps => (answer.rss_kib, answer.eligible) = self.smaps()?,
            Order::Child(order) => answer = self.ask_child(&order)?,
        }
        Ok(answer)
    }

    /// Address and length of some pages of the VMA.
    fn bytes(&self, pages: &Range<u64>) -> io::Result<(usize, usize)> {
        let (start, length) = self.area;
        let range = pages.start as usize * PAGE..pages.end as usize * PAGE;
        if range.end > length || range.start > range.end {
            return Err(io::Error::other("pages outside of the VMA"));
        }
        Ok((start + range.start, range.len()))
    }

    fn unmap_all(&mut self) -> io::Result<()> {
        for start in self.reservations.drain(..) {
            // SAFETY: there are no references to the contents of the previous VMA.
            checked(unsafe { libc::munmap(start as *mut libc::c_void, RESERVATION + HUGE) })?;
        }
        Ok(())
    }

    fn split(&mut self, pages: u64) -> io::Result<()> {
        let (at, length) = self.bytes(&(0..pages))?;
        let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        // SAFETY: the range is within the VMA, and stays readable and writable.
        checked(unsafe { libc::mprotect(at as *mut libc::c_void, length, rights) })?;
        self.first_part = pages;
        Ok(())
    }

    fn ask_child(&mut self, order: &Order) -> io::Result<Answer> {
        let child = self.child.as_mut().ok_or_else(no_child)?;
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        child.orders.write_all(line.as_bytes())?;
        line.clear();
        child.answers.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    fn wait_for_child(&mut self) -> io::Result<()> {
        let child = self.child.take().ok_or_else(no_child)?;
        // The child exits at the end of its orders.
        drop(child.orders);
        // SAFETY: the PID is that of a child that nobody else waits for.
        checked(unsafe { libc::waitpid(child.pid, std::ptr::null_mut(), 0) })
    }

    fn map(&mut self, offset: u64, pages: u64, advice: Advice) -> io::Result<()> {
        let reservation = map(0, RESERVATION + HUGE, libc::PROT_NONE, libc::MAP_NORESERVE)?;
        self.reservations.push(reservation);
        let start = reservation.next_multiple_of(HUGE) + INTO_RESERVATION + offset as usize * PAGE;
        let length = pages as usize * PAGE;
        if start + length > reservation + RESERVATION {
            return Err(io::Error::other("the VMA is too large"));
        }
        map(start, length, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_FIXED)?;
        let advice = match advice {
            Advice::None => None,
            Advice::Huge => Some(libc::MADV_HUGEPAGE),
            Advice::NoHuge => Some(libc::MADV_NOHUGEPAGE),
        };
        if let Some(advice) = advice {
            // SAFETY: this advice does not change the contents.
            checked(unsafe { libc::madvise(start as *mut libc::c_void, length, advice) })?;
        }
        self.area = (start, length);
        self.first_part = pages;
        Ok(())
    }

    fn fork(&mut self) -> io::Result<()> {
        let (orders, to_child) = rustix::pipe::pipe()?;
        let (from_child, answers) = rustix::pipe::pipe()?;
        // SAFETY: the process has one thread, so no lock can be held in the child.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop((to_child, from_child));
                let reader = |end: OwnedFd| File::from(end);
                let mut program = match Program::new() {
                    Ok(program) => Program { area: self.area, first_part: self.first_part, ..program },
                    Err(_) => std::process::exit(1),
                };
                let obeyed = program.obey(BufReader::new(reader(orders)), reader(answers));
                std::process::exit(i32::from(obeyed.is_err()))
            }
            pid => {
                let answers = BufReader::new(File::from(from_child));
                self.child = Some(Child { pid, orders: File::from(to_child), answers });
                Ok(())
            }
        }
    }

    fn flags_of(&self, frame: u64) -> io::Result<u64> {
        let mut flags = [0; 8];
        self.flags.read_exact_at(&mut flags, frame * 8)?;
        Ok(u64::from_le_bytes(flags))
    }

    /// Runs `action` and notes the folios that it creates.
    fn watched(&self, action: impl FnOnce() -> io::Result<()>) -> io::Result<Answer> {
        let before = folios(&self.pages()?);
        let faults = with_large_folios(|| counted(action))?;
        let mut made = BTreeMap::new();
        for (frame, order) in folios(&self.pages()?) {
            if before.get(&frame) != Some(&order) {
                *made.entry(order).or_default() += 1;
            }
        }
        Ok(Answer { faults, made, ..Answer::default() })
    }

    /// What is mapped at each page of the VMA.
    fn pages(&self) -> io::Result<Vec<Mapped>> {
        let (start, length) = self.area;
        let mut entries = vec![0; length / PAGE * 8];
        self.pagemap.read_exact_at(&mut entries, (start / PAGE * 8) as u64)?;
        let mut pages: Vec<Mapped> = Vec::new();
        for entry in entries.chunks_exact(8) {
            let entry = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
            pages.push(self.mapped(entry, pages.last())?);
        }
        Ok(pages)
    }

    /// Decodes an entry of `pagemap` with the flags in `kpageflags`
    /// (Documentation/admin-guide/mm/pagemap.rst). `before` is the previous page, which is mostly in the same
    /// folio.
    fn mapped(&self, entry: u64, before: Option<&Mapped>) -> io::Result<Mapped> {
        const PRESENT: u64 = 1 << 63;
        const SWAPPED: u64 = 1 << 62;
        const FRAME: u64 = (1 << 55) - 1;
        const HEAD: u64 = 1 << 15;
        const TAIL: u64 = 1 << 16;
        const ZERO_PAGE: u64 = 1 << 24;
        if entry & PRESENT == 0 {
            return Ok(if entry & SWAPPED != 0 { Mapped::Swap } else { Mapped::None });
        }
        let frame = entry & FRAME;
        if let Some(&Mapped::Page { folio, order, .. }) = before
            && (folio..folio + (1 << order)).contains(&frame)
        {
            return Ok(Mapped::Page { folio, order, index: frame - folio });
        }
        let flags = self.flags_of(frame)?;
        if flags & ZERO_PAGE != 0 {
            return Ok(Mapped::Zeroes);
        }
        if flags == 0 {
            return Ok(Mapped::Unknown);
        }
        if flags & (HEAD | TAIL) == 0 {
            return Ok(Mapped::Page { folio: frame, order: 0, index: 0 });
        }
        let mut head = frame;
        while self.flags_of(head)? & TAIL != 0 {
            head -= 1;
        }
        let mut pages = 1;
        while self.flags_of(head + pages)? & TAIL != 0 {
            pages += 1;
        }
        Ok(Mapped::Page { folio: head, order: pages.ilog2() as u8, index: frame - head })
    }

    /// `Rss` in KiB and `THPeligible` of the VMA.
    fn smaps(&mut self) -> io::Result<(u64, bool)> {
        let mut file = File::open("/proc/self/smaps")?;
        self.smaps.clear();
        // The kernel reports no VMA as eligible if large folios are not allowed.
        with_large_folios(|| file.read_to_end(&mut self.smaps))?;
        let text = String::from_utf8_lossy(&self.smaps);
        let head = format!("{:x}-{:x} ", self.area.0, self.area.0 + self.first_part as usize * PAGE);
        let missing = || io::Error::other(format!("/proc/self/smaps has no VMA {head}"));
        let at = text.find(&head).ok_or_else(missing)?;
        let value = |name: &str| {
            let line = text[at..].lines().skip(1).find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        let found = value("Rss:").zip(value("THPeligible:")).ok_or_else(missing)?;
        Ok((found.0, found.1 != 0))
    }
}

/// The number of page faults during `action`.
fn counted(action: impl FnOnce() -> io::Result<()>) -> io::Result<u64> {
    // Populates the stack and the code that will be used; after a fork, this also copies the stack for this process.
    store(0, std::hint::black_box(&[]));
    load(0, std::hint::black_box(&[]));
    minor_faults();
    let before = minor_faults();
    action()?;
    Ok(minor_faults() - before)
}

/// Stores to pages of the VMA at `start`.
#[inline(never)]
fn store(start: usize, pages: &[u64]) {
    for page in pages {
        let at = (start + *page as usize * PAGE) as *mut u8;
        // SAFETY: the caller has checked that the page is in the VMA, which is writable.
        unsafe { at.write_volatile(1) };
    }
}

/// Loads from pages of the VMA at `start`.
#[inline(never)]
fn load(start: usize, pages: &[u64]) {
    for page in pages {
        let at = (start + *page as usize * PAGE) as *const u8;
        // SAFETY: the caller has checked that the page is in the VMA, which is readable.
        std::hint::black_box(unsafe { at.read_volatile() });
    }
}
