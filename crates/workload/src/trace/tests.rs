//! Tests that traces are read as they were written and that other files are refused.

use bytes::Bytes;
use parquet::file::metadata::KeyValue;
use proptest::prelude::*;

use super::*;
use crate::content_hash::ContentHasher;
use crate::table::{Column, Field, Rows, TableWriter, Values};

fn any_event() -> impl Strategy<Value = Event> {
    let operation = (0..Operation::ALL.len()).prop_map(|index| Operation::ALL[index]);
    (any::<u64>(), any::<u32>(), any::<u32>(), any::<i32>(), any::<u16>(), operation, any::<(u8, i8, bool)>())
        .prop_map(|(time, pfn, argument, task, cpu, operation, (order, migratetype, blocked))| Event {
            time,
            pfn,
            argument,
            task,
            cpu,
            operation,
            order,
            migratetype,
            blocked,
        })
}

fn write(events: &[Event], metadata: Metadata) -> (Metadata, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let mut writer = TraceWriter::create(&path).unwrap();
    for event in events {
        writer.push(*event).unwrap();
    }
    let (metadata, bytes) = writer.finish(metadata).unwrap();
    let content = std::fs::read(&path).unwrap();
    assert_eq!(content.len() as u64, bytes);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "only the finished file is left");
    (metadata, content)
}

fn read(content: Vec<u8>) -> Result<(Metadata, Vec<Event>), TraceError> {
    let reader = TraceReader::from_bytes(Bytes::from(content))?;
    let metadata = reader.metadata().clone();
    Ok((metadata, reader.collect::<Result<_, _>>()?))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_is_written_is_read(mut events in prop::collection::vec(any_event(), 0..300), lost: u64, name: String) {
        events.sort_by_key(|event| event.time);
        let metadata = Metadata { lost, tasks: [(7, name)].into(), ..Metadata::default() };
        let (written, content) = write(&events, metadata);
        let (metadata, read) = read(content).unwrap();
        // JSON does not keep the last digit.
        prop_assert!((written.seconds - metadata.seconds).abs() <= 1e-12 * written.seconds);
        prop_assert_eq!(&written, &Metadata { seconds: written.seconds, ..metadata });
        prop_assert_eq!(events, read);
    }

}

#[test]
fn damage_is_noticed() {
    let events: Vec<Event> = (0..500)
        .map(|i| Event { time: i * i, pfn: 7919 * i as u32 % 512, task: i as i32 % 5, ..alloc() })
        .collect();
    let tasks = [(12, "cc1".to_string())].into();
    let (_, content) =
        write(&events, Metadata { tasks, kernel_release: "6.18.1".into(), ..Metadata::default() });
    crate::damage::is_noticed(&content, 400, |mutant| read(mutant).map_err(|error| error.to_string()));
}

/// Traces of the format without a hash are read; traces of a later format that lack the hash are refused.
#[test]
fn a_hash_is_required_of_formats_that_have_one() {
    let before = document(3, 0).replace(&format!("\"format\":{FORMAT}"), "\"format\":1");
    assert_eq!(read(altered("", None, Some(&before))).unwrap().1.len(), 3);
    let message = refusal(table("", None, Some(&document(3, 0)), false));
    assert!(message.contains("(its content hash is missing)"), "{message}");
}

fn alloc() -> Event {
    Event {
        time: 0,
        pfn: 4096,
        argument: 0x140dca,
        task: 12,
        cpu: 1,
        operation: Operation::Alloc,
        order: 0,
        migratetype: 1,
        blocked: false,
    }
}

#[test]
fn batches_and_iterator_give_each_row_once() {
    let events: Vec<Event> = (0..200_000).map(|time| Event { time, ..alloc() }).collect();
    let (_, content) = write(&events, Metadata::default());
    let mut reader = TraceReader::from_bytes(Bytes::from(content)).unwrap();
    assert_eq!(reader.next().unwrap().unwrap(), events[0]);
    let mut seen = 1;
    loop {
        let batch = reader.next_batch().unwrap();
        if batch.is_empty() {
            break;
        }
        assert_eq!(batch[0], events[seen]);
        seen += batch.len();
    }
    assert_eq!(seen, events.len());
    assert!(reader.next().is_none());
}

#[test]
fn an_unfinished_trace_leaves_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    std::fs::write(&path, "old").unwrap();
    let mut writer = TraceWriter::create(&path).unwrap();
    writer.push(alloc()).unwrap();
    drop(writer);
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
}

/// A trace of three rows with one column replaced.
fn altered(column: &str, replacement: Option<Column>, document: Option<&str>) -> Vec<u8> {
    table(column, replacement, document, true)
}

fn table(column: &str, replacement: Option<Column>, document: Option<&str>, hashed: bool) -> Vec<u8> {
    let columns = [
        Values::U64(vec![0, 10, 20]),
        Values::U16(vec![0, 0, 1]),
        Values::I32(vec![5, 5, 6]),
        Values::Text(["alloc", "free", "exit"].iter().collect()),
        Values::U8(vec![0, 0, 9]),
        Values::I8(vec![1, -1, -1]),
        Values::U32(vec![1, 1, 2]),
        Values::U32(vec![0, 0, 0]),
        Values::Bool(vec![false, false, false]),
    ];
    let columns = schema::FIELDS.iter().zip(columns).filter_map(|(field, values)| {
        let values = if field.name() == column { replacement.clone()? } else { values.into() };
        Some((Field::new(field.name(), values.values().column_type()).optional(), values))
    });
    let (fields, columns): (Vec<Field>, Vec<Column>) = columns.unzip();
    let rows = Rows::new(columns);
    let mut writer = TableWriter::new(Vec::new(), &fields, schema::properties()).unwrap();
    writer.write(&[&rows]).unwrap();
    let mut texts = Vec::new();
    if let Some(document) = document {
        let mut hasher = ContentHasher::new(&fields);
        hasher.add(&rows).unwrap();
        texts.extend(hashed.then(|| hasher.finish(&[(METADATA_KEY, document)]).key_value()));
        texts.push(KeyValue::new(METADATA_KEY.to_string(), document.to_string()));
    }
    writer.finish(texts).unwrap()
}

fn document(events: u64, lost: u64) -> String {
    serde_json::to_string(&Metadata { format: FORMAT, events, lost, ..Metadata::default() }).unwrap()
}

fn refusal(content: Vec<u8>) -> String {
    read(content).unwrap_err().to_string()
}

#[test]
fn the_unaltered_trace_is_accepted() {
    let (metadata, events) = read(altered("", None, Some(&document(3, 0)))).unwrap();
    assert_eq!((metadata.events, events.len()), (3, 3));
    assert_eq!(events[2].operation, Operation::Exit);
}

#[test]
fn other_files_are_told_apart() {
    assert_eq!(
        refusal(b"time,cpu\n1,2\n".to_vec()),
        "trace in memory is not a Parquet file; record a trace with `mmtwin record -o build.parquet -- COMMAND`"
    );
    assert_eq!(refusal(Vec::new()), refusal(b"x".to_vec()));
    assert_eq!(
        refusal(altered("", None, None)),
        "trace in memory is a Parquet file, but not an mmtwin trace (no `mmtwin.trace` document; its columns are \
         time, cpu, task, operation, order, migratetype, pfn, argument, blocked); \
         record one with `mmtwin record -o build.parquet -- COMMAND`"
    );
    let missing = TraceReader::open("/nonexistent/a.parquet").map(|_| ()).unwrap_err().to_string();
    assert!(missing.starts_with("/nonexistent/a.parquet: No such file"), "{missing}");
    let directory = TraceReader::open("/").map(|_| ()).unwrap_err().to_string();
    assert_eq!(directory, "/: is a directory");
}

#[test]
fn damaged_traces_are_refused() {
    let (_, content) = write(&[alloc(); 100], Metadata::default());
    for length in [4, 12, content.len() / 2, content.len() - 1] {
        let message = refusal(content[..length].to_vec());
        assert!(message.contains("is cut short or damaged"), "{message}");
    }
    let message = refusal(altered("", None, Some(&document(4, 0))));
    assert!(message.contains("(3 rows, its metadata says 4)"), "{message}");
}

/// Files, found by fuzzing, that make the Parquet crate panic.
#[test]
fn a_panic_of_the_parquet_crate_is_an_error() {
    for content in [&include_bytes!("damaged/offset.parquet")[..], include_bytes!("damaged/encoding.parquet")]
    {
        let message = refusal(content.to_vec());
        assert!(message.contains("(the Parquet reader cannot make sense of it)"), "{message}");
    }
}

#[test]
fn metadata_is_checked() {
    let message = refusal(altered("", None, Some(r#"{"format": 4, "new": {}}"#)));
    assert_eq!(message, "trace in memory has trace format 4, this mmtwin reads up to 3; update mmtwin");
    let message = refusal(altered("", None, Some("{\n  \"format\": 1,\n  oops }")));
    assert!(message.contains("line 3 column 3"), "{message}");
    let message = refusal(altered("", None, Some(r#"{"format": 1}"#)));
    assert!(message.contains("missing field `mmtwin_version`"), "{message}");
}

#[test]
fn columns_are_checked() {
    let document = document(3, 0);
    assert_eq!(
        refusal(altered("pfn", None, Some(&document))),
        "trace in memory: column `pfn` (UInt32) is missing"
    );
    let wide = Values::U64(vec![1, 2, 3]).into();
    assert_eq!(
        refusal(altered("pfn", Some(wide), Some(&document))),
        "trace in memory: column `pfn` is UInt64, must be UInt32"
    );
    let holes = [Some(1), None, Some(3)].into_iter();
    let holes = Column::optional(holes, |values| Values::I32(values.collect()));
    assert_eq!(
        refusal(altered("task", Some(holes), Some(&document))),
        "trace in memory: row 1: column `task` has no value"
    );
    let names = Values::Text(["alloc", "free", "mmap"].iter().collect()).into();
    assert_eq!(
        refusal(altered("operation", Some(names), Some(&document))),
        "trace in memory: row 2: unknown operation `mmap`"
    );
}

#[test]
fn time_must_not_go_backwards() {
    let times = Values::U64(vec![0, 20, 10]).into();
    assert_eq!(
        refusal(altered("time", Some(times), Some(&document(3, 0)))),
        "trace in memory: row 2: time 10 is before the previous row's 20; sort the rows by time"
    );
    let directory = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(directory.path().join("a.parquet")).unwrap();
    writer.push(Event { time: 2, ..alloc() }).unwrap();
    assert!(matches!(
        writer.push(Event { time: 1, ..alloc() }),
        Err(TraceError::TimeBackwards { row: 1, time: 1, previous: 2, .. })
    ));
}

#[test]
fn lost_events_are_named_with_the_remedy() {
    let reader = TraceReader::from_bytes(altered("", None, Some(&document(3, 41))).into()).unwrap();
    assert_eq!(
        reader.require_lossless().unwrap_err().to_string(),
        "trace in memory: the kernel lost 41 events besides the 3 recorded, so it cannot be replayed exactly; \
         record again with a larger --buffer"
    );
    let reader = TraceReader::from_bytes(altered("", None, Some(&document(3, 0))).into()).unwrap();
    assert!(reader.require_lossless().is_ok());
}
