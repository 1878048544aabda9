//! Corrupts files as disks, copies and memory do, for tests of readers.

use std::fmt::Debug;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Reads `mutants` corrupted copies of `whole`, each with one fault: a flipped bit, a truncation, or pieces
/// that are swapped, repeated, zeroed or missing. Every copy must be refused or read as `whole` is.
pub fn is_noticed<T: PartialEq + Debug>(
    whole: &[u8],
    mutants: u64,
    read: impl Fn(Vec<u8>) -> Result<T, String>,
) {
    let expected = read(whole.to_vec()).unwrap();
    let mut refused = 0;
    for seed in 0..mutants {
        let mutant = mutant(whole, seed);
        match read(mutant) {
            Ok(found) => assert_eq!(found, expected, "mutant {seed} is read as something else"),
            Err(_) => refused += 1,
        }
    }
    // Some bits carry no values: the writer's name, column statistics that no reader uses.
    assert!(refused > mutants / 2, "{refused} of {mutants} were refused");
}

/// The copy with fault number `seed`.
fn mutant(whole: &[u8], seed: u64) -> Vec<u8> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut bytes = whole.to_vec();
    let length = random.random_range(1..=bytes.len() / 8);
    let [from, to] = [(); 2].map(|()| random.random_range(0..=bytes.len() - length));
    match seed % 8 {
        0 => bytes.truncate(from),
        1 => {
            let piece = bytes[from..from + length].to_vec();
            bytes.copy_within(to..to + length, from);
            bytes[to..to + length].copy_from_slice(&piece);
        }
        2 => bytes.copy_within(from..from + length, to),
        3 => bytes[from..from + length].fill(0),
        4 => drop(bytes.drain(from..from + length)),
        _ => {
            let at = random.random_range(0..bytes.len());
            bytes[at] ^= 1 << random.random_range(0..8);
        }
    }
    bytes
}
