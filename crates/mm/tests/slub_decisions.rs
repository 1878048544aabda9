//! Slab caches against those of a kernel 6.18.44 on two CPUs: how each is laid out, and when each of ten took a slab from the page allocator
//! and gave one back while processes came and went in bursts (data/recordings/README.md).

use machine::{Cpu, Node};
use mm::slub::OF_PROCESS;
use mm::slub::cache::{KmemCache, Layout, SlabId};
use mm::slub::policy::{SLAB_MAX_ORDER, min_objects, slab_order};
use proptest::prelude::*;
use std::fs::File;
use std::path::{Path, PathBuf};

const PAGE: u64 = 4096;

fn recorded(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/recordings/slub-6.18.44").join(file)
}

fn layout(size: u32, cpus: u32) -> Layout {
    Layout::new(size, min_objects(cpus), SLAB_MAX_ORDER, PAGE)
}

#[test]
fn caches_are_laid_out_as_the_kernel_does() {
    let text = std::fs::read_to_string(recorded("caches.csv")).unwrap();
    let mut caches = 0;
    for line in text.lines().skip(1) {
        let [name, figures @ ..] = &line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let figures: Vec<u32> = figures.iter().map(|figure| figure.parse().unwrap()).collect();
        let [size, objects, order, cpu_partial, min_partial] = figures[..] else { panic!("{line}") };
        let ours = layout(size, 2);
        assert_eq!((u32::from(ours.order), ours.objects(ours.order)), (order, objects), "{name}");
        let kept = (ours.cpu_partial_slabs() as u32, ours.min_partial() as u32);
        assert_eq!(kept, ((2 * cpu_partial).div_ceil(objects), min_partial), "{name}");
        caches += 1;
    }
    assert_eq!(caches, 429);
}

/// A recorded cache, and the twin's.
struct Recorded {
    name: String,
    /// Slabs that the kernel took and gave back.
    of_kernel: (u64, u64),
    cache: KmemCache,
    /// Slabs that were there before.
    before: Vec<SlabId>,
    /// The slab of each object, in the order in which they were allocated.
    objects: Vec<SlabId>,
    taken: u64,
    given_back: u64,
}

impl Recorded {
    /// From `cache NAME SIZE TAKEN GIVEN_BACK FREE,FREE,...`: free objects of each slab that was there before.
    fn parse(line: &str) -> Recorded {
        let [_, name, size, taken, given_back, free] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let number = |text: &str| -> u64 { text.parse().unwrap() };
        let mut cache = KmemCache::new(layout(number(size) as u32, 2), 2, 1);
        let before = free.split(',').map(|free| cache.add_partial(Node(0), number(free) as u32)).collect();
        Recorded {
            name: name.into(),
            of_kernel: (number(taken), number(given_back)),
            cache,
            before,
            objects: Vec::new(),
            taken: 0,
            given_back: 0,
        }
    }

    fn alloc(&mut self, cpu: Cpu) {
        let slab = self.cache.alloc(cpu, || vec![Node(0)]).unwrap_or_else(|| {
            self.taken += 1;
            let order = self.cache.layout().order;
            self.cache.alloc_from_new(cpu, (0, order, Node(0))).0
        });
        self.objects.push(slab);
    }

    fn free(&mut self, cpu: Cpu, slab: SlabId) {
        self.given_back += self.cache.free(cpu, slab).len() as u64;
    }
}

/// The twin sees the same objects come and go on the same CPUs, and chooses slabs itself.
#[test]
fn slabs_are_taken_and_given_back_as_by_the_kernel() {
    let file = File::open(recorded("bursts.events.zst")).unwrap();
    let text = std::io::read_to_string(zstd::Decoder::new(file).unwrap()).unwrap();
    let mut caches: Vec<Recorded> = Vec::new();
    for line in text.lines() {
        if line.starts_with("cache ") {
            caches.push(Recorded::parse(line));
            continue;
        }
        let mut words = line[1..].split(' ').map(|word| word.parse::<usize>().unwrap());
        let cache = &mut caches[words.next().unwrap()];
        let cpu = Cpu(words.next().unwrap() as u16);
        match (&line[..1], words.next()) {
            ("a", None) => cache.alloc(cpu),
            ("f", Some(object)) => cache.free(cpu, cache.objects[object]),
            ("o", Some(slab)) => cache.free(cpu, cache.before[slab]),
            _ => panic!("{line}"),
        }
    }
    assert_eq!(caches.len(), 10);
    for Recorded { name, of_kernel, cache, taken, given_back, .. } in &caches {
        cache.validate();
        // In which order slabs of as many free objects were on the list at the start is not recorded.
        let is_near = |ours: u64, kernel: u64| ours.abs_diff(kernel) <= 4.max(kernel / 100);
        assert!(is_near(*taken, of_kernel.0), "{name}: {taken} slabs taken, by the kernel {}", of_kernel.0);
        assert!(
            is_near(*given_back, of_kernel.1),
            "{name}: {given_back} given back, by the kernel {}",
            of_kernel.1
        );
    }
    let exact = |recorded: &&Recorded| (recorded.taken, recorded.given_back) == recorded.of_kernel;
    assert_eq!(caches.iter().filter(exact).count(), 6, "most to the last slab");
}

/// The order as `calculate_order` found it before 6.8: with one object less again and again, until an order wastes at most a quarter.
fn order_before_6_8(size: u32, min_objects: u32) -> u8 {
    let size = u64::from(size);
    let most = (PAGE << SLAB_MAX_ORDER) / size;
    for objects in (2..=most.min(min_objects.into())).rev() {
        for fraction in [16, 8, 4] {
            let fits = |order: &u8| {
                let block = PAGE << order;
                block >= objects * size && block % size <= block / fraction
            };
            if let Some(order) = (0..=SLAB_MAX_ORDER).find(fits) {
                return order;
            }
        }
    }
    (0..).find(|order| PAGE << order >= size).unwrap()
}

#[test]
fn slabs_of_processes_are_as_large_before_6_8() {
    for kind in OF_PROCESS {
        for cpus in 1..=512 {
            let objects = min_objects(cpus);
            let now = slab_order(kind.size, objects, SLAB_MAX_ORDER, PAGE);
            assert_eq!(order_before_6_8(kind.size, objects), now, "{} on {cpus} CPUs", kind.name);
        }
    }
}

proptest! {
    /// Whatever comes and goes: all is where it should be, and once all objects are free, no more slabs are left than CPUs and nodes keep.
    #[test]
    fn no_slab_is_lost(
        size in 8_u32..40_000,
        steps in prop::collection::vec((0_u16..4, any::<bool>(), any::<prop::sample::Index>()), 1..2000),
    ) {
        let mut cache = KmemCache::new(layout(size, 4), 4, 2);
        let order = cache.layout().order;
        let node = |cpu: Cpu| Node(cpu.0 as u8 / 2);
        let mut objects: Vec<SlabId> = Vec::new();
        for (cpu, frees, which) in steps {
            let cpu = Cpu(cpu);
            if frees && !objects.is_empty() {
                let object = objects.swap_remove(which.index(objects.len()));
                cache.free(cpu, object);
            } else {
                let nodes = || vec![node(cpu), Node(1 - node(cpu).0)];
                let slab = cache.alloc(cpu, nodes);
                objects.push(slab.unwrap_or_else(|| cache.alloc_from_new(cpu, (0, order, node(cpu))).0));
            }
            cache.validate();
            let room = u64::from(cache.layout().objects(order)) * (cache.pages() >> order);
            prop_assert!(room >= objects.len() as u64);
        }
        for object in objects {
            cache.free(Cpu(0), object);
        }
        cache.validate();
        let kept = 4 * (1 + cache.layout().cpu_partial_slabs()) + 2 * cache.layout().min_partial();
        prop_assert!(cache.pages() >> order <= kept as u64);
    }
}
