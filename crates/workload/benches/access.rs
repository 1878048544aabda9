//! Benchmarks of reading access traces.
//!
//! Budget: 50 M accesses/s from an oracleGeneral file, so that reading is cheap compared with a replay.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use divan::Bencher;
use divan::counter::ItemsCount;
use tempfile::TempDir;
use workload::access::{self, PageNumbers};

/// Number of accesses in a trace; it has half as many objects.
const ACCESSES: u32 = 4_000_000;

fn main() {
    divan::main();
}

/// Objects in an order without pattern, most of them twice.
fn objects() -> impl Iterator<Item = u64> {
    (0..u64::from(ACCESSES)).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 12 & 0x1f_ffff)
}

fn written(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, bytes).unwrap();
    (directory, path)
}

fn records() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, object) in objects().enumerate() {
        bytes.extend((at as u32 / 1000).to_le_bytes());
        bytes.extend(object.to_le_bytes());
        bytes.extend(4096_u32.to_le_bytes());
        bytes.extend((-1_i64).to_le_bytes());
    }
    bytes
}

fn bench_trace(bencher: Bencher, name: &str, bytes: &[u8]) {
    let (_directory, path) = written(name, bytes);
    bencher.counter(ItemsCount::new(ACCESSES)).bench(|| {
        let mut sum = 0_u64;
        for access in access::open(&path, None).unwrap() {
            sum = sum.wrapping_add(access.unwrap().object);
        }
        sum
    });
}

#[divan::bench(sample_count = 20)]
fn oracle_general(bencher: Bencher) {
    bench_trace(bencher, "a.oracleGeneral", &records());
}

#[divan::bench(sample_count = 20)]
fn oracle_general_zstd(bencher: Bencher) {
    bench_trace(bencher, "a.oracleGeneral.zst", &zstd::encode_all(&records()[..], 3).unwrap());
}

#[divan::bench(sample_count = 20)]
fn csv(bencher: Bencher) {
    let mut text = String::from("time,object,size\n");
    for (at, object) in objects().enumerate() {
        writeln!(text, "{},{object},4096", at / 1000).unwrap();
    }
    bench_trace(bencher, "a.csv", text.as_bytes());
}

#[divan::bench(sample_count = 20)]
fn fio(bencher: Bencher) {
    let mut text = String::from("fio version 3 iolog\n0 a add\n0 a open\n");
    for (at, object) in objects().enumerate() {
        writeln!(text, "{at} a read {} 4096", object * 4096).unwrap();
    }
    bench_trace(bencher, "a.log", text.as_bytes());
}

#[divan::bench(sample_count = 20)]
fn page_numbers(bencher: Bencher) {
    bencher.counter(ItemsCount::new(ACCESSES)).bench(|| {
        let mut pages = PageNumbers::new();
        objects().fold(0_u32, |sum, object| sum ^ pages.number(object, 0))
    });
}
