//! What each kernel decides about refaults, and what each patch of "Refault distance update with MGLRU support" changes.
//!
//! ```text
//!   classic      distance <= working set ──────── rfc1: rule R, age counts evictions only
//!   multi-gen    g61 ─► g65 ─► g67 ─► g614 ─► g72      mainline, 6.1 to 7.2
//!                        └───► rfc4 ─► rfc6            rfc6: shadows keep the age too, distance promotes
//! ```

/// When a refault distance is small enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistanceRule {
    /// Up to the size of the working set that the page would compete with.
    WorkingsetSize,
    /// rfc1: below what is active, or, where there are as many active pages as inactive ones, below what is inactive.
    Throttled,
}

/// What a folio's accesses are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefsScheme {
    /// `PG_workingset` is one access, the counter those after it.
    WorkingsetCounts,
    /// 6.14: `PG_referenced` is one access, the counter those after it; `PG_workingset` is a tier of its own.
    WorkingsetApart,
}

/// Of which shadows the multi-gen LRU says that they are recent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecentRule {
    /// Those of the oldest generation that there is.
    OldestGeneration,
    /// 6.14: those of the last `MAX_NR_GENS` generations.
    LastGenerations,
}

/// Which recent refaults the multi-gen LRU counts as `workingset_activate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivateRule {
    /// None: it counts what it protects from eviction.
    OnProtection,
    /// 6.5: all.
    Recent,
    /// 6.14: those in a page fault.
    InFault,
    /// 7.2: those in a page fault of folios that had been in the working set.
    WorkingsetInFault,
}

/// What is compared with the number of generation that a shadow of rfc6 has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredSeq {
    /// As posted in v3: all of `min_seq`. Nothing is recent once it is 8.
    Whole,
    /// As intended: as many bits of it as were stored.
    StoredBits,
}

/// What the multi-gen LRU of one kernel does with refaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenFeatures {
    /// 6.5: every refault counts as `workingset_refault`, not only recent ones.
    pub counts_all_refaults: bool,
    /// 6.7: a restored folio has all its accesses, not only `PG_workingset`, and one access less is needed for it.
    pub restores_refs: bool,
    /// 6.14.
    pub refs_scheme: RefsScheme,
    /// 6.14.
    pub recent_rule: RecentRule,
    /// 6.5, 6.14, 7.2.
    pub activate_rule: ActivateRule,
    /// rfc4: without its memory cgroup no shadow is recent; before, the root's generations were asked.
    pub recent_needs_memcg: bool,
    /// rfc6: shadows also keep `nonresident_age`, and a refault within the distance promotes.
    pub refault_distance: Option<StoredSeq>,
}

/// What one kernel does with refaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkingsetFeatures {
    /// rfc1.
    pub distance_rule: DistanceRule,
    /// `nonresident_age` counts activations too: by access, by refault, and folios that reclaim puts back active.
    /// Not with rfc1.
    pub ages_on_activation: bool,
    /// 7.2: shadows of anonymous pages leave bits to the count of users of their swap entry.
    pub anon_shadows_narrower: bool,
    /// The multi-gen LRU; none where it is off and the classic one decides.
    pub generations: Option<GenFeatures>,
}

impl GenFeatures {
    const G61: GenFeatures = GenFeatures {
        counts_all_refaults: false,
        restores_refs: false,
        refs_scheme: RefsScheme::WorkingsetCounts,
        recent_rule: RecentRule::OldestGeneration,
        activate_rule: ActivateRule::OnProtection,
        recent_needs_memcg: false,
        refault_distance: None,
    };
    const G65: GenFeatures =
        GenFeatures { counts_all_refaults: true, activate_rule: ActivateRule::Recent, ..GenFeatures::G61 };
    const G67: GenFeatures = GenFeatures { restores_refs: true, ..GenFeatures::G65 };
    const G614: GenFeatures = GenFeatures {
        refs_scheme: RefsScheme::WorkingsetApart,
        recent_rule: RecentRule::LastGenerations,
        activate_rule: ActivateRule::InFault,
        ..GenFeatures::G67
    };
    const G72: GenFeatures =
        GenFeatures { activate_rule: ActivateRule::WorkingsetInFault, ..GenFeatures::G614 };
    const RFC4: GenFeatures = GenFeatures { recent_needs_memcg: true, ..GenFeatures::G65 };
    const RFC6_V3: GenFeatures =
        GenFeatures { refault_distance: Some(StoredSeq::Whole), ..GenFeatures::RFC4 };
    const RFC6: GenFeatures =
        GenFeatures { refault_distance: Some(StoredSeq::StoredBits), ..GenFeatures::RFC4 };
}

impl WorkingsetFeatures {
    /// This kernel with the multi-gen LRU off.
    pub const fn classic(self) -> WorkingsetFeatures {
        WorkingsetFeatures { generations: None, ..self }
    }

    const fn with(self, generations: GenFeatures) -> WorkingsetFeatures {
        WorkingsetFeatures { generations: Some(generations), ..self }
    }

    pub(crate) const G65: WorkingsetFeatures = WorkingsetFeatures {
        distance_rule: DistanceRule::WorkingsetSize,
        ages_on_activation: true,
        anon_shadows_narrower: false,
        generations: Some(GenFeatures::G65),
    };
    pub(crate) const G61: WorkingsetFeatures = WorkingsetFeatures::G65.with(GenFeatures::G61);
    pub(crate) const G67: WorkingsetFeatures = WorkingsetFeatures::G65.with(GenFeatures::G67);
    pub(crate) const G614: WorkingsetFeatures = WorkingsetFeatures::G65.with(GenFeatures::G614);
    pub(crate) const G72: WorkingsetFeatures =
        WorkingsetFeatures { anon_shadows_narrower: true, ..WorkingsetFeatures::G65.with(GenFeatures::G72) };
    pub(crate) const RFC1: WorkingsetFeatures = WorkingsetFeatures {
        distance_rule: DistanceRule::Throttled,
        ages_on_activation: false,
        ..WorkingsetFeatures::G65
    };
    pub(crate) const RFC4: WorkingsetFeatures = WorkingsetFeatures::RFC1.with(GenFeatures::RFC4);
    pub(crate) const RFC6_V3: WorkingsetFeatures = WorkingsetFeatures::RFC1.with(GenFeatures::RFC6_V3);
    pub(crate) const RFC6: WorkingsetFeatures = WorkingsetFeatures::RFC1.with(GenFeatures::RFC6);
}
