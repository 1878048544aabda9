//! Tests of rulers against slow transcriptions of their papers, against each other, and against libCacheSim's
//! counts.

mod hashed;
mod models;
mod peers;

use super::*;
use mm::series::RELEASES;
use models::Model;
use proptest::prelude::*;
use workload::access::Access;

/// A ruler's name, the ruler, and its model.
type Pair = (&'static str, Box<dyn Ruler>, Box<dyn Model>);

/// Whether a policy is one of the twin's kernels. Kernels evict in batches, and if memory is too small for
/// that, they do not cache what they read.
fn is_kernel(policy: &Policy) -> bool {
    matches!(policy.replay, Replay::Kernel(_))
}

/// Which accesses hit.
fn hits(ruler: &mut dyn Ruler, pages: &[u32]) -> Vec<bool> {
    pages.iter().map(|&page| ruler.access(page)).collect()
}

fn misses(name: &str, capacity: usize, pages: &[u32]) -> u64 {
    Policy::named(name).unwrap().misses(capacity, &pages.to_vec().into())
}

/// Sequences in which old pages return, so that the history of evicted pages matters.
fn sequences() -> impl Strategy<Value = Vec<u32>> {
    let uniform = prop::collection::vec(0..40u32, 1..600);
    let skewed = prop::collection::vec((0..60u32, 0..60u32).prop_map(|(a, b)| a * b / 60), 1..600);
    let loops = (1..40u32, 1..40u32, 1..8usize).prop_map(|(first, second, rounds)| {
        (0..rounds).flat_map(|_| (0..first).chain(0..second).chain(100..100 + second / 2)).collect()
    });
    let mixed =
        (skewed.clone().boxed(), prop::collection::vec(200..400u32, 0..200)).prop_map(|(mut a, b)| {
            let middle = a.len() / 2;
            let end = a.split_off(middle);
            a.extend(b);
            a.extend(end);
            a
        });
    prop_oneof![uniform, skewed, loops, mixed]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rulers_decide_as_their_papers_do(pages in sequences(), capacity in prop_oneof![1..12usize, 12..45usize, 100..220usize]) {
        let next = NextUses::of(&pages);
        let pairs: [Pair; 7] = [
            ("belady", Box::new(Belady::new(capacity, next)), Box::new(models::Belady::new(capacity, &pages))),
            ("lru", Box::new(Lru::new(capacity)), Box::new(models::Lru::new(capacity))),
            ("clock", Box::new(Clock::new(capacity)), Box::new(models::Clock::new(capacity))),
            ("arc", Box::new(Arc::new(capacity)), Box::new(models::Arc::new(capacity))),
            ("lirs", Box::new(Lirs::new(capacity)), Box::new(models::Lirs::new(capacity))),
            ("s3-fifo", Box::new(S3Fifo::new(capacity)), Box::new(models::S3Fifo::new(capacity))),
            ("w-tiny-lfu", Box::new(WTinyLfu::new(capacity)), Box::new(models::WTinyLfu::new(capacity))),
        ];
        for (name, mut ruler, mut model) in pairs {
            let expected: Vec<bool> = pages.iter().map(|&page| {
                let hit = model.access(page);
                assert!(model.resident() <= capacity, "{name} holds too much");
                hit
            }).collect();
            prop_assert_eq!(hits(&mut *ruler, &pages), expected, "{}", name);
        }
    }

    #[test]
    fn nothing_is_better_than_the_optimum(pages in sequences(), capacity in 1..60usize) {
        let best = misses("belady", capacity, &pages);
        for policy in Policy::ALL.iter().filter(|policy| !is_kernel(policy)) {
            let own = policy.misses(capacity, &pages.clone().into());
            prop_assert!(own >= best, "{}: {own} misses, belady {best}", policy.name);
        }
    }

    /// With one more page of memory, LRU and the optimum keep the same pages and one more.
    #[test]
    fn more_memory_never_hurts_lru_and_belady(pages in sequences(), capacity in 1..60usize) {
        let next = NextUses::of(&pages);
        let small = hits(&mut Lru::new(capacity), &pages);
        let large = hits(&mut Lru::new(capacity + 1), &pages);
        prop_assert!(small.iter().zip(&large).all(|(&small, &large)| large || !small));
        let count = |capacity| hits(&mut Belady::new(capacity, next.clone()), &pages).iter().filter(|&&hit| hit).count();
        prop_assert!(count(capacity + 1) >= count(capacity));
    }

    /// A page hits in LRU if and only if fewer other pages than fit in memory were used since.
    #[test]
    fn lru_hits_by_stack_distance(pages in sequences(), capacity in 1..60usize) {
        let found = hits(&mut Lru::new(capacity), &pages);
        for (time, page) in pages.iter().enumerate() {
            let before = &pages[..time];
            let expected = before.iter().rposition(|p| p == page).is_some_and(|last| {
                let between: std::collections::BTreeSet<_> = before[last + 1..].iter().collect();
                between.len() < capacity
            });
            prop_assert_eq!(found[time], expected);
        }
    }

    #[test]
    fn samples_are_parts_of_the_whole(pages in sequences(), rate in 0.01..0.5f64) {
        let sequence = Sequence::from(pages);
        let parts = sequence.samples(rate, 8);
        prop_assert!(parts.iter().map(Sequence::distinct).sum::<usize>() <= sequence.distinct());
        for part in &parts {
            let largest = part.pages().iter().max().map_or(0, |&page| page as usize + 1);
            prop_assert_eq!(largest, part.distinct());
        }
    }
}

/// Places and writes stay with their pages, in samples too.
#[test]
fn pages_keep_their_places_and_accesses_their_writes() {
    let access = |time: u64| Access {
        time_ns: time,
        object: 7 + time % 3,
        index: time * time % 50,
        pages: 1 + (time % 4) as u32,
        write: time.is_multiple_of(5),
    };
    let accesses: Vec<Access> = (0..2000).map(access).collect();
    let expected: Vec<(Place, bool)> = accesses
        .iter()
        .flat_map(|access| {
            let place = |page| Place { object: access.object, index: access.index + u64::from(page) };
            (0..access.pages).map(move |page| (place(page), access.write))
        })
        .collect();
    let seen = |sequence: &Sequence| -> Vec<(Place, bool)> {
        let accesses = sequence.pages().iter().enumerate();
        accesses.map(|(time, &page)| (sequence.place(page), sequence.writes(time))).collect()
    };
    let sequence = Sequence::read(accesses.into_iter().map(Ok)).unwrap();
    assert_eq!(seen(&sequence), expected);
    for part in sequence.samples(0.2, 5) {
        let own: Vec<Place> = (0..part.distinct() as u32).map(|page| part.place(page)).collect();
        let of_part: Vec<_> = expected.iter().copied().filter(|(place, _)| own.contains(place)).collect();
        assert!(!own.is_empty());
        assert_eq!(seen(&part), of_part);
    }
}

/// The textbook example of Belady's optimum: three frames, 20 references, 9 faults; LRU has 12.
#[test]
fn the_textbook_example() {
    let pages = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1];
    assert_eq!(misses("belady", 3, &pages), 9);
    assert_eq!(misses("lru", 3, &pages), 12);
}

/// A loop one page longer than memory: LRU and CLOCK never hit, the optimum keeps all but one page, LIRS
/// nearly so.
#[test]
fn a_loop_that_does_not_fit() {
    let pages: Vec<u32> = (0..20).flat_map(|_| 0..101).collect();
    assert_eq!(misses("lru", 100, &pages), 2020);
    assert_eq!(misses("clock", 100, &pages), 2020);
    // Each round of 101 accesses costs the optimum one miss and a hundredth.
    assert_eq!(misses("belady", 100, &pages), 101 + 19);
    // 99 LIR pages stay; the other two pages take turns in the one place for HIR pages.
    assert_eq!(misses("lirs", 100, &pages), 101 + 19 * 2);
}

/// A scan leaves the frequently used pages of ARC in memory, but evicts those of LRU.
#[test]
fn a_scan_beside_a_hot_set() {
    let hot = || 0..50u32;
    let pages: Vec<u32> = hot().chain(hot()).chain(1000..1200).chain(hot()).collect();
    assert_eq!(misses("arc", 100, &pages), 50 + 200);
    assert_eq!(misses("lru", 100, &pages), 50 + 200 + 50);
}

/// A sequence with many hits, which compacts the log many times.
#[test]
fn the_log_of_lru_is_compacted() {
    let pages: Vec<u32> = (0..100_000u64).map(|i| (i * i % 97) as u32).collect();
    let mut model = models::Lru::new(30);
    let expected: Vec<bool> = pages.iter().map(|&page| model.access(page)).collect();
    assert_eq!(hits(&mut Lru::new(30), &pages), expected);
}

#[test]
fn curves_are_in_order_and_repeatable() {
    let sequence = Sequence::from(peers::sequence());
    let policies = Policy::ALL;
    let sizes = [100, 1000, 4000];
    let points = curves(&sequence, policies, &sizes);
    let order: Vec<_> = points.iter().map(|point| (point.policy, point.size_pages)).collect();
    let expected: Vec<_> = policies.iter().flat_map(|p| sizes.map(|size| (p.name, size))).collect();
    assert_eq!(order, expected);
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(one_thread.install(|| curves(&sequence, policies, &sizes)), points);
}

/// With memory for several batches, the optimum is better than every kernel too, and every kernel better than
/// no cache.
#[test]
fn kernels_are_no_better_than_the_optimum() {
    let pages = peers::sequence();
    for capacity in [1000, 4000] {
        let best = misses("belady", capacity, &pages);
        for policy in Policy::ALL.iter().filter(|policy| is_kernel(policy)) {
            let own = policy.misses(capacity, &pages.clone().into());
            assert!(own >= best && own < pages.len() as u64, "{}: {own} misses, belady {best}", policy.name);
        }
    }
}

/// The exact ratio is within or close to the error bar for every ruler. Kernels' batches do not scale with
/// memory, so small samples of them say little.
#[test]
fn sampled_curves_are_near_exact_ones() {
    let sequence = Sequence::from(peers::sequence());
    let policies: Vec<Policy> = Policy::ALL.iter().copied().filter(|policy| !is_kernel(policy)).collect();
    let sizes = [500, 2000];
    let exact = curves(&sequence, &policies, &sizes);
    let sampled = sampled_curves(&sequence, &policies, &sizes, 0.1).unwrap();
    for (exact, sampled) in exact.iter().zip(&sampled) {
        let error = (exact.miss_ratio - sampled.miss_ratio).abs();
        assert!(error < 0.05, "{exact:?} {sampled:?}");
        assert!(sampled.miss_ratio_low.unwrap() < sampled.miss_ratio_high.unwrap());
    }
}

#[test]
fn default_sizes_span_the_trace() {
    assert_eq!(default_sizes(256, 9, None), [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    assert_eq!(default_sizes(3, 16, None), [1, 2, 3]);
    assert_eq!(default_sizes(1000, 1, None), [1000]);
    assert_eq!(default_sizes(100_000, 2, Some(0.01)), [800, 100_000]);
}

#[test]
fn rates_and_sizes_that_make_no_sample() {
    let sequence = Sequence::from(vec![1, 2, 3]);
    for rate in [0.0, -1.0, 0.6, f64::NAN] {
        assert!(matches!(sampled_curves(&sequence, &[], &[10], rate), Err(CurveError::Rate(_))));
    }
    let error = sampled_curves(&sequence, &[], &[10], 0.01).unwrap_err().to_string();
    assert!(error.contains("at least 100") && error.contains("at least 0.1"), "{error}");
}

#[test]
fn every_kernel_of_the_series_and_every_release_is_a_policy() {
    let sequence: Sequence = (0..3000u32).map(|access| access * access % 701).collect::<Vec<u32>>().into();
    let misses =
        |name: &str| Policy::named(name).unwrap_or_else(|error| panic!("{error}")).misses(400, &sequence);
    for variant in Series::RECLAIM.variants() {
        assert!(misses(variant.name) >= misses("belady"), "{}", variant.name);
    }
    for (release, variant) in RELEASES {
        let choice = KernelChoice::parse("pcp", variant).unwrap();
        assert_eq!(misses(release), Kernel::new(&choice, 400).misses(&sequence));
    }
    assert!(Policy::named("6.99").is_err() && Policy::named("6.18:mglru.tires=off").is_err());
}

/// A hot set beside a stream: what protects it is what counts.
#[test]
fn a_kernel_without_tiers_is_another_policy() {
    let of_hot_set = |access: u32| (access.wrapping_mul(2_654_435_761) >> 8) % 3000;
    let page = |access: u32| if access.is_multiple_of(2) { of_hot_set(access) } else { 3000 + access };
    let sequence: Sequence = (0..100_000).map(page).collect::<Vec<u32>>().into();
    let misses = |name: &str| Policy::named(name).unwrap().misses(4000, &sequence);
    let with = misses("6.18");
    assert_eq!(misses("6.18:mglru.tiers=on"), with);
    assert!(misses("6.18:mglru.tiers=off") > with + with / 20, "{} {with}", misses("6.18:mglru.tiers=off"));
}

#[test]
fn a_few_records_do_not_make_a_long_sequence() {
    let access = |pages| Ok(Access { time_ns: 0, object: 1, index: 0, pages, write: false });
    let large = Sequence::read((0..4).map(|_| access(1 << 20))).unwrap();
    assert_eq!((large.pages().len(), large.distinct()), (1 << 22, 1 << 20));
    let refused = Sequence::read((0..40).map(|_| access(1 << 20))).err().unwrap().to_string();
    assert!(refused.contains("the first 5 accesses of the trace touch 5242880 pages"), "{refused}");
    assert!(Sequence::read(std::iter::once(access(u32::MAX))).is_err());
}
