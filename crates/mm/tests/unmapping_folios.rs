//! The cost of unmapping by the size of folios, compared with a table of measurements.

mod reclaim_machine;
mod swap_host;

use machine::Profile;
use mm::address_space::{Backing, VmFlags};
use swap_host::{CPU, Host};

/// Folio sizes in KiB, and milliseconds that munmap of 1 GiB in such folios took before and after "mm/memory:
/// optimize unmap/zap with PTE-mapped THP" (mail of 29 January 2024).
const TABLE: [(u64, f64, f64); 7] = [
    (16, 44.198, 35.469),
    (32, 34.216, 23.522),
    (64, 29.207, 18.434),
    (128, 26.579, 14.026),
    (256, 25.130, 11.756),
    (512, 24.292, 10.703),
    (1024, 23.812, 10.294),
];

/// Mean cost in nanoseconds of unmapping a page of folios of a size: in page tables and in zones.
fn unmap(variant: &str, sizes: &str) -> f64 {
    let mut host = Host::without_swap(variant, sizes, 512);
    let profile = Profile::parse(include_str!("../../../machines/i7-9700.toml")).unwrap();
    host.machine.costs = profile.costs();
    let (pages, process) = (4096, host.process);
    let start =
        host.mm.enter(&mut host.machine, CPU).mmap(process, pages, Backing::Anonymous, VmFlags::PRIVATE);
    for page in start..start + pages {
        host.mm.enter(&mut host.machine, CPU).touch(process, page, true).unwrap();
    }
    // What waits in a batch is not unmapping's to pay for.
    host.mm.enter(&mut host.machine, CPU).lru_add_drain_all();
    let before = host.machine.now(CPU);
    let unmapped = host.mm.enter(&mut host.machine, CPU).munmap(process, start..start + pages);
    assert_eq!(unmapped.pages(), pages);
    let spent = host.machine.now(CPU) - before + unmapped.cost(&host.machine.costs);
    1e9 * spent.seconds() / pages as f64
}

/// Two costs are calibrated from the table's last row, 2 MiB, which is not tested here. The other rows follow
/// from them.
#[test]
fn larger_folios_are_unmapped_for_what_was_measured() {
    const PAGES: f64 = 262_144.0;
    for (kib, before, since) in TABLE {
        let sizes = format!("{kib}K:always");
        for (variant, milliseconds) in [("folios-6.8", before), ("folios-6.12", since)] {
            let (twin, measured) = (unmap(variant, &sizes), 1e6 * milliseconds / PAGES);
            let error = twin / measured - 1.0;
            assert!(error.abs() < 0.15, "{variant}, {kib} KiB: {twin:.1} ns a page for {measured:.1}");
        }
    }
    assert!(
        (unmap("folios-6.8", "64K:never") - unmap("folios-6.12", "64K:never")).abs() < 1e-9,
        "single pages cost the same"
    );
}
