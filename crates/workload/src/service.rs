//! A service: requests arrive, each takes pages of the kernel, uses memory of the service, computes, gives the pages back and is
//! answered.
//!
//! ```text
//!   thread 0   ──█──────███─────█──────────── ██ ──        each on a CPU of its own, or wherever the scheduler puts it
//!   thread 1   ─────██───────█───────█████─────────
//!                ▲ arrives: pages, computes, frees    latency: from the arrival to the end
//! ```
//!
//! It is an open loop: requests come to each thread at random times (Poisson), regardless of earlier ones, and queue. So a request also
//! pays for what delayed the one before it: an interrupt, a scheduler that gave the CPU to somebody else, an allocation that
//! reclaimed. The time of a transaction is a request's latency. All random numbers of a request are drawn in one order from a stream of
//! its thread, so all variants of a seed see the same requests.

use crate::demand::Thread;
use crate::keys::{Bounds, CPUS, MIB, THREADS};
use crate::operation::{Extent, Layout, Operation, Operations, Own, OwnSpec, Process};
use crate::threads::Affinity;
use machine::profile::Figure;
use machine::{PageSize, WrongValue};
use mm::MigrateType;
use rand_distr::{Distribution, Exp, LogNormal};
use rand_pcg::Pcg64Mcg;
use std::ops::Range;

/// The longest work of a request in nanoseconds: 100 s. With a wide spread a request in a few hundred would take for ever.
const LONGEST: f64 = 1e11;

crate::keys! {
    /// A service whose threads serve requests.
    pub struct Service {
        /// Number of threads.
        pub threads: u32 => THREADS,
        /// The CPU on which the first thread stays; the others stay on those behind it. The scheduler's choice if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub first_cpu: Option<u16> => CPUS.or_none(),
        /// Mean rate of requests of a thread, per second.
        pub requests_per_second: Figure => Bounds::new(1e-3, 1e9, "one in a quarter of an hour to one each ns"),
        /// Median CPU time of a request in microseconds, without what the kernel does for it.
        pub work_us: Figure => Bounds::new(1e-3, 1e9, "a ns to a quarter of an hour"),
        /// Standard deviation of the logarithm of that time, which is at most 100 s per request; with 0 all requests are equal.
        pub work_spread: Figure => Bounds::new(0.0, 10.0, "a request in six takes over 20,000 times the median"),
        /// Pages of the kernel that a request takes, such as buffers of a socket.
        pub pages: u32 => Bounds::new(0.0, 262_144.0, "1 GiB for one request"),
        /// Memory of the service in MiB, which its threads fill, each its part, before they serve; none if absent.
        #[serde(default, skip_serializing_if = "crate::keys::is_zero")]
        pub memory_mib: u64 => MIB.or_none(),
        /// How much of it each request stores to, from the begin, in MiB.
        #[serde(default, skip_serializing_if = "crate::keys::is_zero")]
        pub used_mib: u64 => MIB.or_none(),
        /// Requests after which a thread ends, and the service with its last one; none if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub requests: Option<u64> => Bounds::new(1.0, 1e12, "requests"),
    }
}

impl Service {
    pub(crate) fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        vec![
            ("requests_per_second".into(), &mut self.requests_per_second),
            ("work_us".into(), &mut self.work_us),
            ("work_spread".into(), &mut self.work_spread),
        ]
    }

    fn draws(&self) -> Result<Draws, WrongValue> {
        let wrong =
            |key: &str, of: &Figure| WrongValue::new(key, of.value, "a number that a distribution has");
        let gap = Exp::new(self.requests_per_second.value)
            .map_err(|_| wrong("requests_per_second", &self.requests_per_second))?;
        let work = LogNormal::new(self.work_us.value.ln(), self.work_spread.value)
            .map_err(|_| wrong("work_spread", &self.work_spread))?;
        Ok(Draws { gap, work })
    }
}

/// The part of some pages that falls to a thread.
fn share_of(pages: u64, thread: u64, threads: u64) -> Range<u64> {
    pages * thread / threads..pages * (thread + 1) / threads
}

/// A store to a line of each of these pages of the service's memory.
fn store_to(pages: Range<u64>) -> Operation {
    let (first, pages) = (pages.start, pages.end - pages.start);
    Operation::Access { area: 0, first, pages, write: true, extent: Extent::Lines }
}

/// What is drawn for each request.
#[derive(Clone, Copy)]
struct Draws {
    /// Seconds since the arrival before.
    gap: Exp<f64>,
    /// Microseconds of work.
    work: LogNormal<f64>,
}

impl OwnSpec for Service {
    fn check(&self) -> Result<(), WrongValue> {
        if self.used_mib <= self.memory_mib {
            return Ok(());
        }
        let expected = format!("at most the {} MiB that it has (memory_mib)", self.memory_mib);
        Err(WrongValue::new("used_mib", self.used_mib, expected))
    }

    fn start(&self, _seed: u64, random: &dyn Fn(u64) -> Pcg64Mcg) -> Result<Own, WrongValue> {
        let memory = PageSize::Kib4.pages_of_mib(self.memory_mib);
        let areas = if memory > 0 { vec![memory] } else { Vec::new() };
        let layout = Layout {
            processes: vec![Process { areas, ..Process::default() }],
            threads: vec![Thread::of(0); self.threads as usize],
            stays: self.requests.is_none(),
            ..Layout::default()
        };
        let server = |thread: u32| Server {
            random: random(u64::from(thread)),
            stays_on: Affinity::of_thread(self.first_cpu, thread as usize),
            arrives: 0.0,
            fills: share_of(memory, u64::from(thread), u64::from(self.threads)),
            to_serve: self.requests.unwrap_or(u64::MAX),
            left: Vec::new(),
        };
        let servers = (0..self.threads).map(server).collect();
        let used = PageSize::Kib4.pages_of_mib(self.used_mib);
        let operations = Box::new(Requests { draws: self.draws()?, pages: self.pages, used, servers });
        Ok(Own { layout, operations })
    }
}

/// A thread.
struct Server {
    random: Pcg64Mcg,
    /// Where it goes first.
    stays_on: Option<Affinity>,
    /// When the latest request arrives, in seconds after the start.
    arrives: f64,
    /// Pages of the memory that it fills before it serves; none once that is done.
    fills: Range<u64>,
    /// Requests that are still to come.
    to_serve: u64,
    /// What is left of it, last first.
    left: Vec<Operation>,
}

/// Requests of all threads.
struct Requests {
    draws: Draws,
    pages: u32,
    /// Pages of its memory that each stores to.
    used: u64,
    servers: Vec<Server>,
}

impl Operations for Requests {
    fn next(&mut self, thread: usize, _now: u64) -> Option<Operation> {
        let Requests { draws, pages: blocks, used, ref mut servers } = *self;
        let server = &mut servers[thread];
        if let Some(affinity) = server.stays_on.take() {
            return Some(Operation::Pin(Some(affinity)));
        }
        let fills = std::mem::take(&mut server.fills);
        if !fills.is_empty() {
            return Some(store_to(fills));
        }
        if server.left.is_empty() {
            server.to_serve = server.to_serve.checked_sub(1)?;
            server.arrives += draws.gap.sample(&mut server.random);
            let work = (1e3 * draws.work.sample(&mut server.random)).min(LONGEST);
            let request = [
                Operation::Arrive { nanoseconds: (1e9 * server.arrives) as u64 },
                Operation::AllocPages { order: 0, migrate_type: MigrateType::Unmovable, blocks },
                store_to(0..used),
                Operation::Compute { nanoseconds: work as u64 },
                Operation::FreePages,
                Operation::TransactionEnd,
            ];
            let is_made = |operation: &Operation| !matches!(operation, Operation::Access { pages: 0, .. });
            server.left.extend(request.into_iter().rev().filter(is_made));
        }
        server.left.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Value;
    use rand::SeedableRng;

    fn spec(spread: f64) -> Service {
        toml::from_str(&format!(
            "threads = 2\nfirst_cpu = 3\nrequests_per_second = {{ value = 1000.0, source = 'made up' }}\n\
             work_us = {{ value = 100.0, source = 'made up' }}\nwork_spread = {{ value = {spread:?}, source = 'made up' }}\n\
             pages = 4"
        ))
        .unwrap()
    }

    fn operations(spec: &Service, thread: usize, count: usize) -> Vec<Operation> {
        spec.check_bounds("").unwrap();
        let mut own = spec.start(1, &|stream| Pcg64Mcg::seed_from_u64(stream)).unwrap();
        std::iter::from_fn(|| own.operations.next(thread, 0)).take(count).collect()
    }

    #[test]
    fn requests_come_at_their_rate_whatever_they_take() {
        let all = operations(&spec(0.5), 1, 1 + 5 * 10_000);
        assert_eq!(all[0], Operation::Pin(Some(Affinity::Cpu(4))));
        let arrivals: Vec<u64> = all
            .iter()
            .filter_map(|operation| match operation {
                Operation::Arrive { nanoseconds } => Some(*nanoseconds),
                _ => None,
            })
            .collect();
        assert!(arrivals.is_sorted());
        let seconds = *arrivals.last().unwrap() as f64 / 1e9;
        assert!((9.7..10.3).contains(&seconds), "10,000 requests in {seconds} s");
        assert_eq!(
            all[2..6],
            [
                Operation::AllocPages { order: 0, migrate_type: MigrateType::Unmovable, blocks: 4 },
                all[3],
                Operation::FreePages,
                Operation::TransactionEnd
            ]
        );
    }

    #[test]
    fn a_request_uses_memory_and_the_last_one_ends_the_thread() {
        let mut spec = spec(0.5);
        (spec.memory_mib, spec.used_mib, spec.requests) = (8, 2, Some(3));
        let all = operations(&spec, 0, 1000);
        assert_eq!(all.len(), 2 + 3 * 6);
        assert_eq!([all[1], all[4]], [store_to(0..1024), store_to(0..512)]);
        assert_eq!(operations(&spec, 1, 2)[1], store_to(1024..2048), "threads fill it together");
        spec.used_mib = 9;
        assert!(spec.check().unwrap_err().to_string().contains("at most the 8 MiB"));
    }

    #[test]
    fn no_request_works_for_longer_than_its_latency_can_be_told() {
        let longest =
            operations(&spec(10.0), 0, 5 * 10_000).into_iter().filter_map(|operation| match operation {
                Operation::Compute { nanoseconds } => Some(nanoseconds),
                _ => None,
            });
        assert_eq!(longest.max(), Some(LONGEST as u64));
    }
}
