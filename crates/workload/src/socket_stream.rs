//! Pairs of processes that stream messages through sockets, as AF_UNIX bandwidth and SCTP_STREAM_MANY do.
//!
//! ```text
//!   writer:  send ─► blocks of the kernel, copied into ─► socket ─► copied out of, freed ◄─ receive  :reader
//!            waits while the socket is full                         waits while it is empty
//! ```
//!
//! Pages are allocated on one CPU and freed on another. A scheduler moves processes now and then, so that every CPU does both; here a pair
//! changes its direction instead, after a fixed time. A transaction is a message that was read.

use crate::demand::Thread;
use crate::keys::{Bounds, MICROSECONDS, TIMES};
use crate::operation::{Layout, Operation, Operations, Own, OwnSpec, Process, Socket};
use machine::WrongValue;
use machine::profile::Figure;
use rand::RngExt;
use rand_distr::LogNormal;
use rand_pcg::Pcg64Mcg;

crate::keys! {
    /// The pairs, as in a scenario.
    pub struct SocketStream {
        /// Pairs of processes.
        pub pairs: usize => Bounds::new(1.0, 4096.0, "two CPUs for each on the largest machine"),
        /// Orders of the blocks of a message, in the order in which they are allocated and freed.
        pub blocks: Vec<u8> => Bounds::new(0.0, 10.0, "orders that the buddy allocator has"),
        /// KiB copied into the blocks of a message, and out of them.
        pub copied_kib: u64 => Bounds::new(0.0, 4_096_000.0, "a thousand blocks of 4 MiB"),
        /// Socket calls per message on each side; their cost is in the machine profile.
        pub calls: Figure => Bounds::new(0.0, 1e6, "a second of calls"),
        /// Messages that fit in the socket's buffer.
        pub in_flight: usize => Bounds::new(1.0, 1e6, "more than a socket's buffer holds"),
        /// Virtual microseconds after which a pair changes its direction.
        pub swap_every_us: u64 => MICROSECONDS,
        /// Percentage of misses among cache references that do not concern messages.
        pub background_miss: f64 => Bounds::new(0.0, 100.0, "per cent"),
        /// Messages of all pairs after which they end; none if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub messages: Option<u64> => TIMES,
    }
}

/// Relative spread of the CPU time of socket calls. Without it, pairs would synchronize and meet at locks in
/// convoys that no real machine shows; between 0.3 and 1 the value hardly matters.
const CALL_SPREAD: f64 = 0.5;

impl SocketStream {
    pub(crate) fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        vec![("calls".into(), &mut self.calls)]
    }
}

impl OwnSpec for SocketStream {
    fn check(&self) -> Result<(), WrongValue> {
        match self.blocks.is_empty() {
            true => Err(WrongValue::new("blocks", "[]", "at least one order")),
            false => Ok(()),
        }
    }

    fn start(&self, _seed: u64, random: &dyn Fn(u64) -> Pcg64Mcg) -> Result<Own, WrongValue> {
        let SocketStream { pairs, copied_kib, in_flight, background_miss, .. } = *self;
        // Two for each pair, one in each direction.
        let socket = |number: u32| Socket {
            writer: number,
            reader: number ^ 1,
            blocks: self.blocks.clone(),
            copied_kib,
            in_flight,
            background_miss,
        };
        let layout = Layout {
            processes: vec![Process::default(); 2 * pairs],
            threads: (0..2 * pairs as u32).map(Thread::of).collect(),
            sockets: (0..2 * pairs as u32).map(socket).collect(),
            ..Layout::default()
        };
        let spread = LogNormal::new(-CALL_SPREAD * CALL_SPREAD / 2.0, CALL_SPREAD);
        let streams = Streams {
            calls: 1000.0 * self.calls.value,
            spread: spread.expect("a finite spread"),
            is_bounded: self.messages.is_some(),
            left: self.messages.unwrap_or(u64::MAX),
            swap_every: 1000 * self.swap_every_us,
            // Pairs change direction at different times.
            pairs: (1..=pairs as u64)
                .map(|pair| Pair::new(1000 * self.swap_every_us * pair / pairs as u64))
                .collect(),
            ends: (0..2 * pairs as u64)
                .map(|thread| End {
                    random: random(thread),
                    phase: 0,
                    begins_to_read: thread % 2 == 1,
                    has_read: false,
                })
                .collect(),
        };
        Ok(Own { layout, operations: Box::new(streams) })
    }
}

struct Streams {
    /// Thousandths of a call per message.
    calls: f64,
    spread: LogNormal<f64>,
    is_bounded: bool,
    /// Messages still to be sent.
    left: u64,
    /// Nanoseconds.
    swap_every: u64,
    pairs: Vec<Pair>,
    /// Two of each pair: the first sends in even phases.
    ends: Vec<End>,
}

/// Where a pair is in its phase, in which one end sends and the other reads.
struct Pair {
    /// When the phase ends, in nanoseconds since the start.
    next_swap: u64,
    sent: u64,
    read: u64,
    /// Messages of the phase, once the last is sent.
    last: Option<u64>,
}

impl Pair {
    fn new(next_swap: u64) -> Pair {
        Pair { next_swap, sent: 0, read: 0, last: None }
    }
}

struct End {
    random: Pcg64Mcg,
    phase: usize,
    /// Whether it reads from now on, and its first transaction has not begun.
    begins_to_read: bool,
    has_read: bool,
}

impl Operations for Streams {
    fn next(&mut self, thread: usize, now: u64) -> Option<Operation> {
        let (pair, end) = (&mut self.pairs[thread / 2], &mut self.ends[thread]);
        if std::mem::take(&mut end.has_read) {
            pair.read += 1;
            if pair.last == Some(pair.read) {
                end.phase += 1;
                *pair = Pair::new(pair.next_swap);
            }
            return Some(Operation::TransactionEnd);
        }
        if std::mem::take(&mut end.begins_to_read) {
            return Some(Operation::TransactionBegin);
        }
        let calls = (self.calls * end.random.sample(self.spread)) as u32;
        if (thread + end.phase) % 2 == 1 {
            end.has_read = true;
            return Some(Operation::Receive { socket: (thread ^ 1) as u32, calls });
        }
        self.left = self.left.checked_sub(1)?;
        pair.sent += 1;
        if now >= pair.next_swap {
            pair.next_swap += self.swap_every * ((now - pair.next_swap) / self.swap_every + 1);
            pair.last = Some(pair.sent);
            end.phase += 1;
            end.begins_to_read = true;
        }
        Some(Operation::Send { socket: thread as u32, calls })
    }

    fn ends(&self) -> bool {
        self.is_bounded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn spec() -> SocketStream {
        toml::from_str(
            "pairs = 2\nblocks = [3, 0]\ncopied_kib = 8\ncalls = { value = 2.0, source = 'made up' }\nin_flight = 3\n\
             swap_every_us = 1000000\nbackground_miss = 0.0\nmessages = 3",
        )
        .unwrap()
    }

    #[test]
    fn messages_are_counted_over_all_pairs() {
        let spec = spec();
        spec.check().unwrap();
        let mut own = spec.start(1, &Pcg64Mcg::seed_from_u64).unwrap();
        assert_eq!((own.layout.sockets.len(), own.layout.threads.len()), (4, 4));
        let mut sent = |thread| match own.operations.next(thread, 0) {
            Some(Operation::Send { socket, calls }) => Some((socket, calls)),
            _ => None,
        };
        let messages = [sent(0), sent(2), sent(2)].map(Option::unwrap);
        assert_eq!(messages.map(|(socket, _)| socket), [0, 2, 2]);
        assert!(messages[1].1 != messages[2].1 && messages[1].1 > 200, "{messages:?}");
        assert_eq!([sent(0), sent(2)], [None, None]);
        let none = SocketStream { blocks: Vec::new(), ..spec };
        assert_eq!(none.check().unwrap_err().to_string(), "blocks = []: at least one order");
    }

    #[test]
    fn a_pair_changes_its_direction_once_all_is_read() {
        let spec = SocketStream { messages: None, pairs: 1, swap_every_us: 10, ..spec() };
        let mut own = spec.start(1, &Pcg64Mcg::seed_from_u64).unwrap();
        let mut next = |thread, now| own.operations.next(thread, now).unwrap();
        let is_send = |operation, from| matches!(operation, Operation::Send { socket, .. } if socket == from);
        let is_receive =
            |operation, from| matches!(operation, Operation::Receive { socket, .. } if socket == from);
        assert!(is_send(next(0, 0), 0));
        assert_eq!(next(1, 0), Operation::TransactionBegin);
        assert!(is_receive(next(1, 0), 0));
        assert!(is_send(next(0, 9_999), 0) && is_send(next(0, 10_000), 0), "the last of the phase");
        assert_eq!(next(0, 10_001), Operation::TransactionBegin, "what it sent was no wait for a message");
        assert!(is_receive(next(0, 10_001), 1), "it reads already");
        for _ in 0..2 {
            assert_eq!(next(1, 10_002), Operation::TransactionEnd);
            assert!(is_receive(next(1, 10_002), 0));
        }
        assert_eq!(next(1, 10_003), Operation::TransactionEnd);
        assert!(is_send(next(1, 10_003), 1) && is_send(next(1, 19_999), 1) && is_send(next(1, 20_000), 1));
        assert_eq!(next(1, 20_001), Operation::TransactionBegin);
        assert!(is_receive(next(1, 20_001), 0));
    }
}
