//! Predicts the page frame of the next record by a model of the per-CPU lists, so that the stream can omit
//! most numbers.
//!
//! ```text
//!   alloc        the head of its list                            [ head ... tail ] x 14 lists x CPU
//!   pcpu_drain   the tail of its list
//!   free_batched the oldest free that is not completed           [ oldest ... ] x CPU
//! ```
//!
//! The model is part of the file format, because encoder and decoder must agree on it, and is used for
//! nothing else: the lists of the twin that is verified are separate. A wrong prediction costs bytes, but
//! never gives a wrong number.

use std::collections::{HashMap, VecDeque};

use super::stream::Kind;

/// Number of CPUs that three bits can represent.
pub const CPUS: usize = 8;
const LISTS: usize = 14;
/// How far from the end of a list a block is searched.
const WINDOW: usize = 64;
const MOVABLE: u8 = 1;
const HUGE_ORDER: u8 = 9;

/// The properties of a record that the prediction depends on.
#[derive(Clone, Copy)]
pub struct Shape {
    pub kind: Kind,
    pub cpu: usize,
    pub order: u8,
    /// As in the tracepoint; -1 for none.
    pub migratetype: i8,
    /// The free is completed by a later `free_batched`.
    pub waits: bool,
}

#[derive(Default)]
pub struct Predictor {
    lists: [[VecDeque<u32>; LISTS]; CPUS],
    waiting: [VecDeque<u32>; CPUS],
    block_types: HashMap<u32, u8>,
    orders: HashMap<u32, u8>,
    last: [[u32; Kind::COUNT]; CPUS],
}

fn is_listed(order: u8) -> bool {
    order <= 3 || order == HUGE_ORDER
}

fn list_of(order: u8, migratetype: u8) -> usize {
    if order > 3 {
        LISTS - 2 + usize::from(migratetype == MOVABLE)
    } else {
        3 * usize::from(order) + usize::from(migratetype)
    }
}

/// Migratetypes that have no per-CPU list are kept with MIGRATE_MOVABLE.
fn listed_type(migratetype: i8) -> u8 {
    u8::try_from(migratetype).ok().filter(|&t| t <= 2).unwrap_or(MOVABLE)
}

impl Predictor {
    /// The predicted page frame of the next record.
    pub fn predict(&self, shape: Shape) -> Option<u32> {
        let lists = &self.lists[shape.cpu];
        match shape.kind {
            Kind::Alloc if is_listed(shape.order) && (0..3).contains(&shape.migratetype) => {
                lists[list_of(shape.order, shape.migratetype as u8)].front().copied()
            }
            Kind::FreeBatched => self.waiting[shape.cpu].front().copied(),
            Kind::PcpuDrain if is_listed(shape.order) => {
                lists[list_of(shape.order, listed_type(shape.migratetype))].back().copied()
            }
            _ => None,
        }
    }

    /// The last page frame of a record of this kind on this CPU.
    pub fn last(&self, shape: Shape) -> u32 {
        self.last[shape.cpu][shape.kind as usize]
    }

    /// Updates the model with the actual page frame of the record.
    pub fn update(&mut self, shape: Shape, pfn: u32) {
        let Shape { kind, cpu, order, migratetype, waits } = shape;
        self.last[cpu][kind as usize] = pfn;
        match kind {
            Kind::Listed => {
                let list = usize::from(order);
                if list < LISTS {
                    self.lists[cpu][list].push_back(pfn);
                }
                if list < LISTS - 2 {
                    self.block_types.insert(pfn >> HUGE_ORDER, order % 3);
                }
            }
            Kind::ZoneLocked if is_listed(order) && migratetype < 3 => {
                let listed = migratetype.max(0) as u8;
                self.lists[cpu][list_of(order, listed)].push_back(pfn);
                self.block_types.insert(pfn >> HUGE_ORDER, listed);
            }
            Kind::Alloc if is_listed(order) && (0..3).contains(&migratetype) => {
                take_from_front(&mut self.lists[cpu][list_of(order, migratetype as u8)], pfn);
            }
            Kind::Free if waits => {
                self.waiting[cpu].push_back(pfn);
                self.orders.insert(pfn, order);
            }
            Kind::Free => self.add(cpu, order, pfn),
            Kind::FreeBatched => {
                take_from_front(&mut self.waiting[cpu], pfn);
                let order = self.orders.get(&pfn).copied().unwrap_or(0);
                self.add(cpu, order, pfn);
            }
            Kind::PcpuDrain if is_listed(order) => {
                self.block_types.insert(pfn >> HUGE_ORDER, u8::try_from(migratetype).unwrap_or(u8::MAX));
                let list = &mut self.lists[cpu][list_of(order, listed_type(migratetype))];
                if let Some(place) = list.iter().rev().take(WINDOW).position(|&p| p == pfn) {
                    list.truncate(list.len() - 1 - place);
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, cpu: usize, order: u8, pfn: u32) {
        if is_listed(order) {
            let block_type = self.block_types.get(&(pfn >> HUGE_ORDER)).copied().filter(|&t| t <= 2);
            self.lists[cpu][list_of(order, block_type.unwrap_or(MOVABLE))].push_front(pfn);
        }
    }
}

fn take_from_front(list: &mut VecDeque<u32>, pfn: u32) {
    if let Some(place) = list.iter().take(WINDOW).position(|&p| p == pfn) {
        list.drain(..=place);
    }
}
