//! The kernel's choice for pages of a build that go to the LRU.

use mm::Features;

/// How many more pages fit in the CPU's `folio_batch`, which has `fill` pages. When it is full, all its pages
/// go to the LRU lists.
pub(super) fn room_in_batch(features: &Features, fill: u8) -> u8 {
    features.folio_batch.saturating_sub(fill)
}
