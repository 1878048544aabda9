//! How many objects a slab has, and how many slabs a CPU and a node keep, as pure functions of an object's size and the number of CPUs.
//!
//! ```text
//!   object size, CPUs ──► min_objects    the more CPUs, the more objects in a slab
//!                    └──► slab_order     the smallest block that has them and wastes little
//!                    └──► cpu_partial    objects that a CPU keeps in slabs with free objects
//!                    └──► min_partial    slabs that a node keeps though they are empty
//! ```
//!
//! In the kernel: `calculate_order`, `set_cpu_partial`, `do_kmem_cache_create` in mm/slub.c (read in 6.1.192 and 6.12.117). Before 6.8,
//! `calculate_order` asked for one object less again and again where no order wasted less than a quarter; for the objects of
//! [`super::OF_PROCESS`] both come to the same.

/// The largest order of a slab of small objects by default (`PAGE_ALLOC_COSTLY_ORDER`).
pub const SLAB_MAX_ORDER: u8 = crate::allocator::request::PAGE_ALLOC_COSTLY_ORDER;

/// Objects that a slab should have on a machine of so many CPUs.
pub fn min_objects(cpus: u32) -> u32 {
    4 * (u32::BITS - cpus.leading_zeros() + 1)
}

/// The smallest order of a block that holds so many bytes.
pub fn get_order(bytes: u64, page_bytes: u64) -> u8 {
    bytes.div_ceil(page_bytes).next_power_of_two().trailing_zeros() as u8
}

/// The order of slabs of objects of `size` bytes: that of a block with `min_objects`, or with as many as `max_order` holds, or a larger one
/// up to `max_order` that wastes less: a sixteenth at most, or an eighth, or a quarter, or half.
pub fn slab_order(size: u32, min_objects: u32, max_order: u8, page_bytes: u64) -> u8 {
    let (size, block) = (u64::from(size), |order: u8| page_bytes << order);
    let fitting = (block(max_order) / size).max(1);
    let smallest = get_order(fitting.min(min_objects.max(1).into()) * size, page_bytes);
    let wastes = |order: u8, fraction: u64| block(order) % size > block(order) / fraction;
    let least = |fraction: u64| (smallest..=max_order).find(|&order| !wastes(order, fraction));
    [16, 8, 4, 2].into_iter().find_map(least).unwrap_or(get_order(size, page_bytes))
}

/// Objects that a CPU keeps in slabs with free objects.
fn cpu_partial(size: u32, page_bytes: u64) -> u32 {
    match u64::from(size) {
        size if size >= page_bytes => 6,
        1024.. => 24,
        256.. => 52,
        _ => 120,
    }
}

/// Slabs with free objects that a CPU keeps, each taken for half full (`cpu_partial_slabs`).
pub fn cpu_partial_slabs(size: u32, objects: u32, page_bytes: u64) -> usize {
    (2 * cpu_partial(size, page_bytes)).div_ceil(objects) as usize
}

/// Slabs that a node keeps on its list before it gives empty ones back.
pub fn min_partial(size: u32) -> usize {
    (size.ilog2() as usize / 2).clamp(5, 10)
}
