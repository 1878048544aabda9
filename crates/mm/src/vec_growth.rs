//! Long vectors that grow by an eighth.
//!
//! A vector that doubles takes up to twice the memory of what is in it, which matters where there is an entry for every
//! page. An eighth costs a few more moves of what is there; a host moves long ones by their page tables.

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
