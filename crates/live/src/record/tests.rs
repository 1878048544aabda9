//! Converts recordings, from ring buffer pages to a trace, including those of a killed recorder.

use std::collections::BTreeMap;

use workload::output::OutputError;
use workload::trace::{Event, Operation, TraceReader};

use super::names::TaskNames;
use super::*;

const FORMATS: &str = include_str!("../../tests/data/tracefs-6.18/formats.txt");
const HEADER_PAGE: &str = include_str!("../../tests/data/tracefs-6.18/header_page.txt");
const CPU0: &[u8] = include_bytes!("../../tests/data/tracefs-6.18/cpu0.raw.zst");
const CPU1: &[u8] = include_bytes!("../../tests/data/tracefs-6.18/cpu1.raw.zst");

/// Event counts in the fixture, as counted by the C program that it was made with.
const COUNTS: [(&str, u64); 7] = [
    ("alloc", 6232),
    ("free", 6464),
    ("free_batched", 6198),
    ("zone_locked", 30),
    ("fork", 2),
    ("exec", 1),
    ("exit", 2),
];

fn raw() -> [Vec<u8>; 2] {
    [CPU0, CPU1].map(|bytes| zstd::decode_all(bytes).unwrap())
}

fn formats() -> Vec<String> {
    FORMATS.split("name: ").skip(1).map(|format| format!("name: {format}")).collect()
}

/// A spool directory as a killed recorder leaves it behind.
fn left_over(directory: &Path, raw: [Vec<u8>; 2]) -> (PathBuf, PathBuf) {
    let output = directory.join("a.parquet");
    let path = spool_directory(&output);
    let spool = Spool::create(&path).unwrap();
    for (cpu, bytes) in raw.into_iter().enumerate() {
        fs::write(path.join(format!("cpu{cpu}.raw")), bytes).unwrap();
    }
    complete(&path, [u64::MAX; 2]);
    let metadata = Metadata {
        command: vec!["secret".to_string()],
        ended: Ending::RecorderKilled,
        ..Metadata::default()
    };
    let header_page = HEADER_PAGE.to_string();
    let (demand, cpus) = (Demand::PageAllocator, vec![0, 1]);
    let (formats, lost) = (formats(), Vec::new());
    let manifest = Manifest { demand, anonymize: false, header_page, formats, cpus, lost, metadata };
    spool.describe(&manifest).unwrap();
    (path, output)
}

/// Writes the times up to which the events of each CPU are complete.
fn complete(spool: &Path, times: [u64; 2]) {
    fs::write(spool.join("complete"), times.map(u64::to_le_bytes).concat()).unwrap();
}

fn recover_quietly(spool: &Path, output: &Path) -> Result<Summary, RecordError> {
    recover(spool, output, false, &mut |_| {})
}

fn events(output: &Path) -> Vec<Event> {
    TraceReader::open(output).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn the_fixture_has_exactly_the_events_that_were_counted() {
    let directory = tempfile::tempdir().unwrap();
    let (spool, output) = left_over(directory.path(), raw());
    let summary = recover_quietly(&spool, &output).unwrap();
    assert_eq!(summary.by_operation, COUNTS);
    assert_eq!((summary.events, summary.lost, summary.ended), (18929, 0, Ending::RecorderKilled));
    assert_eq!(format!("{:.4}", summary.seconds), "1.6573");
    assert!(!spool.exists());

    let reader = TraceReader::open(&output).unwrap();
    assert_eq!(reader.metadata().command, ["secret"]);
    assert!(reader.metadata().tasks.values().any(|name| name == "pf1"), "{:?}", reader.metadata().tasks);
    let mut seen: BTreeMap<Operation, u64> = BTreeMap::new();
    for event in events(&output) {
        *seen.entry(event.operation).or_default() += 1;
    }
    let seen: Vec<_> = seen.into_iter().map(|(operation, count)| (operation.name(), count)).collect();
    assert_eq!(seen, COUNTS);
}

/// Compares the streaming merge with sorting all events in memory.
#[test]
fn the_merge_is_a_stable_sort_by_time() {
    let directory = tempfile::tempdir().unwrap();
    let (spool, output) = left_over(directory.path(), raw());
    recover_quietly(&spool, &output).unwrap();

    let layout = SubBufferLayout::parse(HEADER_PAGE).unwrap();
    let formats: Vec<_> = formats().iter().map(|text| EventFormat::parse(text).unwrap()).collect();
    let decoder = Decoder::new(&TRACEPOINTS, &formats).unwrap();
    let mut expected = Vec::new();
    for (cpu, bytes) in raw().iter().enumerate() {
        for sub_buffer in bytes.chunks(layout.size) {
            for record in layout.open(sub_buffer).unwrap() {
                let (time, record) = record.unwrap();
                let event = decoder.decode(cpu as u16, time, record, &mut TaskNames::default());
                expected.extend(event.unwrap());
            }
        }
    }
    expected.sort_by_key(|event| event.time);
    let start = expected[0].time;
    expected.iter_mut().for_each(|event| event.time -= start);
    assert_eq!(events(&output), expected);
}

#[test]
fn names_can_be_hidden() {
    let directory = tempfile::tempdir().unwrap();
    let (spool, output) = left_over(directory.path(), raw());
    recover_quietly(&spool, &output).unwrap();
    let (plain, named) = (events(&output), TraceReader::open(&output).unwrap().metadata().tasks.clone());
    fs::remove_file(&output).unwrap();

    let layout = SubBufferLayout::parse(HEADER_PAGE).unwrap();
    let anonymizer = anonymizer(Demand::PageAllocator, layout, &formats()).unwrap();
    let mut hidden = raw();
    for sub_buffer in hidden.iter_mut().flat_map(|bytes| bytes.chunks_mut(layout.size)) {
        anonymizer.apply(sub_buffer).unwrap();
    }
    for name in named.values().filter(|name| name.len() > 3) {
        let is_there = |bytes: &[u8]| bytes.windows(name.len()).any(|window| window == name.as_bytes());
        assert!(raw().iter().any(|bytes| is_there(bytes)), "{name}");
        assert!(!hidden.iter().any(|bytes| is_there(bytes)), "{name}");
    }
    let (spool, output) = left_over(directory.path(), hidden);
    let opened = Spool::open(&spool).unwrap();
    let manifest = Manifest { anonymize: true, ..opened.manifest().unwrap().unwrap() };
    opened.describe(&manifest).unwrap();
    drop(opened);
    recover_quietly(&spool, &output).unwrap();
    let reader = TraceReader::open(&output).unwrap();
    let metadata = reader.metadata().clone();
    assert!(metadata.anonymized);
    assert!(metadata.tasks.values().all(|name| name.starts_with("task-")), "{:?}", metadata.tasks);
    // Tasks with equal names still have equal names, but other ones.
    let alike = |tasks: &BTreeMap<i32, String>| -> Vec<(i32, i32)> {
        let pairs = tasks.iter().flat_map(|a| tasks.iter().map(move |b| (a, b)));
        pairs.filter(|(a, b)| a.1 == b.1).map(|(a, b)| (*a.0, *b.0)).collect()
    };
    assert_eq!(alike(&metadata.tasks), alike(&named));
    assert_eq!(events(&output), plain);
}

#[test]
fn a_trace_ends_where_not_all_cpus_are_complete() {
    let directory = tempfile::tempdir().unwrap();
    let (spool, output) = left_over(directory.path(), raw());
    recover_quietly(&spool, &output).unwrap();
    let all = events(&output);
    fs::remove_file(&output).unwrap();

    let (spool, output) = left_over(directory.path(), raw());
    let layout = SubBufferLayout::parse(HEADER_PAGE).unwrap();
    let start =
        raw().iter().map(|bytes| layout.open(bytes).unwrap().next().unwrap().unwrap().0).min().unwrap();
    let until = all[10_000].time;
    complete(&spool, [u64::MAX, start + until]);
    let summary = recover_quietly(&spool, &output).unwrap();
    let kept: Vec<Event> = all.iter().filter(|event| event.time < until).copied().collect();
    assert!(!kept.is_empty());
    assert_eq!(events(&output), kept);
    assert_eq!((summary.lost, summary.left_out), (0, (all.len() - kept.len()) as u64));
    assert_eq!(TraceReader::open(&output).unwrap().metadata().left_out, summary.left_out);
}

/// The recorder was killed before the command began, or while it removed the spool.
#[test]
fn a_spool_without_a_description_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let (spool, output) = left_over(directory.path(), raw());
    fs::remove_file(spool.join("recording.json")).unwrap();
    assert!(matches!(recover_quietly(&spool, &output), Err(RecordError::NothingRecorded(_))));
    assert!(!spool.exists());

    let (spool, output) = left_over(directory.path(), raw());
    fs::remove_file(spool.join("recording.json")).unwrap();
    fs::write(spool.join("mine.txt"), "mine").unwrap();
    let options = Options::new(&output, vec!["true".to_string()]);
    let error = record(&options, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("a.parquet.spool: Directory not empty"), "{error}");
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 1, "what is no part of a spool stays");
}

#[test]
fn a_spool_is_its_users_alone() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let directory = tempfile::tempdir().unwrap();
    let (spool, output) = left_over(directory.path(), raw());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&spool), mode(&spool.join("recording.json"))), (0o700, 0o600));

    // Symbolic links that somebody else has put there are not followed.
    let precious = directory.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, spool.join("recording.json.new")).unwrap();
    let opened = Spool::open(&spool).unwrap();
    opened.describe(&opened.manifest().unwrap().unwrap()).unwrap();
    drop(opened);
    fs::rename(&spool, directory.path().join("elsewhere")).unwrap();
    symlink(directory.path().join("elsewhere"), &spool).unwrap();
    assert!(matches!(recover_quietly(&spool, &output), Err(RecordError::Spool { .. })));
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
}

#[test]
fn what_was_recorded_can_go_into_a_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let (spool, _) = left_over(directory.path(), raw());
    let fifo = directory.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    let reader = {
        let fifo = fifo.clone();
        std::thread::spawn(move || fs::read(fifo).unwrap())
    };
    let summary = recover_quietly(&spool, &fifo).unwrap();
    let bytes = reader.join().unwrap();
    assert_eq!(bytes.len() as u64, summary.bytes);
    assert_eq!(TraceReader::from_bytes(bytes.into()).unwrap().count(), 18929);
}

#[test]
fn a_spool_cut_short_gives_what_it_holds() {
    let directory = tempfile::tempdir().unwrap();
    let [cpu0, mut cpu1] = raw();
    cpu1.truncate(10 * 4096 + 100);
    let (spool, output) = left_over(directory.path(), [cpu0, cpu1]);
    let summary = recover_quietly(&spool, &output).unwrap();
    assert!(summary.events > 10_000 && summary.events < 18_929, "{}", summary.events);
}

#[test]
fn lost_events_fail_but_the_trace_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let [mut cpu0, cpu1] = raw();
    // Set the flag for lost events in the third sub-buffer of CPU 0.
    cpu0[2 * 4096 + 8 + 3] |= 0x80;
    let (spool, output) = left_over(directory.path(), [cpu0, cpu1]);
    let error = recover_quietly(&spool, &output).unwrap_err();
    assert!(
        error.to_string().starts_with("1 events were lost (the kernel's ring buffers were full); "),
        "{error}"
    );
    assert!(error.to_string().ends_with("Record again with a larger --buffer"), "{error}");
    let reader = TraceReader::open(&output).unwrap();
    assert_eq!((reader.metadata().lost, reader.metadata().events), (1, 18929));
    let [loss] = reader.metadata().losses[..] else { panic!("{:?}", reader.metadata().losses) };
    assert_eq!((loss.cpu, loss.events), (0, 1));
    let times: Vec<u64> =
        events(&output).iter().filter(|event| event.cpu == 0).map(|event| event.time).collect();
    let at = times.iter().position(|&time| time == loss.before).unwrap();
    assert_eq!(times[at - 1], loss.after, "between two events of the CPU that follow one another");
    assert!(reader.require_lossless().is_err());
}

#[test]
fn a_damaged_spool_is_named_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let [cpu0, mut cpu1] = raw();
    cpu1[3 * 4096 + 8..3 * 4096 + 10].fill(0xff);
    let (spool, output) = left_over(directory.path(), [cpu0, cpu1]);
    let error = recover_quietly(&spool, &output).unwrap_err().to_string();
    assert!(error.contains("cpu1.raw: sub-buffer 3: the sub-buffer is damaged at byte 8"), "{error}");
    let command = format!("`mmtwin record -o {} --recover {}`", output.display(), spool.display());
    assert!(error.contains(&command), "{error}");
    assert!(spool.join("recording.json").exists());
    assert!(!output.exists());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no half-written trace is left");
}

#[test]
fn nothing_that_exists_is_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let (spool, output) = left_over(directory.path(), raw());
    let options = Options::new(&output, vec!["true".to_string()]);
    let refusal = || record(&options, &mut |_| {}).unwrap_err().to_string();
    assert!(refusal().contains("recover its trace with `mmtwin record -o "), "{}", refusal());
    {
        let _in_use = Spool::open(&spool).unwrap();
        assert!(refusal().contains("is in use by another mmtwin"), "{}", refusal());
        assert!(matches!(recover_quietly(&spool, &output), Err(RecordError::StillRecording(_))));
    }
    fs::write(&output, "old").unwrap();
    assert!(refusal().ends_with("choose another name, or replace it with --force"), "{}", refusal());
    assert!(matches!(recover_quietly(&spool, &output), Err(RecordError::Output(OutputError::Exists(_)))));
    assert_eq!(fs::read(&output).unwrap(), b"old");
}

#[test]
fn values_without_a_place_in_a_trace_are_refused() {
    let formats: Vec<_> = formats().iter().map(|text| EventFormat::parse(text).unwrap()).collect();
    let decoder = Decoder::new(&TRACEPOINTS, &formats).unwrap();
    let free = formats.iter().find(|format| format.name == "mm_page_free").unwrap();
    let mut record = vec![0; 24];
    record[..2].copy_from_slice(&free.id.to_le_bytes());
    let decode = |record: &[u8]| decoder.decode(0, 0, record, &mut TaskNames::default());
    assert!(decode(&record).unwrap().is_some());
    assert_eq!(decode(&record[..12]).unwrap_err().to_string(), "a record of `mm_page_free` is too short");
    record[13] = 1;
    assert_eq!(decode(&record).unwrap_err().to_string(), "a record of `mm_page_free` has pfn 1099511627776");
    record[0] = 0;
    record[1] = 0;
    assert_eq!(decode(&record).unwrap(), None);
}

#[test]
fn the_area_of_a_stack_has_a_guard_page_and_the_stack() {
    let formats: Vec<_> = formats().iter().map(|text| EventFormat::parse(text).unwrap()).collect();
    let decoder = Decoder::new(&TRACEPOINTS, &formats).unwrap();
    let area = formats.iter().find(|format| format.name == "alloc_vmap_area").unwrap();
    let mut record = vec![0; 52];
    record[..2].copy_from_slice(&area.id.to_le_bytes());
    record[16..24].copy_from_slice(&(20_u64 << 10).to_le_bytes());
    record[24..32].copy_from_slice(&(16_u64 << 10).to_le_bytes());
    let event = decoder.decode(1, 5, &record, &mut TaskNames::default()).unwrap().unwrap();
    assert_eq!((event.operation, event.cpu, event.stack_pages()), (Operation::KernelStack, 1, 4));
}

#[test]
fn a_missing_field_is_named_before_recording() {
    let formats: Vec<_> = formats()
        .iter()
        .map(|text| EventFormat::parse(&text.replace("gfp_flags;", "flags;")).unwrap())
        .collect();
    let error = Decoder::new(&TRACEPOINTS, &formats).err().unwrap().to_string();
    assert!(error.contains("event `mm_page_alloc` has no field `gfp_flags`"), "{error}");
}

#[test]
fn a_missing_directory_is_named_before_recording() {
    let directory = tempfile::tempdir().unwrap();
    let (spool, _) = left_over(directory.path(), raw());
    let missing = directory.path().join("none");
    let output = missing.join("z.parquet");
    let expected =
        format!("{}: no directory {}; make it, or write elsewhere", output.display(), missing.display());
    let recorded = record(&Options::new(&output, vec!["true".to_string()]), &mut |_| {});
    assert_eq!(recorded.unwrap_err().to_string(), expected);
    assert_eq!(recover_quietly(&spool, &output).unwrap_err().to_string(), expected);
    assert!(spool.exists() && !missing.exists());
}
