//! Former names of variants, by series.
//!
//! ```text
//!   mrc --policies  cls ──────┐
//!   scenario file   "rfc6" ───┼─► former name ─► the present variant, under whose name results are kept
//!   --variants      y612 ─────┘
//! ```
//!
//! Former names were those of the code: a letter and a release (`g614`, `y612`), the number of a patch (`p4`)
//! or of a version (`v2`), or `base` in two series. Present names say the mechanism and the kernel or patch.
//! `patch1` and so on stay: the series named beside them says whose patches they number.

/// Former and present name of each renamed variant, by series, in the order of the series' variants.
pub(super) const FORMER_NAMES: &[(&str, &[(&str, &str)])] = &[
    ("pcp", &[("base", "pcp-base")]),
    ("hugetlb", &[("base", "hugetlb-base"), ("hvo-off", "hugetlb-base-hvo-off")]),
    (
        "reclaim",
        &[
            ("cls", "classic"),
            ("rfc1-cls", "refault-distance-1-classic"),
            ("rfc2-cls", "refault-distance-2-classic"),
            ("rfc3-cls", "refault-distance-3-classic"),
            ("rfc4-cls", "refault-distance-4-classic"),
            ("rfc5-cls", "refault-distance-5-classic"),
            ("rfc6-cls", "refault-distance-6-classic"),
            ("g61", "mglru-6.1"),
            ("g65", "mglru-6.5"),
            ("rfc1", "refault-distance-1"),
            ("rfc2", "refault-distance-2"),
            ("rfc3", "refault-distance-3"),
            ("rfc4", "refault-distance-4"),
            ("rfc5", "refault-distance-5"),
            ("rfc6-v3", "refault-distance-6-v3"),
            ("rfc6", "refault-distance-6"),
            ("g67", "mglru-6.7"),
            ("g614", "mglru-6.14"),
            ("g617", "mglru-6.17"),
            ("g71", "mglru-7.1"),
            ("g72", "mglru-7.2"),
        ],
    ),
    (
        "numa",
        &[
            ("b0", "numa-base"),
            ("p1", "vma-scanning-1"),
            ("p2", "vma-scanning-2"),
            ("p3", "vma-scanning-3"),
            ("p4", "vma-scanning-4"),
            ("m4", "partial-vmas-4"),
            ("m5", "partial-vmas-5"),
            ("m6", "partial-vmas-6"),
            ("r67", "numa-6.8"),
            ("y612", "numa-6.12"),
            ("y612-loc-clear", "numa-6.12.117"),
            ("c72", "numa-6.19"),
        ],
    ),
    (
        "folios",
        &[
            ("P0", "folios-base"),
            ("v1", "folios-v1"),
            ("v2", "folios-v2"),
            ("simple", "folios-v2-simple"),
            ("v2-32k", "folios-v2-32k"),
            ("v3", "folios-v3"),
            ("v4", "folios-v4"),
            ("v5", "folios-v5"),
            ("v6", "folios-v6"),
            ("v7", "folios-v7"),
            ("v8", "folios-v8"),
            ("v9", "folios-v9"),
            ("m68", "folios-6.8"),
            ("m612", "folios-6.12"),
            ("m72", "folios-7.2"),
            ("m4", "folios-v9-64k"),
            ("m4-3", "folios-v9-64k-32k"),
            ("m4-3-2", "folios-v9-64k-32k-16k"),
            ("m2-8", "folios-v9-below-2m"),
            ("m9", "folios-v9-2m"),
            ("m9-4-3", "folios-v9-2m-64k-32k"),
        ],
    ),
];
