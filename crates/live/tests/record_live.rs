//! Records on the kernel that runs the tests. Without root or tracefs the tests are skipped with a message.

use std::path::Path;
use std::process::Stdio;

use live::record::{Options, Progress, RecordError, record, spool_directory};
use live::tracefs::Tracefs;
use workload::trace::{Ending, Operation, TraceReader};

/// Number of tracing instances of this process.
fn own_instances(tracefs: &Path) -> usize {
    let name = format!("mmtwin-{}-", std::process::id());
    let instances = std::fs::read_dir(tracefs.join("instances")).unwrap();
    instances.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(&name)).count()
}

fn command(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

/// This is one test because a process has one instance.
#[test]
fn recording_leaves_the_kernel_as_it_was() {
    let tracefs = match Tracefs::open() {
        Ok(tracefs) => tracefs,
        Err(reason) => {
            eprintln!("skipped: {reason}");
            return;
        }
    };
    let directory = tempfile::tempdir().unwrap();

    // A command that forks, execs, allocates and fails.
    let output = directory.path().join("a.parquet");
    let script = "dd if=/dev/zero of=/dev/null bs=8M count=2 2>/dev/null; exit 3";
    let mut options = Options::new(&output, command(&["sh", "-c", script]));
    options.buffer_kib = 4096;
    let summary = record(&options, &mut |_| {}).unwrap();
    assert_eq!(summary.status.and_then(|status| status.code()), Some(3));
    assert_eq!((summary.lost, summary.ended), (0, Ending::CommandExited));
    assert_eq!(own_instances(tracefs.root()), 0);
    assert!(!spool_directory(&output).exists());

    let reader = TraceReader::open(&output).unwrap();
    reader.require_lossless().unwrap();
    let metadata = reader.metadata().clone();
    assert!(metadata.before.zoneinfo.contains("pagesets") && metadata.after.zoneinfo.contains("pagesets"));
    live::proc::parse_zoneinfo(&metadata.before.zoneinfo).unwrap();
    live::proc::parse_vmstat(&metadata.before.vmstat).unwrap();
    live::proc::parse_buddyinfo(&metadata.after.buddyinfo).unwrap();
    live::proc::parse_pagetypeinfo(&metadata.after.pagetypeinfo).unwrap();
    assert!(metadata.settings.contains_key("vm.min_free_kbytes"), "{:?}", metadata.settings);
    let events: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
    let of_command = |operation| {
        events
            .iter()
            .filter(|event| event.task == metadata.command_task && event.operation == operation)
            .count()
    };
    assert!(of_command(Operation::Alloc) > 0 && of_command(Operation::Free) > 0);
    assert_eq!(
        (of_command(Operation::Exec), of_command(Operation::Exit)),
        (1, 1),
        "from its exec to its end"
    );
    let pages: u64 = events
        .iter()
        .filter(|event| {
            event.operation == Operation::Alloc
                && metadata.tasks.get(&event.task).is_some_and(|name| name == "dd")
        })
        .map(|event| 1 << event.order)
        .sum();
    assert!(pages >= 2048, "dd's buffer of 8 MiB takes 2048 pages, {pages} seen");

    // A buffer that is far too small: the loss is an error, but the trace is kept.
    let output = directory.path().join("lossy.parquet");
    let mut options =
        Options::new(&output, command(&["dd", "if=/dev/zero", "of=/dev/null", "bs=1G", "count=1"]));
    options.buffer_kib = 8;
    match record(&options, &mut |_| {}) {
        Err(RecordError::Lost(summary)) => {
            assert!(summary.lost > 0);
            assert_eq!(TraceReader::open(&output).unwrap().metadata().lost, summary.lost);
        }
        other => panic!("expected lost events, got {other:?}"),
    }
    assert_eq!(own_instances(tracefs.root()), 0);

    // A command that does not exist leaves nothing behind.
    let output = directory.path().join("none.parquet");
    let options = Options::new(&output, command(&["no-such-command"]));
    assert!(matches!(record(&options, &mut |_| {}), Err(RecordError::CommandNotFound(_))));
    assert_eq!(own_instances(tracefs.root()), 0);
    assert!(!spool_directory(&output).exists());

    // Ctrl-C: the command is terminated, and its trace is written.
    let output = directory.path().join("interrupted.parquet");
    let options = Options::new(&output, command(&["sleep", "1000"]));
    let mut interrupted = false;
    let summary = record(&options, &mut |progress| {
        if matches!(progress, Progress::Recording { .. }) && !interrupted {
            interrupted = true;
            let pid = std::process::id().to_string();
            let kill = std::process::Command::new("kill").args(["-INT", &pid]).stdin(Stdio::null()).status();
            assert!(kill.unwrap().success());
        }
    });
    let summary = summary.unwrap();
    assert!(interrupted);
    assert_eq!(summary.ended, Ending::Interrupted);
    assert_eq!(own_instances(tracefs.root()), 0);
    assert!(TraceReader::open(&output).unwrap().metadata().after.zoneinfo.contains("pagesets"));
}
