//! How much of the host's memory a page takes, measured at the allocator and so with the spare room of
//! growing vectors.
//!
//! The test measures what stays allocated after pages of one file have been read in a memory cgroup: for a
//! resident page without the page allocator's records, which are measured alone; for a shadow while memory
//! stays full.
//!
//! ```text
//!   page allocator   12 bytes a page of a pageblock that has been split
//!   resident page    folio 20, list 4.25, slot 4, a 64th of a node and of its place in the directory
//!   shadow           value 8, slot 4, the same 64ths
//!   mapped page      entry 8, a 512th of the record of its table and of that table's place in the directory
//! ```
//!
//! Vectors may have room for an eighth more than they hold.

#![allow(clippy::print_stdout)]

use machine::{Costs, Cpu, Machine, Topology};
use mm::address_space::{Backing, Pte, VmFlags};
use mm::allocator::request::{Placement, Request};
use mm::filemap::{Access, Read};
use mm::memcontrol::Memcg;
use mm::memory_map::memory_layout;
use mm::xarray::FileId;
use mm::{Category, MemoryManager, MigrateType, Series, Settings};
use rand_pcg::Pcg64Mcg;
use std::ops::Range;

/// Bytes of a table's record apart from its PTEs: owner and place, ring, bits.
const TABLE: f64 = 72.0;
const RESIDENT: u32 = 1 << 20;
const SHADOWS: u32 = 4 * RESIDENT;

fn boot(variant: &str) -> (Machine<Category>, MemoryManager) {
    let variant = Series::RECLAIM.variant(variant).unwrap();
    let topology = Topology::single();
    let memory = memory_layout(1, u64::from(RESIDENT) / 256 + 256);
    let noise = Pcg64Mcg::new(0);
    let mut settings = Settings::default();
    for (name, value) in variant.settings {
        settings.set(name, value).unwrap();
    }
    let mm = MemoryManager::new(&topology, &memory, variant.features, settings, noise);
    (Machine::new(topology, Costs::FREE), mm)
}

fn read(machine: &mut Machine<Category>, mm: &mut MemoryManager, memcg: Memcg, file: FileId, page: u32) {
    if let Ok(Read::Miss(id)) = mm.enter(machine, Cpu(0)).read_page(memcg, file, page, Access::New) {
        mm.parts.lrus.end_read(id);
    }
}

/// Bytes that stay allocated after `work`.
fn allocated(work: impl FnOnce()) -> f64 {
    allocation_counter::measure(work).bytes_current as f64
}

/// Bytes with the spare room of a vector.
fn grown(bytes: f64) -> f64 {
    bytes * 1.125
}

/// The limits are the same for the classic and the multi-gen LRU.
#[test]
fn bytes_of_pages_and_shadows() {
    ["classic", "mglru-6.7"].into_iter().for_each(bytes_of);
}

fn bytes_of(variant: &str) {
    let (mut machine, mut mm) = boot(variant);
    let request = Request::new(0, MigrateType::Movable, Placement::Local);
    let of_allocator = allocated(|| {
        for _ in 0..RESIDENT {
            mm.enter(&mut machine, Cpu(0)).alloc(&request).unwrap();
        }
    });

    let (mut machine, mut mm) = boot(variant);
    let memcg = mm.parts.lrus.create_memcg(Memcg::ROOT);
    mm.parts.lrus.memcg_mut(memcg).max = RESIDENT.into();
    let file = mm.parts.page_cache.open_file();
    let mut read_all = |pages: Range<u32>| {
        allocated(|| pages.for_each(|page| read(&mut machine, &mut mm, memcg, file, page)))
    };
    let resident = read_all(0..RESIDENT);
    let shadows = read_all(RESIDENT..RESIDENT + SHADOWS);

    let per = |bytes: f64, pages: u32| bytes / f64::from(pages);
    let allocator = per(of_allocator, RESIDENT);
    let (resident, shadow) = (per(resident - of_allocator, RESIDENT), per(shadows, SHADOWS));
    println!(
        "{variant}: page allocator {allocator:.2} bytes, resident page {resident:.2}, shadow {shadow:.2}"
    );
    assert!(allocator <= 16.0, "{variant}: {allocator} bytes for the allocator's records of a page");
    let node = (16.0 + 4.0) / 64.0;
    assert!(resident <= grown(28.25 + node), "{variant}: {resident} bytes a resident page");
    assert!(shadow <= grown(12.0 + node), "{variant}: {shadow} bytes a shadow");
}

/// Loads from memory that was never stored to map the zero page, so only page tables are allocated.
#[test]
fn bytes_of_page_tables() {
    let (mut machine, mut mm) = boot("mglru-6.7");
    mm.set("transparent_hugepage/enabled", "never").unwrap();
    let space = mm.parts.create_mm(Memcg::ROOT);
    // One table more than a power of two, which leaves most spare room in vectors.
    let pages = u64::from(RESIDENT) + 512;
    let start = mm
        .enter(&mut machine, Cpu(0))
        .mmap(space, pages + 512, Backing::Anonymous, VmFlags::PRIVATE)
        .next_multiple_of(512);
    let tables = allocated(|| {
        (start..start + pages).for_each(|page| {
            mm.enter(&mut machine, Cpu(0)).touch(space, page, false).unwrap();
        });
    });
    assert!((start..start + pages).all(|page| mm.parts.address_spaces.pte(space, page) == Pte::ZERO));
    let bytes = tables / pages as f64;
    println!("bytes: mapped page {bytes:.3}");
    // The tables of the directory have a page each, the last of which may be almost empty.
    let directory = 4.0 * (pages as f64 / 512.0 + 2.0 * 512.0) / pages as f64;
    assert!((8.0..=8.0 + 2.0 * TABLE / 512.0 + directory).contains(&bytes), "{bytes} bytes a mapped page");
}
