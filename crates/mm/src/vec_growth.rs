//! Growth of long vectors by an eighth of their length.
//!
//! A vector that doubles takes up to twice the memory of its entries, which matters where there is an entry
//! for every page. Growing by an eighth reallocates more often, but the host moves long vectors by remapping
//! their pages.

/// Makes room for `more` entries.
#[inline]
pub(crate) fn reserve<T>(vector: &mut Vec<T>, more: usize) {
    if vector.capacity() - vector.len() < more {
        grow(vector, more);
    }
}

#[cold]
fn grow<T>(vector: &mut Vec<T>, more: usize) {
    vector.reserve_exact(more.max(vector.len() / 8).max(16));
}
