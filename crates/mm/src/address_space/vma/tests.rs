//! Tests of VMAs: splits, merges, and whose NUMA scan state survives.

use super::*;

const READ_ONLY: VmFlags = VmFlags::READ;

fn vma(pages: Range<Vpn>, flags: VmFlags) -> Vma {
    Vma {
        start: pages.start,
        end: pages.end,
        backing: Backing::Anonymous,
        flags,
        has_anon: false,
        policy: None,
        swap_ra: SwapRa::default(),
    }
}

/// VMAs with a scan state each, recognisable by its `next_scan`, the VMA's first page.
fn areas(all: &[(Range<Vpn>, VmFlags)]) -> Vmas {
    let mut vmas = Vmas::default();
    for (pages, flags) in all {
        vmas.insert(vma(pages.clone(), *flags));
        let id = vmas.find_id(pages.start).unwrap();
        let record = NumabState {
            next_scan: pages.start,
            pids: [0; 2],
            reset_at: 0,
            prev_scan_seq: 0,
            start_scan_seq: 0,
        };
        *vmas.numab_mut(id) = Some(record);
    }
    vmas
}

/// All VMAs, each with the first page of the VMA that its scan state was made for.
fn records(vmas: &mut Vmas) -> Vec<(Range<Vpn>, Option<u64>)> {
    let all: Vec<Range<Vpn>> = vmas.iter().map(Vma::pages).collect();
    let record = |pages: Range<Vpn>| {
        let id = vmas.find_id(pages.start).unwrap();
        (pages, vmas.numab_mut(id).map(|record| record.next_scan))
    };
    all.into_iter().map(record).collect()
}

#[test]
fn what_is_mapped_beside_an_area_becomes_a_part_of_it() {
    let both = [(10..20, VmFlags::PRIVATE), (30..40, VmFlags::PRIVATE)];
    for (mapped, expected) in [
        (20..25, vec![(10..25, Some(10)), (30..40, Some(30))]),
        (25..30, vec![(10..20, Some(10)), (25..40, Some(30))]),
        // The first VMA absorbs both.
        (20..30, vec![(10..40, Some(10))]),
        (22..28, vec![(10..20, Some(10)), (22..28, None), (30..40, Some(30))]),
    ] {
        let mut vmas = areas(&both);
        vmas.insert(vma(mapped, VmFlags::PRIVATE));
        assert_eq!(records(&mut vmas), expected);
    }
    // The scan state of a removed VMA does not pass to the next VMA with its number.
    let mut vmas = areas(&both);
    let first = vmas.first_in(&(10..20)).unwrap();
    vmas.remove(first, &(10..20), Stays::Above, |_| {});
    vmas.insert(vma(25..30, VmFlags::PRIVATE));
    assert_eq!(records(&mut vmas), [(25..40, Some(30))]);
}

#[test]
fn what_becomes_equal_to_a_neighbour_becomes_a_part_of_it() {
    let three = [(10..20, VmFlags::PRIVATE), (20..30, READ_ONLY), (30..40, VmFlags::PRIVATE)];
    for (changed, flags, expected) in [
        (20..30, VmFlags::PRIVATE, vec![(10..40, Some(10))]),
        (10..20, READ_ONLY, vec![(10..30, Some(20)), (30..40, Some(30))]),
        (15..20, READ_ONLY, vec![(10..15, Some(10)), (15..30, Some(20)), (30..40, Some(30))]),
        (30..40, READ_ONLY, vec![(10..20, Some(10)), (20..40, Some(20))]),
        // The first VMA has been merged into the second when the third is changed.
        (10..40, READ_ONLY, vec![(10..40, Some(20))]),
        (10..40, VmFlags::PRIVATE, vec![(10..40, Some(10))]),
    ] {
        let mut vmas = areas(&three);
        vmas.change(changed.clone(), |vma| vma.flags = flags);
        assert_eq!(records(&mut vmas), expected, "{changed:?}");
    }
}

#[test]
fn a_call_for_no_pages_changes_nothing() {
    let mut vmas = areas(&[(10..20, VmFlags::PRIVATE)]);
    for page in [5, 10, 15, 20, 25] {
        vmas.change(page..page, |vma| vma.flags = READ_ONLY);
        assert!(vmas.first_in(&(page..page)).is_none());
    }
    assert_eq!(records(&mut vmas), [(10..20, Some(10))]);
}
