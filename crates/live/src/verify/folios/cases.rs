//! The cases for the running kernel, and the configurations in which they run.

use super::case::{Advice, Case, Configuration, Operation, Touch};

const KIB_64: u64 = 16;

/// Lengths in KiB of VMAs that begin at a 2 MiB boundary, including lengths that are not a multiple of any
/// folio size.
const ALIGNED: [u64; 13] = [4, 8, 16, 32, 60, 64, 68, 124, 128, 256, 1024, 2048, 4096];

const MISALIGNED: [(u64, u64); 8] =
    [(4, 64), (4, 128), (16, 128), (32, 128), (60, 128), (20, 256), (12, 1024), (4, 4096)];

/// Orders of touching pages, each with the offset and length of its VMA in KiB.
const TOUCHES: [(Touch, u64, u64); 13] = [
    (Touch::Backwards, 0, 64),
    (Touch::Backwards, 4, 128),
    (Touch::Shuffled, 0, 256),
    (Touch::Shuffled, 20, 256),
    (Touch::Shuffled, 0, 4096),
    (Touch::One(0), 0, 64),
    (Touch::One(7), 0, 64),
    (Touch::One(15), 0, 64),
    (Touch::One(15), 4, 64),
    (Touch::Stride(5), 0, 256),
    (Touch::Stride(8), 0, 1024),
    (Touch::Stride(16), 0, 1024),
    (Touch::Stride(32), 0, 1024),
];

/// Pages that are populated before.
const HOLES: [(&[u64], Touch, u64); 8] = [
    (&[0], Touch::Forwards, 64),
    (&[5], Touch::Forwards, 64),
    (&[8], Touch::Forwards, 64),
    (&[15], Touch::Forwards, 64),
    (&[3, 9], Touch::Forwards, 128),
    (&[1, 20, 33, 47, 70, 100, 128, 129, 130, 200, 255], Touch::Forwards, 1024),
    (&[1, 20, 33, 47, 70, 100, 128, 129, 130, 200, 255], Touch::Shuffled, 1024),
    (&[300], Touch::Backwards, 2048),
];

/// The other operations, with the length of the VMA in KiB.
fn operations() -> Vec<(Operation, u64, u64)> {
    use Operation::*;
    let mut operations = vec![
        (Read, 0, 64),
        (ReadWrite, 0, 64),
        (ReadHalfWrite, 0, 64),
        (Populate, 0, 256),
        (Populate, 4, 256),
        (Lock, 0, 256),
    ];
    operations.extend([4..8, 0..16, 3..4].map(|pages| (Drop(pages), 0, 64)));
    operations.extend([8..24, 0..17].map(|pages| (Drop(pages), 0, 128)));
    operations.extend([(Split(8), 0, 64), (Split(4), 0, 128), (Split(20), 0, 256)]);
    let forks = [ForkChildWrites, ForkChildGone, ForkChildAlive, ForkChildAlone];
    operations.extend(forks.map(|operation| (operation, 0, 2 * 4 * KIB_64)));
    operations
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |offset_kib: u64, kib: u64, advice, touch, operation: Operation, prepopulated: &[u64]| {
        let mut name = format!("{kib} KiB at {offset_kib}");
        if advice != Advice::None {
            name += &format!(", {advice:?}");
        }
        if touch != Touch::Forwards {
            name += &format!(", {touch:?}");
        }
        if operation != Operation::Write {
            name += &format!(", {operation:?}");
        }
        if !prepopulated.is_empty() {
            name += &format!(", {prepopulated:?} there");
        }
        let (offset, pages) = (offset_kib / 4, kib / 4);
        let prepopulated = prepopulated.to_vec();
        cases.push(Case { name, offset, pages, advice, touch, operation, prepopulated });
    };
    let (none, write) = (Advice::None, Operation::Write);
    for (offset, kib) in ALIGNED.map(|kib| (0, kib)).into_iter().chain(MISALIGNED) {
        add(offset, kib, none, Touch::Forwards, write.clone(), &[]);
    }
    for (touch, offset, kib) in TOUCHES {
        add(offset, kib, none, touch, write.clone(), &[]);
    }
    for (holes, touch, kib) in HOLES {
        add(0, kib, none, touch, write.clone(), holes);
    }
    for (operation, offset, kib) in operations() {
        add(offset, kib, none, Touch::Forwards, operation, &[]);
    }
    for (advice, offset, kib) in
        [(Advice::NoHuge, 0, 64), (Advice::Huge, 0, 64), (Advice::Huge, 0, 4096), (Advice::Huge, 4, 128)]
    {
        add(offset, kib, advice, Touch::Forwards, write.clone(), &[]);
    }
    cases
}

/// All configurations; `beside_full` says whether the kernel has that file.
pub fn configurations(beside_full: bool) -> Vec<Configuration> {
    let of = |name: &str, enabled: &str, always: &[u64], inherit: &[u64], madvise: &[u64]| Configuration {
        name: name.into(),
        enabled: enabled.into(),
        always: always.to_vec(),
        inherit: inherit.to_vec(),
        madvise: madvise.to_vec(),
        beside_full: false,
    };
    let mut configurations = vec![of("none", "madvise", &[], &[], &[])];
    for sizes in [&[64][..], &[32], &[16], &[64, 32], &[64, 16], &[32, 16], &[64, 32, 16], &[128, 32]] {
        let name: Vec<String> = sizes.iter().map(u64::to_string).collect();
        configurations.push(of(&name.join("+"), "madvise", sizes, &[], &[]));
    }
    configurations.extend([
        of("all below 2048", "madvise", &[16, 32, 64, 128, 256, 512, 1024], &[], &[]),
        of("2048", "madvise", &[2048], &[], &[]),
        of("2048+64+32", "madvise", &[2048, 64, 32], &[], &[]),
        of("2048 inherit, always", "always", &[64], &[2048], &[]),
        of("2048 inherit, madvise", "madvise", &[64], &[2048], &[]),
        of("64 inherit, madvise", "madvise", &[], &[64], &[]),
        of("64 inherit, always", "always", &[], &[64], &[]),
        of("64 inherit, never", "never", &[], &[64], &[]),
        of("64 and 16 inherit, never", "never", &[64], &[16], &[]),
        of("64 madvise", "madvise", &[], &[], &[64]),
        of("64, 32 madvise, 16 inherit, madvise", "madvise", &[64], &[16], &[32]),
        of("64+32+16, never", "never", &[64, 32, 16], &[], &[]),
    ]);
    if beside_full {
        let dense = |sizes: &[u64]| {
            let name = format!("{sizes:?} beside full windows");
            Configuration { beside_full: true, ..of(&name, "madvise", sizes, &[], &[]) }
        };
        configurations
            .extend([&[64][..], &[32], &[64, 32, 16], &[1024, 256, 64], &[2048, 64, 16]].map(dense));
    }
    configurations
}
