//! The identity of a run: a hash of everything that decides what comes out.

use super::ResultsError;
use crate::scenario::Run;
use std::fs::File;
use std::hash::Hasher;
use std::io::Read;
use std::path::Path;
use twox_hash::XxHash64;

/// 128 bits, as two hashes with different seeds.
struct Hash([XxHash64; 2]);

impl Hash {
    fn new() -> Hash {
        Hash([XxHash64::with_seed(0), XxHash64::with_seed(1)])
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|hash| hash.write(bytes));
    }

    fn add_file(&mut self, path: &Path) -> Result<(), ResultsError> {
        let io = |error| ResultsError::io(path, error);
        let mut file = File::open(path).map_err(io)?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer).map_err(io)? {
                0 => return Ok(()),
                read => self.add(&buffer[..read]),
            }
        }
    }

    fn hexadecimal(&self) -> String {
        self.0.iter().map(|hash| format!("{:016x}", hash.finish())).collect()
    }
}

/// The identity of `run` as made by `program` (see [`program_identity`]). The contents of a recorded file belong to it, its
/// name alone does not say enough.
pub fn identity(run: &Run, program: &str) -> Result<String, ResultsError> {
    let mut hash = Hash::new();
    hash.add(program.as_bytes());
    hash.add(serde_json::to_string(run).expect("a run has only tables, numbers and strings").as_bytes());
    if let Some((_, path)) = run.workload.clone().recorded_file_mut() {
        hash.add_file(path)?;
    }
    Ok(hash.hexadecimal())
}

/// Version and hash of the executable at `path`: another build may count otherwise.
pub fn program_identity(version: &str, path: &Path) -> Result<String, ResultsError> {
    let mut hash = Hash::new();
    hash.add_file(path)?;
    Ok(format!("{version}+{}", &hash.hexadecimal()[..16]))
}
