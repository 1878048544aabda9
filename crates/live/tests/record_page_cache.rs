//! Records the page cache of the kernel that runs the tests. Without root, tracefs or a file system with its
//! own page cache the test is skipped with a message.

use std::fs;
use std::os::unix::fs::MetadataExt;

use live::record::{Demand, Options, RecordError, record};
use live::tracefs::Tracefs;
use rustix::fs::statfs;
use workload::access;

/// File systems whose reads and writes show under another inode, or not at all: tmpfs, overlayfs.
const ELSEWHERE: [i64; 2] = [0x0102_1994, 0x794c_7630];

#[test]
fn reads_of_a_file_are_recorded_page_by_page() {
    if let Err(reason) = Tracefs::open() {
        eprintln!("skipped: {reason}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    if ELSEWHERE.contains(&(statfs(directory.path()).unwrap().f_type as i64)) {
        eprintln!("skipped: {} is tmpfs or overlayfs; set TMPDIR to a disk", directory.path().display());
        return;
    }
    let file = directory.path().join("file");
    fs::write(&file, vec![7; 100 * 4096 + 100]).unwrap();
    let path = file.display();
    // A read past the end, reads of two single pages, and a read that spans two pages.
    let script = format!(
        "dd if={path} of=/dev/null bs=1M; dd if={path} of=/dev/null bs=4k skip=3 count=2; \
         dd if={path} of=/dev/null bs=4096 skip=4095 count=1 iflag=skip_bytes"
    );
    let output = directory.path().join("a.parquet");
    let command = ["sh", "-c", &script].map(String::from).to_vec();
    let options = Options { demand: Demand::PageCache, buffer_kib: 8192, ..Options::new(&output, command) };
    let summary = match record(&options, &mut |_| {}) {
        Err(RecordError::MissingEvent { event, release }) => {
            eprintln!("skipped: Linux {release} has no event {event}");
            return;
        }
        summary => summary.unwrap(),
    };
    assert!(summary.by_operation.iter().any(|&(kind, events)| kind == "read" && events >= 4));

    // The number of the file in the trace is not known here, but its pages are.
    let accesses: Vec<_> = access::open(&output, None).unwrap().collect::<Result<_, _>>().unwrap();
    let expected = [(0, 101), (3, 1), (4, 1), (0, 2)];
    let objects: std::collections::BTreeSet<u64> = accesses.iter().map(|access| access.object).collect();
    let reads_of = |object: u64| -> Vec<(u64, u32)> {
        let own = accesses.iter().filter(|access| access.object == object && !access.write);
        own.map(|access| (access.index, access.pages)).collect()
    };
    let inode = fs::metadata(&file).unwrap().ino();
    assert!(
        objects.iter().any(|&object| reads_of(object) == expected),
        "no file is read as inode {inode} was"
    );
}
