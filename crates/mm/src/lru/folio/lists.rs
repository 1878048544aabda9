//! Lists of folios, stored as chains of runs of 64 places.
//!
//! ```text
//!   list ─► [ · · 9 4 7 ] ─► [ 3 · 8 · 1 ] ─► [ 6 2 · · · ] ─► list      a run has 64 places, from
//!     ▲ head                                         tail │              head to tail; each folio
//!     └───────────────────────────────────────────────────┘              knows its own
//! ```
//!
//! With `list_head` links in each folio, a list would be a chain through all of the host's memory: the next
//! folio is known only once the one before has arrived, and removing one writes to both its neighbours. Here
//! the next folios are known ahead of their use ([`Lists::near_tail`]), and removing one clears one bit. The
//! order is that of the kernel's lists. Neighbouring runs that hold few folios are merged. In the kernel:
//! include/linux/list.h.

use super::FolioId;
use crate::set_bits::set_bits;
use crate::vec_growth;
use std::iter::successors;

/// Places of a run, one for each bit of a word.
const RUN: usize = u64::BITS as usize;

/// Two neighbouring runs that hold no more folios than this together are merged. The runs at the tail that
/// reclaim thins out are seldom as sparse.
const SPARSE: u32 = RUN as u32 / 4;

/// One end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEnd {
    /// Where the newest folios are.
    Head,
    /// Where reclaim looks first.
    Tail,
}

/// The number of a list of folios (`struct list_head`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListHead(u32);

/// The place of a folio on its list: a run and an offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

impl Place {
    /// The place of a folio that is on no list.
    pub const NOWHERE: Place = Place(u32::MAX);

    fn new(run: u32, offset: usize) -> Place {
        Place(run * RUN as u32 + offset as u32)
    }

    #[inline]
    fn run(self) -> u32 {
        self.0 / RUN as u32
    }

    #[inline]
    fn offset(self) -> usize {
        self.0 as usize % RUN
    }
}

/// An element of the ring that a list is: a run, or the list itself, which is before its head and behind its
/// tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part(u32);

impl Part {
    const LIST: u32 = 1 << 31;

    fn of(list: ListHead) -> Part {
        Part(list.0 | Part::LIST)
    }

    #[inline]
    fn run(self) -> Option<u32> {
        (self.0 & Part::LIST == 0).then_some(self.0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Links {
    next: Part,
    prev: Part,
}

/// All lists, and the runs that they are made of.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    /// The first and last run of each list, indexed by list.
    ends: Vec<Links>,
    /// The folios in each run, indexed by run; valid where `occupied` has a bit.
    runs: Vec<[FolioId; RUN]>,
    /// Which places of a run hold a folio, one bit each, indexed by run.
    occupied: Vec<u64>,
    /// The neighbours of each run, indexed by run.
    links: Vec<Links>,
    /// Runs that belong to no list.
    free: Vec<u32>,
}

impl Lists {
    /// Makes an empty list.
    pub fn new_list(&mut self) -> ListHead {
        let list = ListHead(self.ends.len() as u32);
        self.ends.push(Links { next: Part::of(list), prev: Part::of(list) });
        list
    }

    /// Makes room for `folios` folios in full runs.
    pub fn reserve(&mut self, folios: usize) {
        let runs = folios.div_ceil(RUN);
        self.runs.reserve_exact(runs);
        self.occupied.reserve_exact(runs);
        self.links.reserve_exact(runs);
    }

    /// Bytes of host memory that lists and runs take.
    pub fn bytes(&self) -> usize {
        self.ends.capacity() * size_of::<Links>()
            + self.runs.capacity() * size_of::<[FolioId; RUN]>()
            + self.occupied.capacity() * size_of::<u64>()
            + self.links.capacity() * size_of::<Links>()
            + self.free.capacity() * size_of::<u32>()
    }

    #[inline]
    fn links(&mut self, part: Part) -> &mut Links {
        match part.run() {
            Some(run) => &mut self.links[run as usize],
            None => &mut self.ends[(part.0 & !Part::LIST) as usize],
        }
    }

    fn join(&mut self, before: Part, behind: Part) {
        self.links(before).next = behind;
        self.links(behind).prev = before;
    }

    /// Inserts an empty run right behind `before`.
    #[inline(never)]
    fn new_run(&mut self, before: Part) -> u32 {
        let run = self.free.pop().unwrap_or_else(|| {
            vec_growth::reserve(&mut self.runs, 1);
            vec_growth::reserve(&mut self.occupied, 1);
            vec_growth::reserve(&mut self.links, 1);
            self.runs.push([FolioId(0); RUN]);
            self.occupied.push(0);
            self.links.push(Links { next: before, prev: before });
            self.runs.len() as u32 - 1
        });
        let behind = self.links(before).next;
        self.join(before, Part(run));
        self.join(Part(run), behind);
        run
    }

    fn free_run(&mut self, run: u32) {
        let Links { next, prev } = self.links[run as usize];
        self.join(prev, next);
        self.free.push(run);
    }

    #[inline]
    fn put(&mut self, run: u32, offset: usize, id: FolioId) -> Place {
        self.runs[run as usize][offset] = id;
        self.occupied[run as usize] |= 1 << offset;
        Place::new(run, offset)
    }

    #[inline(always)]
    pub fn push_head(&mut self, list: ListHead, id: FolioId) -> Place {
        let first = self.ends[list.0 as usize].next.run();
        let room = |run: u32| self.occupied[run as usize].trailing_zeros() as usize;
        let (run, room) = match first.map(|run| (run, room(run))) {
            Some((run, room)) if room > 0 => (run, room),
            _ => (self.new_run(Part::of(list)), RUN),
        };
        self.put(run, room - 1, id)
    }

    #[inline]
    pub fn push_tail(&mut self, list: ListHead, id: FolioId) -> Place {
        let last = self.ends[list.0 as usize].prev;
        let room = |run: u32| self.occupied[run as usize].leading_zeros() as usize;
        let (run, room) = match last.run().map(|run| (run, room(run))) {
            Some((run, room)) if room > 0 => (run, room),
            _ => (self.new_run(last), RUN),
        };
        self.put(run, RUN - room, id)
    }

    /// Inserts folios behind that at `place`, on the side of the tail. `moved` is called with the places of
    /// these and of all others that had to move.
    pub fn insert_behind(&mut self, place: Place, ids: &[FolioId], mut moved: impl FnMut(FolioId, Place)) {
        let mut run = place.run();
        let occupied = &mut self.occupied[run as usize];
        let behind = *occupied & (u64::MAX << place.offset() << 1);
        *occupied &= !behind;
        let old = self.runs[run as usize];
        let others = set_bits(behind).map(|offset| old[offset]);
        for (i, id) in ids.iter().copied().chain(others).enumerate() {
            if i % RUN == 0 {
                run = self.new_run(Part(run));
            }
            moved(id, self.put(run, i % RUN, id));
        }
        self.merge_if_sparse(run, moved);
    }

    /// Removes the folio at `place` from its list. `moved` is called for others that got a new place.
    #[inline(always)]
    pub fn remove(&mut self, place: Place, moved: impl FnMut(FolioId, Place)) {
        let run = place.run();
        let occupied = &mut self.occupied[run as usize];
        *occupied &= !(1 << place.offset());
        let left = *occupied;
        if left == 0 {
            self.free_run(run);
        // The run at the tail is mostly being emptied, so merging it would be wasted.
        } else if self.links[run as usize].next.run().is_some() && left.count_ones() < SPARSE {
            self.merge_if_sparse(run, moved);
        }
    }

    /// Merges this run with a neighbour if the two hold few folios.
    #[inline(never)]
    fn merge_if_sparse(&mut self, run: u32, mut moved: impl FnMut(FolioId, Place)) {
        let Links { next, prev } = self.links[run as usize];
        let folios = |run: u32| self.occupied[run as usize].count_ones();
        let beside = [prev.run().map(|prev| (prev, run)), next.run().map(|next| (run, next))];
        let sparse = |&(first, second): &(u32, u32)| folios(first) + folios(second) <= SPARSE;
        let Some((first, second)) = beside.into_iter().flatten().find(sparse) else { return };
        let [here, there] = [first, second].map(|run| (self.occupied[run as usize], self.runs[run as usize]));
        self.occupied[first as usize] = 0;
        self.occupied[second as usize] = 0;
        self.free_run(second);
        let folios = set_bits(here.0)
            .map(|offset| here.1[offset])
            .chain(set_bits(there.0).map(|offset| there.1[offset]));
        // They go to the middle, as the list may grow at either end.
        for (id, offset) in folios.zip(RUN / 4..) {
            moved(id, self.put(first, offset, id));
        }
    }

    #[inline]
    pub fn tail(&self, list: ListHead) -> Option<FolioId> {
        let place = self.tail_place(list)?;
        Some(self.runs[place.run() as usize][place.offset()])
    }

    #[inline]
    fn tail_place(&self, list: ListHead) -> Option<Place> {
        let last = self.ends[list.0 as usize].prev.run()?;
        Some(Place::new(last, self.occupied[last as usize].ilog2() as usize))
    }

    /// The folio `steps` places from the tail, `steps` being at most a run, or `None` if that place is empty.
    #[inline(always)]
    pub fn near_tail(&self, list: ListHead, steps: usize) -> Option<FolioId> {
        let tail = self.tail_place(list)?;
        let (run, offset) = match tail.offset().checked_sub(steps) {
            Some(offset) => (tail.run(), offset),
            None => (self.links[tail.run() as usize].prev.run()?, tail.offset() + RUN - steps),
        };
        (self.occupied[run as usize] & 1 << offset != 0).then(|| self.runs[run as usize][offset])
    }

    #[inline]
    pub fn is_empty(&self, list: ListHead) -> bool {
        self.ends[list.0 as usize].next.run().is_none()
    }

    pub fn iter(&self, list: ListHead) -> impl Iterator<Item = FolioId> + use<'_> {
        let first = self.ends[list.0 as usize].next.run();
        let runs = successors(first, |&run| self.links[run as usize].next.run());
        runs.flat_map(move |run| {
            set_bits(self.occupied[run as usize]).map(move |offset| self.runs[run as usize][offset])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const LISTS: usize = 3;

    /// Lists under test with the places of their folios, and the same lists as `VecDeque`s, which are
    /// obviously right.
    #[derive(Default)]
    struct Both {
        lists: Lists,
        heads: Vec<ListHead>,
        places: Vec<Place>,
        model: Vec<VecDeque<FolioId>>,
    }

    #[derive(Clone, Debug)]
    enum Step {
        PushHead(usize, usize),
        PushTail(usize, usize),
        InsertBehind(usize, usize),
        Remove(usize),
        RemoveTails(usize, usize),
    }

    impl Both {
        fn new() -> Both {
            let mut both = Both { model: vec![VecDeque::new(); LISTS], ..Both::default() };
            both.heads = (0..LISTS).map(|_| both.lists.new_list()).collect();
            both
        }

        fn new_folio(&mut self) -> FolioId {
            self.places.push(Place::NOWHERE);
            FolioId(self.places.len() as u32 - 1)
        }

        /// Chooses one of the folios on lists by a random number: its list and its position there.
        fn any(&self, number: usize) -> Option<(usize, usize)> {
            let folios = self.model.iter().map(VecDeque::len).sum::<usize>();
            let mut number = number.checked_rem(folios)?;
            for (list, model) in self.model.iter().enumerate() {
                if number < model.len() {
                    return Some((list, number));
                }
                number -= model.len();
            }
            None
        }

        fn remove(&mut self, list: usize, position: usize) {
            let id = self.model[list].remove(position).unwrap();
            let place = std::mem::replace(&mut self.places[id.index()], Place::NOWHERE);
            self.lists.remove(place, |id, place| self.places[id.index()] = place);
        }

        fn make(&mut self, step: &Step) {
            match *step {
                Step::PushHead(list, folios) => {
                    for _ in 0..folios {
                        let id = self.new_folio();
                        self.places[id.index()] = self.lists.push_head(self.heads[list], id);
                        self.model[list].push_front(id);
                    }
                }
                Step::PushTail(list, folios) => {
                    for _ in 0..folios {
                        let id = self.new_folio();
                        self.places[id.index()] = self.lists.push_tail(self.heads[list], id);
                        self.model[list].push_back(id);
                    }
                }
                Step::InsertBehind(number, folios) => {
                    let Some((list, position)) = self.any(number) else { return };
                    let before = self.places[self.model[list][position].index()];
                    let ids: Vec<FolioId> = (0..folios).map(|_| self.new_folio()).collect();
                    self.lists.insert_behind(before, &ids, |id, place| self.places[id.index()] = place);
                    let behind = self.model[list].split_off(position + 1);
                    self.model[list].extend(ids.into_iter().chain(behind));
                }
                Step::Remove(number) => {
                    let Some((list, position)) = self.any(number) else { return };
                    self.remove(list, position);
                }
                Step::RemoveTails(list, folios) => {
                    for _ in 0..folios.min(self.model[list].len()) {
                        assert_eq!(self.lists.tail(self.heads[list]), self.model[list].back().copied());
                        self.remove(list, self.model[list].len() - 1);
                    }
                }
            }
        }

        fn check(&self) {
            let mut folios = 0;
            for (&head, model) in self.heads.iter().zip(&self.model) {
                assert!(self.lists.iter(head).eq(model.iter().copied()), "order of a list");
                assert_eq!(self.lists.is_empty(head), model.is_empty());
                assert_eq!(self.lists.tail(head), model.back().copied());
                for &id in model {
                    let place = self.places[id.index()];
                    assert_eq!(self.lists.runs[place.run() as usize][place.offset()], id, "its place");
                }
                let near: Vec<FolioId> =
                    (0..=RUN).filter_map(|steps| self.lists.near_tail(head, steps)).collect();
                assert!(near.iter().eq(model.iter().rev().take(near.len())), "what is near the tail");
                folios += model.len();
            }
            let runs = self.lists.runs.len() - self.lists.free.len();
            assert!(runs <= 2 * folios / SPARSE as usize + 3 * LISTS, "{runs} runs for {folios} folios");
        }
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let folios = 1..100usize;
        let step = prop_oneof![
            2 => (0..LISTS, folios.clone()).prop_map(|(list, folios)| Step::PushHead(list, folios)),
            1 => (0..LISTS, folios.clone()).prop_map(|(list, folios)| Step::PushTail(list, folios)),
            5 => (any::<usize>(), folios.clone()).prop_map(|(number, folios)| Step::InsertBehind(number, folios)),
            5 => any::<usize>().prop_map(|number| Step::InsertBehind(number, 1)),
            100 => any::<usize>().prop_map(Step::Remove),
            1 => (0..LISTS, folios).prop_map(|(list, folios)| Step::RemoveTails(list, folios)),
        ];
        prop::collection::vec(step, 0..1500)
    }

    proptest! {
        #[test]
        fn lists_are_as_a_slow_model_has_them(steps in steps()) {
            let mut both = Both::new();
            for step in &steps {
                both.make(step);
            }
            both.check();
        }
    }
}
