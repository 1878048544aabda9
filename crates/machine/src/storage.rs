//! Block devices: the time to move pages between memory and a disk, in virtual time.
//!
//! ```text
//!   submitted ──► driver ──► queue ──► pipe ──────────► medium ─────► complete
//!                 CPU time             one at a time,   many at once,
//!                                      setup + bytes    latency
//! ```
//!
//! A solid-state disk handles a request in two stages. Its **pipe**, which is command processing and the
//! interface, serves one request at a time: a fixed time plus a time per byte. Its **medium** works on many
//! requests at once and only adds a latency. A data sheet has three figures for each direction, which
//! determine the three parts:
//!
//! | data sheet | | in the model |
//! |---|---|---|
//! | sequential bandwidth | `B` | time in the pipe per byte, `1 / B` |
//! | 4 KiB requests per second, many at a time | `M` | time in the pipe per request, `1 / M - 4096 / B` |
//! | 4 KiB requests per second, one at a time | `O` | latency of the medium, `1 / O - 1 / M` |
//!
//! So the model reproduces all three, and has no free parameter. The driver's time comes before. Both
//! directions share the pipe. Not modelled: a write cache that fills up, garbage collection, and contention
//! of requests for one flash chip.
//!
//! The completion of a request is known when it is submitted, and a disk only needs to remember when its pipe
//! is idle. A CPU whose clock is ahead submits before others whose clocks are behind:
//!
//! ```text
//!   pipe       ▓▓▓▓▓·····▓▓▓▓▓▓▓▓··▓▓▓▓                ▓ reserved   · idle
//!                   ▲ a request that comes late, of five units: ▓▓▓▓▓ fits in, and waits for nobody
//! ```
//!
//! What comes late takes the time that the pipe is idle from then on, piece by piece, and what was reserved
//! stays. So the pipe is busy exactly when it would be if all came in order; only who waits for whom may
//! differ, among those whose clocks are that far apart.
//!
//! Two devices are no disks: the submitting CPU does the work itself, in its own time, and there is no queue.
//! A RAM disk copies (`drivers/block/brd.c: brd_submit_bio`), zram compresses and decompresses
//! (`drivers/block/zram/zram_drv.c: zram_bio_read, zram_bio_write`; Linux 6.6).

use crate::profile::{Figure, cost_figures};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Size of the requests that data sheets count, and of a page, bytes.
const PAGE: u64 = 4096;

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the device to memory.
    Read = 0,
    /// From memory to the device.
    Write = 1,
}

/// A device as written in a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum DeviceFigures {
    /// A disk with a queue.
    Disk(Box<DiskFigures>),
    /// A RAM disk (brd).
    Ramdisk(RamdiskFigures),
    /// Compressed memory as a block device (zram).
    Zram(ZramFigures),
}

cost_figures! {
    /// A disk as its data sheet describes it.
    DiskFigures
    required {
        /// Random 4 KiB reads per second, one at a time.
        read_iops_one,
        /// Random 4 KiB reads per second, with the best queue depth.
        read_iops_many,
        /// Sequential reads, 10^6 bytes per second.
        read_mb_per_second,
        /// Random 4 KiB writes per second, one at a time.
        write_iops_one,
        /// Random 4 KiB writes per second, with the best queue depth.
        write_iops_many,
        /// Sequential writes, 10^6 bytes per second.
        write_mb_per_second,
        /// CPU time of the driver per request including the doorbell, nanoseconds; the doorbell traps in a
        /// virtual machine.
        driver_ns,
    }
}

cost_figures! {
    /// A RAM disk.
    RamdiskFigures
    required {
        /// CPU time to copy 4 KiB in or out, including looking up the disk's page, nanoseconds.
        copy_ns,
    }
}

cost_figures! {
    /// A zram device.
    ZramFigures
    required {
        /// CPU time to compress and store 4 KiB, nanoseconds.
        compress_ns,
        /// CPU time to look up and decompress 4 KiB, nanoseconds.
        decompress_ns,
        /// Compression ratio: size of the data over the memory that they take.
        ratio,
    }
}

impl DeviceFigures {
    /// All figures with their keys, in the order of the file.
    pub fn entries(&self) -> Vec<(&'static str, &Figure)> {
        match self {
            DeviceFigures::Disk(figures) => figures.entries(),
            DeviceFigures::Ramdisk(figures) => figures.entries(),
            DeviceFigures::Zram(figures) => figures.entries(),
        }
    }

    /// The figure named `key`, if this kind of device has it.
    pub fn entry_mut(&mut self, key: &str) -> Option<&mut Figure> {
        match self {
            DeviceFigures::Disk(figures) => figures.entry_mut(key),
            DeviceFigures::Ramdisk(figures) => figures.entry_mut(key),
            DeviceFigures::Zram(figures) => figures.entry_mut(key),
        }
    }

    /// The key of a figure that contradicts another, its value and what is expected.
    pub(crate) fn contradiction(&self) -> Option<(&'static str, f64, &'static str)> {
        let positive = "a positive number";
        if let Some((key, figure)) =
            self.entries().into_iter().find(|&(key, figure)| figure.value <= 0.0 && key != "driver_ns")
        {
            return Some((key, figure.value, positive));
        }
        match self {
            DeviceFigures::Disk(disk) => {
                let directions = [
                    (
                        &disk.read_iops_one,
                        &disk.read_iops_many,
                        &disk.read_mb_per_second,
                        ["read_iops_one", "read_iops_many"],
                        [
                            "no more than read_iops_many",
                            "no more requests of 4 KiB than read_mb_per_second allows",
                        ],
                    ),
                    (
                        &disk.write_iops_one,
                        &disk.write_iops_many,
                        &disk.write_mb_per_second,
                        ["write_iops_one", "write_iops_many"],
                        [
                            "no more than write_iops_many",
                            "no more requests of 4 KiB than write_mb_per_second allows",
                        ],
                    ),
                ];
                directions.into_iter().find_map(
                    |(one, many, bandwidth, [one_key, many_key], [fewer, allowed])| {
                        if one.value > many.value {
                            Some((one_key, one.value, fewer))
                        } else if many.value * PAGE as f64 > bandwidth.value * 1e6 {
                            Some((many_key, many.value, allowed))
                        } else {
                            None
                        }
                    },
                )
            }
            DeviceFigures::Ramdisk(_) => None,
            DeviceFigures::Zram(zram) => {
                (zram.ratio.value < 1.0).then_some(("ratio", zram.ratio.value, "at least 1"))
            }
        }
    }

    /// A new device with these figures.
    pub fn device(&self) -> Device {
        let time = |figure: &Figure| Time::from_nanoseconds_f64(figure.value);
        let kind = match self {
            DeviceFigures::Disk(disk) => Kind::Disk {
                stages: [
                    Stages::new(&disk.read_iops_one, &disk.read_iops_many, &disk.read_mb_per_second),
                    Stages::new(&disk.write_iops_one, &disk.write_iops_many, &disk.write_mb_per_second),
                ],
                driver: time(&disk.driver_ns),
                pipe: Pipe::default(),
            },
            DeviceFigures::Ramdisk(ramdisk) => {
                Kind::Memory { page: [time(&ramdisk.copy_ns), time(&ramdisk.copy_ns)], ratio: 1.0 }
            }
            DeviceFigures::Zram(zram) => Kind::Memory {
                page: [time(&zram.decompress_ns), time(&zram.compress_ns)],
                ratio: zram.ratio.value,
            },
        };
        Device { kind, statistics: [DeviceStatistics::default(); 2] }
    }
}

/// Times of a disk's stages in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stages {
    /// In the pipe, per request.
    setup: Time,
    /// In the pipe, per 4 KiB.
    page: Time,
    /// In the medium.
    latency: Time,
}

impl Stages {
    fn new(one: &Figure, many: &Figure, mb_per_second: &Figure) -> Stages {
        let page = PAGE as f64 / (mb_per_second.value * 1e6);
        let (one, many) = (1.0 / one.value, 1.0 / many.value);
        Stages {
            setup: Time::from_seconds(many - page),
            page: Time::from_seconds(page),
            latency: Time::from_seconds(one - many),
        }
    }

    fn in_pipe(&self, bytes: u64) -> Time {
        self.setup + self.page.fraction(bytes, PAGE)
    }
}

/// When a disk's pipe is idle.
#[derive(Clone, Debug, Default)]
struct Pipe {
    /// Idle times between reservations, in order; those that nobody can come to any more are forgotten.
    idle: VecDeque<(Time, Time)>,
    /// From when on nothing is reserved.
    free: Time,
}

impl Pipe {
    /// Reserves `busy` for a request that comes at `arrival`. Returns when it leaves the pipe.
    fn reserve(&mut self, arrival: Time, mut busy: Time) -> Time {
        if arrival > self.free {
            self.idle.push_back((self.free, arrival));
            self.free = arrival;
        }
        let mut at = self.idle.partition_point(|&(_, end)| end <= arrival);
        while let Some((start, end)) = self.idle.remove(at) {
            let from = start.max(arrival);
            if start < from {
                self.idle.insert(at, (start, from));
                at += 1;
            }
            let until = from + busy;
            if until < end {
                self.idle.insert(at, (until, end));
            }
            if until <= end {
                return until;
            }
            busy = until - end;
        }
        self.free += busy;
        self.free
    }

    /// Forgets idle times before `now`.
    fn forget_before(&mut self, now: Time) {
        while self.idle.front().is_some_and(|&(_, end)| end <= now) {
            self.idle.pop_front();
        }
    }
}

/// How a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// CPU time that the submitter spends on it, from now on.
    pub cpu: Time,
    /// When the transfer is complete.
    pub completion: Time,
}

/// Statistics of a device in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStatistics {
    pub requests: u64,
    /// Bytes of all requests.
    pub bytes: u64,
    /// Time from submission to completion, summed over requests.
    pub latency: Time,
    /// Waiting time for the pipe, summed over requests.
    pub wait: Time,
    /// Busy time of the pipe, or of the CPUs that do the device's work.
    pub busy: Time,
}

#[derive(Clone, Debug)]
enum Kind {
    Disk { stages: [Stages; 2], driver: Time, pipe: Pipe },
    Memory { page: [Time; 2], ratio: f64 },
}

/// A block device.
#[derive(Clone, Debug)]
pub struct Device {
    kind: Kind,
    statistics: [DeviceStatistics; 2],
}

impl Device {
    /// Submits a request of `bytes` at `now`.
    pub fn submit(&mut self, now: Time, direction: Direction, bytes: u64) -> Service {
        let side = direction as usize;
        let (service, wait, busy) = match &mut self.kind {
            Kind::Disk { stages, driver, pipe } => {
                let stages = stages[side];
                let arrival = now + *driver;
                let busy = stages.in_pipe(bytes);
                let left = pipe.reserve(arrival, busy);
                (Service { cpu: *driver, completion: left + stages.latency }, left - arrival - busy, busy)
            }
            Kind::Memory { page, .. } => {
                let cpu = page[side].fraction(bytes, PAGE);
                (Service { cpu, completion: now + cpu }, Time::ZERO, cpu)
            }
        };
        let statistics = &mut self.statistics[side];
        statistics.requests += 1;
        statistics.bytes += bytes;
        statistics.latency += service.completion - now;
        statistics.wait += wait;
        statistics.busy += busy;
        service
    }

    /// Says that nobody submits before `now` any more.
    pub fn forget_before(&mut self, now: Time) {
        if let Kind::Disk { pipe, .. } = &mut self.kind {
            pipe.forget_before(now);
        }
    }

    /// Memory of the machine that `bytes` on this device occupy: none on a disk, all on a RAM disk, a part on
    /// zram.
    pub fn memory(&self, bytes: u64) -> u64 {
        match self.kind {
            Kind::Disk { .. } => 0,
            Kind::Memory { ratio, .. } => (bytes as f64 / ratio).ceil() as u64,
        }
    }

    /// The statistics in one direction.
    pub fn statistics(&self, direction: Direction) -> DeviceStatistics {
        self.statistics[direction as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn figure(value: f64) -> Figure {
        Figure { value, range: None, source: "made up".into() }
    }

    fn ssd() -> DeviceFigures {
        driven(0.0)
    }

    fn driven(driver_ns: f64) -> DeviceFigures {
        DeviceFigures::Disk(Box::new(DiskFigures {
            driver_ns: figure(driver_ns),
            read_iops_one: figure(13e3),
            read_iops_many: figure(98e3),
            read_mb_per_second: figure(560.0),
            write_iops_one: figure(36e3),
            write_iops_many: figure(88e3),
            write_mb_per_second: figure(530.0),
        }))
    }

    /// Requests per second of `tasks` tasks that each submit `bytes`, wait, and submit again.
    fn closed_loop(direction: Direction, tasks: usize, bytes: u64) -> f64 {
        const ROUNDS: usize = 1000;
        let mut device = ssd().device();
        let mut ready = vec![Time::ZERO; tasks];
        for _ in 0..ROUNDS * tasks {
            ready.sort();
            ready[0] = device.submit(ready[0], direction, bytes).completion;
        }
        (ROUNDS * tasks) as f64 / ready.iter().max().unwrap().seconds()
    }

    #[test]
    fn gives_back_the_data_sheet() {
        for (direction, one, many, mb) in
            [(Direction::Read, 13e3, 98e3, 560.0), (Direction::Write, 36e3, 88e3, 530.0)]
        {
            let near =
                |got: f64, wanted: f64| assert!((got / wanted - 1.0).abs() < 0.01, "{got} is not {wanted}");
            near(closed_loop(direction, 1, 4096), one);
            near(closed_loop(direction, 32, 4096), many);
            near(closed_loop(direction, 32, 1 << 20) * (1 << 20) as f64 / 1e6, mb);
        }
    }

    #[test]
    fn the_driver_works_before_the_disk() {
        let (slow, fast) = (driven(5000.0).device(), ssd().device());
        let now = Time::from_nanoseconds(70);
        let submit = |mut device: Device| device.submit(now, Direction::Read, 4096);
        let driver = Time::from_nanoseconds(5000);
        assert_eq!((submit(slow.clone()).cpu, submit(fast.clone()).cpu), (driver, Time::ZERO));
        assert_eq!(submit(slow).completion, submit(fast).completion + driver);
    }

    #[test]
    fn figures_that_contradict_each_other_are_named() {
        let DeviceFigures::Disk(disk) = ssd() else { unreachable!() };
        let disk = *disk;
        let key =
            |disk: DiskFigures| DeviceFigures::Disk(Box::new(disk)).contradiction().map(|(key, ..)| key);
        assert_eq!(key(disk.clone()), None);
        assert_eq!(key(DiskFigures { read_iops_one: figure(99e3), ..disk.clone() }), Some("read_iops_one"));
        assert_eq!(
            key(DiskFigures { write_mb_per_second: figure(300.0), ..disk.clone() }),
            Some("write_iops_many")
        );
        assert_eq!(key(DiskFigures { read_mb_per_second: figure(0.0), ..disk }), Some("read_mb_per_second"));
    }

    #[test]
    fn memory_devices_work_in_the_time_of_the_submitter() {
        let figures =
            ZramFigures { compress_ns: figure(5000.0), decompress_ns: figure(2000.0), ratio: figure(2.5) };
        let mut zram = DeviceFigures::Zram(figures).device();
        let now = Time::from_nanoseconds(70);
        let write = zram.submit(now, Direction::Write, 8192);
        assert_eq!(write.cpu, Time::from_nanoseconds(10_000));
        assert_eq!(write.completion, now + write.cpu);
        // Another CPU decompresses at the same time.
        assert_eq!(zram.submit(now, Direction::Read, 4096).completion, now + Time::from_nanoseconds(2000));
        assert_eq!(zram.memory(1 << 20), 419_431);
        assert_eq!(zram.statistics(Direction::Write).bytes, 8192);
        assert_eq!(ssd().device().memory(1 << 20), 0);
    }

    /// The obvious model, which looks at every request in every step: a disk's stages, one picosecond event
    /// after the other.
    fn step_by_step(requests: &[(Time, Direction, u64)]) -> Vec<Time> {
        let DeviceFigures::Disk(disk) = ssd() else { unreachable!() };
        let read = Stages::new(&disk.read_iops_one, &disk.read_iops_many, &disk.read_mb_per_second);
        let write = Stages::new(&disk.write_iops_one, &disk.write_iops_many, &disk.write_mb_per_second);
        let stages = |direction| if direction == Direction::Read { read } else { write };
        let mut waiting: Vec<usize> = (0..requests.len()).collect();
        let mut completions = vec![Time::NEVER; requests.len()];
        let mut now = Time::ZERO;
        while !waiting.is_empty() {
            match waiting.iter().position(|&r| requests[r].0 <= now) {
                Some(first) => {
                    let r = waiting.remove(first);
                    now += stages(requests[r].1).in_pipe(requests[r].2);
                    completions[r] = now + stages(requests[r].1).latency;
                }
                None => now = waiting.iter().map(|&r| requests[r].0).min().unwrap(),
            }
        }
        completions
    }

    proptest! {
        /// Whatever the order of submission, a disk is busy when it would be if all came in order of time: the last request leaves the
        /// pipe then, nobody is served before he comes, and as much time is idle.
        #[test]
        fn who_submits_late_takes_time_that_is_idle(
            arrivals in proptest::collection::vec((0u64..100_000, 1u64..9000), 1..100)
        ) {
            let ns = Time::from_nanoseconds;
            let reserve = |requests: &[(u64, u64)]| {
                let mut pipe = Pipe::default();
                let left: Vec<Time> = requests.iter().map(|&(at, busy)| pipe.reserve(ns(at), ns(busy))).collect();
                (left, pipe)
            };
            let mut in_order = arrivals.clone();
            in_order.sort();
            let (left, pipe) = reserve(&arrivals);
            let (_, expected) = reserve(&in_order);
            prop_assert_eq!((pipe.free, &pipe.idle), (expected.free, &expected.idle));
            for (left, &(at, busy)) in left.into_iter().zip(&arrivals) {
                prop_assert!(left >= ns(at + busy));
            }
            let mut forgetful = pipe.clone();
            let now = ns(arrivals[0].0);
            forgetful.forget_before(now);
            prop_assert_eq!(forgetful.reserve(now, ns(500)), pipe.clone().reserve(now, ns(500)));
        }

        #[test]
        fn requests_complete_as_they_do_step_by_step(
            gaps in proptest::collection::vec((0u64..40_000, any::<bool>(), 1u64..64), 1..200)
        ) {
            let mut now = Time::ZERO;
            let requests: Vec<_> = gaps.iter().map(|&(gap, write, pages)| {
                now += Time::from_nanoseconds(gap);
                (now, if write { Direction::Write } else { Direction::Read }, pages * PAGE)
            }).collect();
            let mut device = ssd().device();
            let completions: Vec<_> =
                requests.iter().map(|&(at, direction, bytes)| device.submit(at, direction, bytes).completion).collect();
            prop_assert_eq!(&completions, &step_by_step(&requests));
            let (read, write) = (device.statistics(Direction::Read), device.statistics(Direction::Write));
            prop_assert_eq!(read.requests + write.requests, requests.len() as u64);
            let latency: Time = completions.iter().zip(&requests).map(|(&done, &(at, ..))| done - at).sum();
            prop_assert_eq!(read.latency + write.latency, latency);
            // The pipe is never busy for longer than until the last request leaves it.
            prop_assert!(read.busy + write.busy <= *completions.iter().max().unwrap());
        }
    }
}
