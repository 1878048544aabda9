//! What a kernel decides about pages of a build on their way to the LRU.

use mm::Features;

/// How many more pages a CPU's batch takes that has `fill` of them; when it takes none, all go onto the LRU lists (`folio_batch`).
pub(super) fn room_in_batch(features: &Features, fill: u8) -> u8 {
    features.folio_batch.saturating_sub(fill)
}
