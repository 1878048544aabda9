//! A process that maps memory and touches it as it is told, line by line.
//!
//! ```text
//!   2 MiB boundary
//!   │   reservation of 16 MiB, PROT_NONE                                │
//!   │        │■■■■■■ the VMA ■■■■■■│                                    │
//!
//!   orders on stdin ─► this process ─── pipe ─► the child that it forks
//!   answers on stdout ◄─┘   ▲─────────── pipe ───┘
//! ```
//!
//! It is this very program, called again with a hidden subcommand that leads to [`run`], and has one thread. What it needs
//! itself is mapped before it counts faults, and is in pages of 4 KiB: it may have large folios only while it does what a
//! case is about (`PR_SET_THP_DISABLE`), as forks would split those of its heap, and the kernel count that. What it does to
//! its address space no compiler can check, so this is the one file with unsafe code.

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
/// The VMA lies so far into the reservation, plus its offset: nothing of it is near the ends.
const INTO_RESERVATION: usize = 4 << 20;

/// More than `/proc/self/smaps` has.
const SMAPS: usize = 1 << 20;

/// What the process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Unmap all that was mapped.
    Clear,
    /// Map a VMA.
    Map { offset: u64, pages: u64, advice: Advice },
    /// Map it again with `MAP_POPULATE`.
    Populate,
    /// Store to pages, or load from them.
    Touch { pages: Vec<u64>, write: bool },
    /// `mlock`.
    Lock,
    /// `MADV_DONTNEED`.
    Drop(Range<u64>),
    /// Make the first pages a VMA of their own.
    Split(u64),
    /// Fork a child.
    Fork,
    /// End it.
    Exit,
    /// Say what maps the pages, and which folios they are of.
    Layout,
    /// Read smaps.
    Smaps,
    /// Have the child do it.
    Child(Box<Order>),
}

/// What it answers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Page faults while it did that.
    pub faults: u64,
    /// What maps the pages.
    pub layout: String,
    /// The large folios that map them, by frame.
    pub folios: Folios,
    /// How many of them, by order, were not there before it did that.
    pub made: BTreeMap<u8, i64>,
    /// `Rss`, KiB.
    pub rss_kib: u64,
    /// `THPeligible`.
    pub eligible: bool,
    /// What went wrong.
    pub problem: Option<String>,
}

/// What leads this program to [`run`].
pub const MEMORY: &str = "memory";

/// Obeys until stdin ends.
pub fn run() -> io::Result<()> {
    Program::new()?.obey(BufReader::new(io::stdin()), io::stdout())
}

/// The process. Until it says otherwise it has no large folios.
pub(super) fn command(program: &[String]) -> Command {
    let (name, words) = program.split_first().expect("a program has a name");
    let mut command = Command::new(name);
    command.args(words);
    // SAFETY: this is one system call, which is all that happens between fork and exec.
    unsafe { command.pre_exec(|| allow_large_folios(false)) };
    command
}

/// Whether this process, and those that it forks, may have large folios.
pub(super) fn allow_large_folios(allow: bool) -> io::Result<()> {
    let disable = libc::c_ulong::from(!allow);
    let none: libc::c_ulong = 0;
    // SAFETY: it is about which pages memory consists of, not about what it holds.
    checked(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, disable, none, none, none) })
}

/// Does something for which this process may have large folios.
fn with_large_folios<T>(action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    allow_large_folios(true)?;
    let result = action();
    allow_large_folios(false)?;
    result
}

struct Program {
    pagemap: File,
    flags: File,
    /// `/proc/self/smaps` as last read. Its pages are there before that.
    smaps: Vec<u8>,
    /// First byte and length of the VMA, and the pages of its first part.
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

/// Turns -1 into the error of the system.
fn checked(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn minor_faults() -> u64 {
    // SAFETY: `rusage` is plain data, and the kernel writes one to where it is told.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    usage.ru_minflt as u64
}

fn map(address: usize, length: usize, protection: libc::c_int, flags: libc::c_int) -> io::Result<usize> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: fixed addresses are only given inside of reservations, where nothing else is.
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
        let bytes = |pages: &Range<u64>| {
            let range = pages.start as usize * PAGE..pages.end as usize * PAGE;
            if range.end > length || range.start > range.end {
                return Err(io::Error::other("pages outside of the VMA"));
            }
            Ok((start + range.start, range.len()))
        };
        let mut answer = Answer::default();
        match order {
            Order::Clear => {
                for start in self.reservations.drain(..) {
                    // SAFETY: nobody refers to what a former VMA held.
                    checked(unsafe { libc::munmap(start as *mut libc::c_void, RESERVATION + HUGE) })?;
                }
            }
            Order::Map { offset, pages, advice } => self.map(offset, pages, advice)?,
            Order::Populate => {
                let protection = libc::PROT_READ | libc::PROT_WRITE;
                let flags = libc::MAP_FIXED | libc::MAP_POPULATE;
                answer = self.watched(|| map(start, length, protection, flags).map(drop))?;
            }
            Order::Touch { pages, write } => {
                pages.iter().try_for_each(|&page| bytes(&(page..page + 1)).map(drop))?;
                answer = self.watched(|| {
                    touch(start, &pages, write);
                    Ok(())
                })?;
            }
            Order::Lock => {
                // SAFETY: the VMA is mapped.
                let lock = || checked(unsafe { libc::mlock(start as *const libc::c_void, length) });
                answer = self.watched(lock)?;
            }
            Order::Drop(pages) => {
                let (at, length) = bytes(&pages)?;
                // SAFETY: what is dropped is in the VMA, to which there are no references.
                checked(unsafe { libc::madvise(at as *mut libc::c_void, length, libc::MADV_DONTNEED) })?;
            }
            Order::Split(pages) => {
                let (at, length) = bytes(&(0..pages))?;
                let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
                // SAFETY: as above.
                checked(unsafe { libc::mprotect(at as *mut libc::c_void, length, rights) })?;
                self.first_part = pages;
            }
            Order::Fork => self.fork()?,
            Order::Exit => {
                let child = self.child.take().ok_or_else(|| io::Error::other("there is no child"))?;
                drop(child.orders);
                // SAFETY: the pid is that of a child that nobody else waits for.
                checked(unsafe { libc::waitpid(child.pid, std::ptr::null_mut(), 0) })?;
            }
            Order::Layout => {
                let pages = self.pages()?;
                (answer.layout, answer.folios) = (layout(&pages), folios(&pages));
            }
            Order::Smaps => (answer.rss_kib, answer.eligible) = self.smaps()?,
            Order::Child(order) => {
                let child = self.child.as_mut().ok_or_else(|| io::Error::other("there is no child"))?;
                let mut line = serde_json::to_string(&order)?;
                line.push('\n');
                child.orders.write_all(line.as_bytes())?;
                line.clear();
                child.answers.read_line(&mut line)?;
                answer = serde_json::from_str(&line)?;
            }
        }
        Ok(answer)
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
            // SAFETY: advice changes no contents.
            checked(unsafe { libc::madvise(start as *mut libc::c_void, length, advice) })?;
        }
        self.area = (start, length);
        self.first_part = pages;
        Ok(())
    }

    fn fork(&mut self) -> io::Result<()> {
        let (orders, to_child) = rustix::pipe::pipe()?;
        let (from_child, answers) = rustix::pipe::pipe()?;
        // SAFETY: the process has one thread, so the child finds no lock that is held.
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

    /// Does something that makes folios.
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

    /// What maps each page of the VMA.
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

    /// What maps a page: bits of `pagemap` and `kpageflags` (Documentation/admin-guide/mm/pagemap.rst). `before`: what maps
    /// the page before it, which mostly is of the same folio.
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
        // Nothing is eligible where large folios are not allowed.
        with_large_folios(|| file.read_to_end(&mut self.smaps))?;
        let text = String::from_utf8_lossy(&self.smaps);
        let head = format!("{:x}-{:x} ", self.area.0, self.area.0 + self.first_part as usize * PAGE);
        let missing = || io::Error::other(format!("/proc/self/smaps has no area {head}"));
        let at = text.find(&head).ok_or_else(missing)?;
        let value = |name: &str| {
            let line = text[at..].lines().skip(1).find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        let found = value("Rss:").zip(value("THPeligible:")).ok_or_else(missing)?;
        Ok((found.0, found.1 != 0))
    }
}

/// The faults that `action` takes.
fn counted(action: impl FnOnce() -> io::Result<()>) -> io::Result<u64> {
    // The stack that counting takes is there, and is this process's own after a fork.
    touch(0, std::hint::black_box(&[]), true);
    minor_faults();
    let before = minor_faults();
    action()?;
    Ok(minor_faults() - before)
}

#[inline(never)]
fn touch(start: usize, pages: &[u64], write: bool) {
    for page in pages {
        let at = (start + *page as usize * PAGE) as *mut u8;
        // SAFETY: the caller made sure that the page is in the VMA, which is readable and writable.
        unsafe {
            if write {
                at.write_volatile(1)
            } else {
                std::hint::black_box(at.read_volatile());
            }
        }
    }
}
