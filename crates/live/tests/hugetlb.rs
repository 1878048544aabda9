//! The twin against the recordings of huge page pools, and recordings on the kernel that runs the tests.
//! Without root, tracefs or an empty pool the latter are skipped with a message.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write as _};
use std::panic::{catch_unwind, resume_unwind};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use live::recordings::default_directory;
use live::verify::hugetlb::{Case, KernelCounts, Recording, obstacle, record};
use live::verify::{RecordedKernel, VerifyError, by_recordings};
use mm::Mechanism;

/// Number of vmemmap pages of a huge page, and the number of those that an optimised one frees.
const VMEMMAP: u64 = 8;
const GIVEN_BACK: u64 = 7;

/// Whether the machine's memory grew or shrank during a recording, as with a hypervisor's balloon: the change
/// of managed pages differs from the boot-time vmemmap pages that were freed or restored.
fn memory_changed(recording: &Recording) -> bool {
    let counts = recording.cases.iter().flat_map(|case| &case.steps).filter_map(|step| step.counts.as_ref());
    counts
        .filter_map(|counts| counts.managed.zip(counts.nr_memmap_boot_pages))
        .any(|(managed, boot)| managed != -boot)
}

/// How often tasks of this machine entered direct reclaim or compaction. A growing pool does so if free
/// memory is fragmented, and then frees pages that it does not need.
fn direct_reclaim() -> u64 {
    let vmstat = fs::read_to_string("/proc/vmstat").unwrap();
    let fields = vmstat.lines().filter_map(|line| line.split_once(' '));
    let wanted = fields.filter(|(name, _)| ["pgsteal_direct", "compact_stall"].contains(name));
    wanted.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}

/// Checks invariants of each write, on any machine with one node on which nobody else uses huge pages.
fn check(name: &str, recording: &Recording) {
    for case in &recording.cases {
        // All huge pages, and optimised ones.
        let mut pool = [0u64; 2];
        for step in &case.steps {
            let (hvo, pages) = (step.write.hvo, step.write.pages);
            let grown = pages.saturating_sub(pool[0]);
            let shrunk = pool[0].saturating_sub(pages);
            // The last page added is the first one freed, as long as the pool has only plain pages or only
            // optimised ones.
            assert!(shrunk == 0 || shrunk == pool[0] || pool[1] == pool[0] || pool[1] == 0, "{}", case.name);
            let optimised = if hvo { grown } else { 0 };
            let restored = shrunk.min(pool[1]);
            let some_before = pool[1] > 0;
            pool = [pages, pool[1] + optimised - restored];
            let Some(counts) = &step.counts else { continue };
            let place = format!("{name}, {}: {counts:?}", case.name);

            assert_eq!(counts.flush_tlb_all, if grown > 0 { 2 } else { u64::from(restored > 0) }, "{place}");
            assert_eq!(counts.kernel_range_flush, 0, "{place}");
            assert_eq!(counts.sync_core > 0, some_before != (pool[1] > 0), "{place}");
            assert_eq!((counts.huge_page_allocs, counts.huge_page_frees), (grown, shrunk), "{place}");
            assert_eq!(counts.head_copies, optimised, "{place}");
            assert_eq!(counts.restored_vmemmap_pages, GIVEN_BACK * restored, "{place}");
            assert_eq!(counts.page_frees.unwrap_or(VMEMMAP * optimised), VMEMMAP * optimised, "{place}");
            assert_eq!(counts.other_page_allocs.unwrap_or(0), 0, "{place}");
            if optimised == 0 {
                assert_eq!(counts.page_tables, 0, "{place}");
            }
            let memmap = counts.nr_memmap_pages.zip(counts.nr_memmap_boot_pages);
            if let Some((later, boot)) = memmap {
                let expected = GIVEN_BACK as i64 * (restored as i64 - optimised as i64);
                assert_eq!(later + boot, expected, "{place}");
                assert_eq!(counts.managed.unwrap_or(-boot), -boot, "{place}");
            }
            assert_eq!(counts.pool.total, pages, "{place}");
            assert_eq!(counts.pool.free.unwrap_or(pages), pages, "{place}");
            assert_eq!(counts.pool.surplus.unwrap_or(0), 0, "{place}");
        }
    }
}

#[test]
fn recordings_are_whole() {
    let recordings = Recording::list(&default_directory()).unwrap();
    assert_eq!(recordings.len(), 2);
    for (name, recording) in &recordings {
        check(name, recording);
    }
    let (_, recording) = &recordings[0];
    assert_eq!(recording.cases.iter().map(|case| case.case()).collect::<Vec<_>>(), Case::all());
    let tables = recording.cases.iter().flat_map(|case| &case.steps).filter_map(|step| step.counts.as_ref());
    assert_eq!(tables.map(|counts| counts.page_tables).sum::<u64>(), 135, "recorded soon after the boot");
}

#[test]
fn a_recording_can_be_written_and_read_and_errors_name_the_key() {
    let directory = tempfile::tempdir().unwrap();
    let (_, recording) = Recording::list(&default_directory()).unwrap().remove(0);
    recording.write(directory.path()).unwrap();
    let read = Recording::open(directory.path()).unwrap();
    let counts = |recording: &Recording| -> Vec<Option<KernelCounts>> {
        recording.cases.iter().flat_map(|case| &case.steps).map(|step| step.counts.clone()).collect()
    };
    assert_eq!(counts(&read), counts(&recording));

    let path = directory.path().join("counts.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("head_copies = 1", "head_copy = 1", 1)).unwrap();
    let error = Recording::open(directory.path()).unwrap_err().to_string();
    assert!(
        error.contains("counts.toml: TOML parse error at line") && error.contains("head_copy"),
        "{error}"
    );
}

#[test]
fn zones_that_no_machine_has_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = default_directory().join("hugetlb-6.18.44/counts.toml");
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains("pages = [1, 4096]"));
    fs::write(directory.path().join("counts.toml"), text.replace("[1, 4096]", "[7581059, 6553600]")).unwrap();
    let error = Recording::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("machine.zones: DMA: pages = [7581059, 6553600]: ranges must ascend"), "{error}");
}

#[test]
fn the_twin_does_what_the_kernel_did() {
    let report = by_recordings(Mechanism::Hugetlb, &default_directory()).unwrap();
    for entry in &report.entries {
        assert_eq!(entry.kernel, entry.twin, "{}, {}", entry.case, entry.counter);
    }
    assert!(report.entries.len() > 250, "{}", report.entries.len());
    let flushes = report.entries.iter().filter(|entry| entry.counter.ends_with("do_flush_tlb_all"));
    assert!(flushes.map(|entry| entry.kernel).sum::<u64>() > 50);
}

/// A comparison with another release than the recorded one fails.
#[test]
fn a_wrong_kernel_does_not_pass() {
    let differing = |kernel: &str| -> BTreeSet<String> {
        let directory = tempfile::tempdir().unwrap();
        let (name, mut recording) = Recording::list(&default_directory()).unwrap().remove(0);
        recording.machine.kernel = kernel.into();
        recording.write(&directory.path().join(name)).unwrap();
        let report = by_recordings(Mechanism::Hugetlb, directory.path()).unwrap();
        let wrong = report.entries.into_iter().filter(|entry| entry.kernel != entry.twin);
        wrong.map(|entry| entry.counter).collect()
    };
    assert_eq!(differing("6.18.1"), BTreeSet::new());
    // Before the patch series, TLBs were flushed for each page by itself; without HVO there were no flushes.
    let wrong = differing("6.6");
    for counter in ["0 -> 500: do_flush_tlb_all", "500 -> 0: do_kernel_range_flush"] {
        assert!(wrong.contains(counter), "{wrong:?}");
    }
}

/// The settings that a recording must restore.
fn settings() -> Vec<(String, String)> {
    let mut paths: Vec<String> = ["nr_hugepages", "nr_overcommit_hugepages", "hugetlb_optimize_vmemmap"]
        .map(|name| format!("/proc/sys/vm/{name}"))
        .to_vec();
    for size in fs::read_dir("/sys/kernel/mm/hugepages").unwrap() {
        let size = size.unwrap().path();
        paths.extend(
            ["nr_hugepages", "nr_overcommit_hugepages"].map(|name| size.join(name).display().to_string()),
        );
    }
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

fn instance(pid: u32) -> bool {
    let instances = fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    let own = format!("mmtwin-{pid}-");
    instances.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(&own))
}

/// The running kernel's counts obey the invariants, and the settings are restored: at the end, on Ctrl-C, and
/// when the process is killed. This is one test because there is only one pool.
#[test]
fn recording_leaves_the_pool_as_it_was() {
    if let Some(obstacle) = obstacle() {
        eprintln!("skipped: {obstacle}");
        return;
    }
    let before = settings();
    // The running kernel may allocate or free a page of its own meanwhile, but hardly three times in a row.
    for attempt in 1.. {
        let reclaimed = direct_reclaim();
        let recording = match record(&mut |_| {}) {
            Err(VerifyError::Io { source, .. }) if source.kind() == ErrorKind::ResourceBusy => {
                eprintln!("skipped: {source}");
                return;
            }
            result => result.unwrap(),
        };
        assert!(!recording.cases.is_empty(), "{:?}", recording.notes);
        assert_eq!(settings(), before);
        assert!(!instance(std::process::id()));
        match catch_unwind(|| check("this kernel", &recording)) {
            Ok(()) => break,
            Err(_) if attempt == 3 && (memory_changed(&recording) || direct_reclaim() != reclaimed) => {
                eprintln!(
                    "counts skipped: a hypervisor changed this machine's memory, or memory had to be reclaimed, during \
                     each of three recordings"
                );
                break;
            }
            Err(difference) if attempt == 3 => resume_unwind(difference),
            Err(_) => {}
        }
    }

    let mut child = hold_in_the_middle();
    assert_ne!(settings(), before, "the pool has pages now");
    signal(&child, "INT");
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "the child checks how its recording ended");
    assert_eq!(settings(), before);
    assert!(!instance(child.id()));

    let mut child = hold_in_the_middle();
    assert_ne!(settings(), before);
    signal(&child, "KILL");
    child.wait().unwrap();
    // The guard is another process, which restores settings when it sees that the socket is closed.
    for _ in 0..100 {
        if settings() == before && !instance(child.id()) {
            break;
        }
        sleep(Duration::from_millis(100));
    }
    assert_eq!(settings(), before);
    assert!(!instance(child.id()));
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

/// A child that records, and waits before it shrinks a pool for the first time.
fn hold_in_the_middle() -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--ignored", "--nocapture"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let holds = lines.map_while(Result::ok).any(|line| line.contains("holding"));
    assert!(holds, "the child ended early");
    child
}

/// Runs in the child of another test.
#[test]
#[ignore = "run by recording_leaves_the_pool_as_it_was"]
fn child() {
    let mut held = false;
    let result = record(&mut |what| {
        if what.ends_with("writing 0") && !held {
            held = true;
            println!("holding");
            let _ = std::io::stdin().read_line(&mut String::new());
        }
    });
    assert!(matches!(result, Err(VerifyError::Interrupted)), "{result:?}");
}
