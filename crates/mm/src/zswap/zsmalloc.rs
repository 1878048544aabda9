//! zsmalloc: memory for objects smaller than a page, packed into groups of up to eight pages.
//!
//! ```text
//!   1500 bytes ─► class of 1536    │ object │ object │ obj┆ect │ ...     a zspage of 3 pages holds 8 objects
//!                                  page 0            page 1
//!
//!   zspages of a class by tenths of use:   99 % ■ ■   90 % ■   ...   an object goes into the fullest one that has room, of
//!                                                                    equals the one that came there last; an empty one is freed
//! ```
//!
//! Classes are 16 bytes apart; those whose zspages have as many pages and hold as many objects are one. Compacting the objects of a
//! class, which the kernel does under memory pressure, and the memory of its own records are not modelled. In the kernel:
//! mm/zsmalloc.c with `CONFIG_ZSMALLOC_CHAIN_SIZE=8`, the default of 6.12; 6.1 has four pages at most.

use crate::allocator::page::Pfn;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Pages of the largest zspage (`CONFIG_ZSMALLOC_CHAIN_SIZE`).
const CHAIN_SIZE: u64 = 8;
/// Bytes of the smallest class (`ZS_MIN_ALLOC_SIZE`).
const MIN_BYTES: u64 = 32;
/// Classes of a page: they are a 256th of it apart (`CLASS_BITS`).
const CLASSES_OF_PAGE: u64 = 256;
/// Bytes in front of each object that lead back to it (`ZS_HANDLE_SIZE`).
const HANDLE_BYTES: u64 = 8;

/// A group of pages that hold objects of one class. The objects in it are not told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZspageId(u32);

#[derive(Clone, Debug)]
struct Zspage {
    class: usize,
    inuse: u64,
    /// When it came to its tenth of use.
    arrived: u64,
    frames: Vec<Pfn>,
}

/// Of zspages with room: those in most use first, of equal ones the last that came there.
type WithRoom = BTreeSet<(Reverse<u64>, Reverse<u64>, u32)>;

#[derive(Clone, Debug)]
struct SizeClass {
    pages: u64,
    objects: u64,
    with_room: WithRoom,
}

impl SizeClass {
    /// The class of objects of so many bytes, handle included (`calculate_zspage_chain_size`).
    fn new(bytes: u64, page: u64) -> SizeClass {
        let waste = |pages: &u64| pages * page % bytes;
        let pages = if bytes.is_power_of_two() {
            1
        } else {
            (1..=CHAIN_SIZE).min_by_key(waste).expect("there are lengths")
        };
        SizeClass { pages, objects: pages * page / bytes, with_room: WithRoom::new() }
    }

    /// In which tenth of use a zspage is that holds so many objects (`get_fullness_group`).
    fn tenth(&self, inuse: u64) -> u64 {
        if inuse == 0 { 0 } else { 100 * inuse / self.objects / 10 + 1 }
    }
}

/// The pool of pages (`struct zs_pool`).
#[derive(Clone, Debug)]
pub(crate) struct Zsmalloc {
    page: u64,
    /// The class of each size, by 256ths of a page.
    class_of_size: Vec<usize>,
    classes: Vec<SizeClass>,
    zspages: Vec<Zspage>,
    /// Numbers of zspages that were freed.
    unused: Vec<u32>,
    /// How often a zspage came to another tenth of use.
    arrivals: u64,
    pages: u64,
}

impl Zsmalloc {
    /// An empty pool of pages of so many bytes.
    pub fn new(page: u64) -> Zsmalloc {
        let apart = page / CLASSES_OF_PAGE;
        let sizes = (page - MIN_BYTES).div_ceil(apart) + 1;
        let mut class_of_size = vec![0; sizes as usize];
        let mut classes: Vec<SizeClass> = Vec::new();
        // From the largest down: a size shares the class of the next larger one, if it packs alike.
        for size in (0..sizes).rev() {
            let class = SizeClass::new((MIN_BYTES + size * apart).min(page), page);
            let packs_alike =
                |other: &SizeClass| (other.pages, other.objects) == (class.pages, class.objects);
            if !classes.last().is_some_and(packs_alike) {
                classes.push(class);
            }
            class_of_size[size as usize] = classes.len() - 1;
        }
        let (zspages, unused) = (Vec::new(), Vec::new());
        Zsmalloc { page, class_of_size, classes, zspages, unused, arrivals: 0, pages: 0 }
    }

    /// Pages that it takes (`zs_get_total_pages`).
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The class of an object of 1 to a page's bytes.
    fn class_of(&self, bytes: u64) -> usize {
        let apart = self.page / CLASSES_OF_PAGE;
        let size = (bytes + HANDLE_BYTES).saturating_sub(MIN_BYTES).div_ceil(apart);
        self.class_of_size[(size as usize).min(self.class_of_size.len() - 1)]
    }

    /// How many pages an object of so many bytes needs that finds no room.
    pub fn pages_for(&self, bytes: u64) -> u64 {
        self.classes[self.class_of(bytes)].pages
    }

    /// Puts an object of so many bytes into a zspage that has room, if there is one (`find_get_zspage`).
    pub fn put(&mut self, bytes: u64) -> Option<ZspageId> {
        let class = self.class_of(bytes);
        let &(_, _, number) = self.classes[class].with_room.first()?;
        self.change_inuse(number, |inuse| inuse + 1);
        Some(ZspageId(number))
    }

    /// Puts it into a new zspage of `frames`, which are [`Self::pages_for`] it.
    pub fn put_into(&mut self, bytes: u64, frames: Vec<Pfn>) -> ZspageId {
        let class = self.class_of(bytes);
        self.pages += frames.len() as u64;
        let zspage = Zspage { class, inuse: 0, arrived: 0, frames };
        let number = self.unused.pop().unwrap_or(self.zspages.len() as u32);
        match self.zspages.get_mut(number as usize) {
            Some(place) => *place = zspage,
            None => self.zspages.push(zspage),
        }
        self.change_inuse(number, |_| 1);
        ZspageId(number)
    }

    /// Frees an object. Returns the pages of its zspage if that is empty now (`zs_free`).
    pub fn free(&mut self, ZspageId(number): ZspageId) -> Vec<Pfn> {
        self.change_inuse(number, |inuse| inuse - 1);
        let zspage = &mut self.zspages[number as usize];
        if zspage.inuse > 0 {
            return Vec::new();
        }
        let frames = std::mem::take(&mut zspage.frames);
        self.pages -= frames.len() as u64;
        self.unused.push(number);
        frames
    }

    /// Changes how many objects a zspage holds, and with it its place among those that have room (`fix_fullness_group`).
    fn change_inuse(&mut self, number: u32, change: impl Fn(u64) -> u64) {
        let zspage = &mut self.zspages[number as usize];
        let class = &mut self.classes[zspage.class];
        let (before, after) = (zspage.inuse, change(zspage.inuse));
        zspage.inuse = after;
        let has_room = |inuse: u64| (1..class.objects).contains(&inuse);
        let tenths = (class.tenth(before), class.tenth(after));
        if has_room(before) && has_room(after) && tenths.0 == tenths.1 {
            return;
        }
        class.with_room.remove(&(Reverse(tenths.0), Reverse(zspage.arrived), number));
        if has_room(after) {
            self.arrivals += 1;
            zspage.arrived = self.arrivals;
            class.with_room.insert((Reverse(tenths.1), Reverse(zspage.arrived), number));
        }
    }

    /// Panics unless its zspages hold `objects`.
    pub fn validate(&self, objects: u64) {
        assert_eq!(
            self.zspages.iter().map(|zspage| zspage.inuse).sum::<u64>(),
            objects,
            "objects of zsmalloc"
        );
        let frames: usize = self.zspages.iter().map(|zspage| zspage.frames.len()).sum();
        assert_eq!(frames as u64, self.pages, "pages of zsmalloc");
        for zspage in self.zspages.iter().filter(|zspage| zspage.inuse > 0) {
            let class = &self.classes[zspage.class];
            assert!(zspage.inuse <= class.objects && zspage.frames.len() as u64 == class.pages, "{zspage:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages for `count` objects of so many bytes, as a kernel would have them.
    fn pages(count: u64, bytes: u64) -> u64 {
        let mut pool = Zsmalloc::new(4096);
        for _ in 0..count {
            if pool.put(bytes).is_none() {
                let frames = (0..pool.pages_for(bytes)).map(|_| 0).collect();
                pool.put_into(bytes, frames);
            }
        }
        pool.validate(count);
        pool.pages()
    }

    /// 4000 pages that lzo compresses to so many bytes, and the `Zswap` of /proc/meminfo in KiB when the zswap of 6.18.44 on x86-64 had
    /// stored them in an empty pool: random bytes of 64 lengths, the rest zeroes. Lengths are those of lib/lzo of 6.12 for the same
    /// bytes; without the thirteen lengths that came up twice or not for all pages, which agree as well.
    #[test]
    fn the_pool_is_as_large_as_that_of_a_kernel() {
        let recorded = [
            (109, 500),
            (173, 756),
            (246, 1000),
            (308, 1260),
            (381, 1580),
            (437, 1764),
            (509, 2080),
            (573, 2336),
            (645, 2600),
            (701, 2832),
            (773, 3080),
            (846, 3416),
            (926, 3696),
            (982, 3904),
            (1036, 4160),
            (1101, 4416),
            (1173, 4676),
            (1245, 5000),
            (1324, 5336),
            (1365, 5568),
            (1454, 5824),
            (1493, 5908),
            (1588, 6400),
            (1637, 6608),
            (1742, 7000),
            (1789, 7120),
            (1845, 7280),
            (1901, 7552),
            (1965, 8000),
            (2021, 8000),
            (2213, 8736),
            (2285, 9152),
            (2429, 9600),
            (2501, 9856),
            (2580, 10192),
            (2661, 10672),
            (2741, 11200),
            (2828, 11200),
            (2917, 11648),
            (3005, 12000),
            (3101, 12460),
            (3198, 12800),
            (3293, 13340),
            (3397, 13340),
            (3501, 14000),
            (3613, 14240),
            (3726, 16000),
            (3836, 16000),
            (3957, 16000),
            (4077, 16000),
            (4096, 16000),
        ];
        for (bytes, kib) in recorded {
            assert_eq!(4 * pages(4000, bytes), kib, "{bytes} bytes");
        }
    }

    #[test]
    fn the_fullest_zspage_with_room_is_filled_first() {
        let mut pool = Zsmalloc::new(4096);
        // Eight of 500 bytes are in a page.
        let frames = |pool: &Zsmalloc| (0..pool.pages_for(500)).map(|_| 0).collect();
        let first = pool.put_into(500, frames(&pool));
        while pool.put(500) == Some(first) {}
        let second = pool.put_into(500, frames(&pool));
        assert_ne!(first, second);
        assert!(pool.free(first).is_empty());
        assert_eq!(pool.put(500), Some(first));
        assert_eq!(pool.put(500), Some(second));
        assert!(pool.free(second).is_empty());
        assert!(!pool.free(second).is_empty(), "an empty zspage is freed");
    }
}
