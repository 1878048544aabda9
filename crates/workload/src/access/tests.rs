//! Tests of every reader on real traces (`samples/README.md` says where they come from) and on damaged ones.

use std::collections::HashSet;
use std::io::{Cursor, Write};
use std::os::fd::AsRawFd;

use proptest::prelude::*;

use super::*;

const BLOCK_CSV: &[u8] = include_bytes!("samples/cachelib-block.csv");
const BLOCK_ORACLE: &[u8] = include_bytes!("samples/cachelib-block.oracleGeneral");
const KV_CSV: &[u8] = include_bytes!("samples/cachelib-kv.csv");
const FIO: &[u8] = include_bytes!("samples/fio-v3.log");
const BLKPARSE: &[u8] = include_bytes!("samples/blkparse.txt");
const LACKEY: &[u8] = include_bytes!("samples/lackey.txt");
const PAGE_CACHE: &[u8] = include_bytes!("samples/page-cache.parquet");

fn samples() -> [(&'static [u8], Format); 7] {
    [
        (BLOCK_CSV, Format::Csv(Columns::default())),
        (BLOCK_ORACLE, Format::OracleGeneral),
        (KV_CSV, Format::Csv(Columns::default())),
        (FIO, Format::Fio),
        (BLKPARSE, Format::Blkparse(BlockEvent::Queue)),
        (LACKEY, Format::Lackey),
        (PAGE_CACHE, Format::PageCache),
    ]
}

/// All accesses before the end or the error, and the error.
fn read(bytes: impl AsRef<[u8]>, format: Option<Format>) -> (Vec<Access>, Option<String>) {
    let bytes = bytes.as_ref().to_vec();
    let accesses = match Accesses::from_reader(Cursor::new(bytes), "trace".to_string(), format) {
        Ok(accesses) => accesses,
        Err(error) => return (Vec::new(), Some(error.to_string())),
    };
    let (mut read, mut failed) = (Vec::new(), None);
    for access in accesses {
        assert!(failed.is_none(), "the trace goes on after its error");
        match access {
            Ok(access) => read.push(access),
            Err(error) => failed = Some(error.to_string()),
        }
    }
    (read, failed)
}

fn good(bytes: impl AsRef<[u8]>, format: Option<Format>) -> Vec<Access> {
    let (accesses, error) = read(bytes, format);
    assert_eq!(error, None);
    accesses
}

fn error(bytes: impl AsRef<[u8]>, format: &str) -> String {
    read(bytes, Some(format.parse().unwrap())).1.expect("an error")
}

/// Numbers of accesses, writes, pages touched and different pages; a script of a few lines computes the same.
fn counts(accesses: &[Access]) -> (usize, usize, u64, usize) {
    let pages = accesses.iter().map(|access| u64::from(access.pages)).sum();
    let mut numbers = PageNumbers::new();
    for access in accesses {
        for index in access.index..access.index + u64::from(access.pages) {
            numbers.number(access.object, index);
        }
    }
    (accesses.len(), accesses.iter().filter(|access| access.write).count(), pages, numbers.len())
}

/// A record of oracleGeneral.
fn record(time: u32, object: u64, size: u32, next: i64) -> Vec<u8> {
    let mut bytes = time.to_le_bytes().to_vec();
    bytes.extend(object.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes.extend(next.to_le_bytes());
    bytes
}

#[test]
fn every_sample_is_recognised_and_counts_what_a_script_counts() {
    // Counted with Python's csv module, str.split and pyarrow; the modules of the formats say what is not an
    // access.
    let expected = [
        (300, 102, 242_399, 235_305),
        (300, 0, 242_390, 177),
        (53, 4, 55, 27),
        (36, 19, 79, 69),
        (51, 28, 104, 102),
        (1200, 151, 1200, 10),
        (425, 5, 3943, 1692),
    ];
    for ((bytes, format), expected) in samples().into_iter().zip(expected) {
        let accesses = good(bytes, None);
        assert_eq!(accesses, good(bytes, Some(format.clone())), "{format:?}");
        assert_eq!(accesses, good(zstd::encode_all(bytes, 3).unwrap(), None), "{format:?}");
        let mut counted = counts(&accesses);
        if format == Format::OracleGeneral {
            counted.3 = accesses.iter().map(|access| access.object).collect::<HashSet<_>>().len();
        }
        assert_eq!(counted, expected, "{format:?}");
    }
}

/// libCacheSim itself converted the CSV sample: its records must be the same trace as the CSV.
#[test]
fn csv_and_its_conversion_by_libcachesim_agree() {
    let columns = "csv:time=op_time,object=block_id,size=4".parse().unwrap();
    let dense = |accesses: Vec<Access>| {
        let mut numbers = PageNumbers::new();
        let line =
            |access: Access| (access.time_ns, numbers.number(access.object, 0), access.index, access.pages);
        accesses.into_iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(dense(good(BLOCK_CSV, Some(columns))), dense(good(BLOCK_ORACLE, None)));
}

#[test]
fn a_file_is_opened_by_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.oracleGeneral.zst");
    // Times fall, so only the file's name identifies the format.
    let records = [record(9, 7, 1, -1), record(1, 8, 1, -1)].concat();
    std::fs::write(&path, zstd::encode_all(&records[..], 3).unwrap()).unwrap();
    let mut accesses = open(&path, None).unwrap();
    let mut read = Vec::new();
    loop {
        let batch = accesses.next_batch().unwrap();
        if batch.is_empty() {
            break;
        }
        read.extend_from_slice(batch);
    }
    assert_eq!(read, good(&records, Some(Format::OracleGeneral)));

    let missing = open(directory.path().join("none"), None).err().unwrap().to_string();
    assert!(missing.ends_with("none: No such file or directory (os error 2)"), "{missing}");
    let is_directory = open(directory.path(), None).err().unwrap().to_string();
    assert!(is_directory.ends_with("Is a directory (os error 21)"), "{is_directory}");
}

/// Reads every sample, plain and compressed, from a pipe, which cannot seek.
#[test]
fn a_pipe_is_read_to_its_end() {
    for (sample, format) in samples() {
        for bytes in [sample.to_vec(), zstd::encode_all(sample, 3).unwrap()] {
            let (pipe, mut writer) = std::io::pipe().unwrap();
            let writing = std::thread::spawn(move || writer.write_all(&bytes).unwrap());
            let read: Vec<Access> = open(format!("/proc/self/fd/{}", pipe.as_raw_fd()), None)
                .and_then(Iterator::collect)
                .unwrap();
            writing.join().unwrap();
            assert_eq!(read, good(sample, Some(format.clone())), "{format:?}");
        }
    }
}

#[test]
fn a_part_of_a_longer_trace_is_told() {
    let beyond_end = |records: &[Vec<u8>]| {
        let input = Cursor::new(records.concat());
        let mut accesses = Accesses::from_reader(input, "trace".to_string(), None).unwrap();
        assert!(accesses.by_ref().all(|access| access.is_ok()));
        accesses.beyond_end()
    };
    // Records are numbered from 1: the third is the next access of the first. Records of size 0 are numbered
    // too.
    let whole = [record(1, 7, 1, 3), record(1, 8, 0, -1), record(3, 7, 1, i64::MAX)];
    assert_eq!(beyond_end(&whole), None);
    assert_eq!(beyond_end(&whole[..2]), Some(3));
    assert_eq!(beyond_end(&[record(1, 7, 1, 9), record(1, 8, 1, 5)]), Some(9));
    // As libCacheSim writes them.
    let sample: Vec<Vec<u8>> = BLOCK_ORACLE.chunks(24).map(<[u8]>::to_vec).collect();
    assert_eq!(beyond_end(&sample), None);
    assert_eq!(beyond_end(&sample[..290]), Some(293));
    assert_eq!(
        Accesses::from_reader(Cursor::new("7\n8\n"), "trace".into(), None).unwrap().beyond_end(),
        None
    );
}

#[test]
fn an_object_of_several_pages_is_one_access_to_all_of_them() {
    let bytes = [record(1, 7, 1, 2), record(1, 8, 0, -1), record(3, 7, 8193, -1)].concat();
    let access = |time_ns, pages| Access { time_ns, object: 7, index: 0, pages, write: false };
    assert_eq!(good(bytes, None), [access(1_000_000_000, 1), access(3_000_000_000, 3)]);
}

#[test]
fn a_damaged_oracle_trace_gives_what_it_has_and_says_where() {
    let bytes = [record(1, 7, 1, 2), record(1, 8, 1, -1), record(1, 9, 1, -3)].concat();
    let (accesses, error) = read(&bytes[..40], Some(Format::OracleGeneral));
    assert_eq!(accesses.len(), 1);
    assert_eq!(
        error.unwrap(),
        "trace: at byte 24: the last record has 16 bytes instead of 24: the trace is cut short; copy it again"
    );
    let (accesses, error) = read(&bytes, Some(Format::OracleGeneral));
    assert_eq!(accesses.len(), 2);
    assert_eq!(
        error.unwrap(),
        "trace: at byte 48: next access -3, which must be the number of a record, or -1 for none: these are not \
         records of oracleGeneral"
    );
    let packed = zstd::encode_all(BLOCK_ORACLE, 3).unwrap();
    let (_, error) = read(&packed[..packed.len() / 2], Some(Format::OracleGeneral));
    let error = error.unwrap();
    assert!(error.starts_with("trace is cut short or damaged: zstd cannot decompress it ("), "{error}");
}

/// A reader that returns its bytes, then fails once, then ends.
struct FailsOnce(Cursor<Vec<u8>>, bool);

impl Read for FailsOnce {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !std::mem::replace(&mut self.1, true) => Err(std::io::Error::from_raw_os_error(5)),
            read => Ok(read),
        }
    }
}

#[test]
fn an_error_of_the_system_is_not_taken_for_the_end() {
    for (records, format) in [(0, None), (1, None), (100_000, None), (1, Some(Format::OracleGeneral))] {
        let bytes: Vec<u8> = (0..records).flat_map(|object| record(1, object, 1, -1)).collect();
        let input = FailsOnce(Cursor::new(bytes), false);
        let read: Result<Vec<Access>, AccessError> =
            Accesses::from_reader(input, "trace".to_string(), format).and_then(Iterator::collect);
        let error = read.unwrap_err().to_string();
        assert!(error.starts_with("trace: Input/output error"), "{records}: {error}");
    }
}

#[test]
fn version_2_of_an_iolog_says_the_same_with_waits_for_times() {
    // The recording in version 3, with each time turned into a `wait` before its line.
    let mut before = 0;
    let mut version_2 = "fio version 2 iolog\n".to_string();
    for line in std::str::from_utf8(FIO).unwrap().lines().skip(1) {
        let (time, rest) = line.split_once(' ').unwrap();
        let time: u64 = time.parse().unwrap();
        version_2 += &format!("d/db.0 wait {} 0\n{rest}\n", time - before);
        before = time;
    }
    assert_eq!(good(&version_2, None), good(FIO, None));
    let last = Access { time_ns: 2_450_000, object: 1, index: 4, pages: 5, write: true };
    assert_eq!(good(FIO, None).last(), Some(&last));
}

#[test]
fn wrong_lines_of_an_iolog_are_named() {
    assert_eq!(
        error("fio version 1 iolog\n", "fio"),
        "trace: line 1: `fio version 1 iolog`, where a log starts with `fio version 2 iolog` or `fio version 3 iolog`"
    );
    assert_eq!(
        error("fio version 2 iolog\na add\na read 0\n", "fio"),
        "trace: line 3: `a read 0` must be `FILE add|open|close` or `FILE \
         read|write|trim|sync|datasync|wait BYTE BYTES`"
    );
    assert_eq!(
        error("fio version 2 iolog\na add\nb read 0 1\n", "fio"),
        "trace: line 3: `b` is used, but no line before adds it"
    );
    assert_eq!(
        error("fio version 3 iolog\n1 a add\n2 a read 0 40", "fio"),
        "trace: line 3: the last line has no end: the trace is cut short; copy it again"
    );
    assert_eq!(
        error("fio version 3 iolog\n1 a add\n2 a read 18446744073709551615 2\n", "fio"),
        "trace: line 3: 2 bytes from byte 18446744073709551615 on are more than a file can have"
    );
    assert!(
        error("fio version 3 iolog\n1 a wait 5 0\n", "fio")
            .starts_with("trace: line 2: `1 a wait 5 0` must be")
    );
}

#[test]
fn block_requests_are_counted_as_asked_for() {
    let first = Access { time_ns: 0, object: 7 << 20, index: 123, pages: 1, write: false };
    assert_eq!(good(BLKPARSE, None).first(), Some(&first));
    let issued = "blkparse:D".parse().unwrap();
    let at_other_times =
        |accesses: Vec<Access>| accesses.into_iter().map(|access| Access { time_ns: 0, ..access });
    assert!(
        at_other_times(good(BLKPARSE, Some(issued))).eq(at_other_times(good(BLKPARSE, None))),
        "issued requests differ from queued ones"
    );

    let line = "8,16 0 1 0.5 4 D W 8 + 8 [dd]\n";
    assert_eq!(
        error(line, "blkparse"),
        "trace: line 1: no queued (Q) requests, but 1 issued (D); read it as `blkparse:D`"
    );
    let write = Access { time_ns: 500_000_000, object: 8 << 20 | 16, index: 1, pages: 1, write: true };
    assert_eq!(good(line, Some("blkparse:D".parse().unwrap())), [write]);
    // A flush with data is a write of that data.
    assert_eq!(good("8,16 0 1 0.5 4 Q FWFS 8 + 8 [dd]\n", None), [write]);
    assert_eq!(
        error("8,16 0 1 0.5 4 Q W 8 8 [dd]\n", "blkparse"),
        "trace: line 1: `8,16 0 1 0.5 4 Q W 8 8 [dd]` must be `MAJOR,MINOR CPU SEQUENCE SECONDS PID EVENT RWBS \
         SECTOR + SECTORS [COMMAND]`, as blkparse prints by default"
    );
}

#[test]
fn a_program_in_between_lackeys_lines_is_refused() {
    assert_eq!(
        error("I  0401ab70,3\nhello\n", "lackey"),
        "trace: line 2: `hello` must be `I  ADDRESS,BYTES`, ` L ADDRESS,BYTES`, ` S ...` or ` M ...`; where a \
         program's output is in between, record with --log-file"
    );
    let modify = Access { time_ns: 0, object: 0, index: 1, pages: 2, write: true };
    assert_eq!(good("I  00001000,3\n M 00001ffc,8\n", None)[1], modify);
}

#[test]
fn ids_are_numbers_or_any_text() {
    let text = "7\nabc\n\nabd\r\nabc\n007";
    let accesses = good(text, None);
    assert_eq!(accesses, good(text, Some(Format::Ids)));
    let objects: Vec<u64> = accesses.iter().map(|access| access.object).collect();
    assert_eq!((objects[0], objects[1], objects[4]), (7, objects[3], 7));
    assert_ne!(objects[1], objects[2]);
    assert!(accesses.iter().all(|access| (access.index, access.pages, access.write) == (0, 1, false)));
    let endless = "a".repeat(1 << 17);
    assert_eq!(error(endless, "ids"), "trace: line 1: no line end in 65536 bytes: this is not a text trace");
}

#[test]
fn columns_are_found_by_name_by_place_or_in_the_usual_order() {
    let access = |index, pages, write| Access { time_ns: 1_500_000_000, object: 7, index, pages, write };
    assert_eq!(good(" 1.5, 7 ,4097\n", None), [access(0, 2, false)]);
    assert_eq!(good("# time\tid\top\n1.5\t7\tSET_LEASE\n1.5\t7\tdelete\n", None), [access(0, 1, true)]);
    let columns = "csv:offset=1,object=3,time=2".parse().unwrap();
    assert_eq!(good("8192 1.5 7\n", Some(columns)), [access(2, 1, false)]);
    assert_eq!(good("key\n7\n", None).len(), 1);
    assert_eq!(good("\"7\",1.5\n", Some("csv:object=1,time=2".parse().unwrap())), [access(0, 1, false)]);
}

#[test]
fn wrong_tables_are_named() {
    let remedy = "name the columns that count by place or name, as in `csv:time=1,object=2,size=3`";
    assert_eq!(error("1,2\n", "csv"), format!("trace: line 1: 2 columns without a header; {remedy}"));
    assert_eq!(
        error("when,what\n1,2\n", "csv"),
        format!(
            "trace: line 1: no column of the header (when, what) names objects (one of object, object_id, obj_id, \
             id, key, block_id); {remedy}"
        )
    );
    assert_eq!(
        error("time,key\n1,2\n", "csv:object=4"),
        "trace: line 1: no column 4; the first line has 2: time, key"
    );
    assert_eq!(
        error("time,key,size\n1,2,3\n1,2\n", "csv"),
        "trace: line 3: 2 fields, where the first line has 3: the line is cut or damaged"
    );
    assert_eq!(error("time,key,size\n1,2,x\n", "csv"), "trace: line 2: size `x` must be a number of bytes");
    assert_eq!(
        error("time,key\n1700000000000,2\n1700000000000000000,2\n", "csv"),
        "trace: line 2: time `1700000000000` must be seconds, below 18446744073; where it is not, leave the column \
         out"
    );
    assert_eq!(error("time,key\n1,\n", "csv"), "trace: line 2: the object is missing");
}

#[test]
fn other_files_are_refused_with_a_remedy() {
    let refused = |bytes: &[u8]| read(bytes, None).1.unwrap();
    assert_eq!(refused(b""), "trace is empty; record or copy it again");
    assert_eq!(refused(&zstd::encode_all(&b""[..], 3).unwrap()), "trace is empty; record or copy it again");
    assert_eq!(
        refused(b"\xfd7zXZ\0rest"),
        "trace is compressed with xz, which is not supported; decompress it (`xz -dk`) or use zstd"
    );
    let names = Format::NAMES;
    assert!(refused(b"PAR1xxxx").starts_with("trace: cut short or damaged ("));
    assert_eq!(
        refused(&[0xfe; 100]),
        format!(
            "trace is neither text (line 1: 0xfe at byte 0 is not UTF-8) nor records of oracleGeneral (at byte 0: next \
             access -72340172838076674, which must be a record after 0, or -1 for none); name its format, one of \
             {names}"
        )
    );
    assert_eq!(refused(b"\n\n"), format!("trace has blank lines only; name its format, one of {names}"));
    for (text, line, first) in [
        ("root:x:0:0:root:/root:/bin/bash\n", 1, "root:x:0:0:root:/root:/bin/bash"),
        ("\n# mmtwin\n\nHow many, and which, pages?\n", 2, "# mmtwin"),
    ] {
        assert_eq!(
            refused(text.as_bytes()),
            format!(
                "trace is text that does not begin like a trace: line {line}, `{first}`, has neither a number nor one of the \
                 columns object, object_id, obj_id, id, key, block_id; name its format, one of {names}"
            )
        );
    }
}

#[test]
fn recordings_of_damon_are_refused_by_name() {
    let damon = "a recording of DAMON";
    let recordings: [(&[u8], &str); 6] = [
        (b"PERFILE2h\0\0\0\0\0\0\0", "perf.data"),
        (b"damon_recfmt_ver\x02\0\0\0", damon),
        (b"x\x9c\xed\xbd\x4b\xaf", "a recording of DAMON compressed with zlib, as damo writes it"),
        (
            b"[\n    {\n        \"kdamond_idx\": null,\n        \"snapshots\": [{\"regions\": [{\"start\": \"4096\", \
              \"nr_accesses\": {\"samples\": \"3\"}}]}]\n    }\n]\n",
            damon,
        ),
        (b"base_time_absolute: 8 m 59.809 s\n\nmonitoring_start:                0 ns\n", damon),
        (b"kdamond.0  4452 [000] 82877.315633: damon:damon_aggregated: target_id=1 nr_regions=1 4096-8192: 0 3\n", damon),
    ];
    for (bytes, what) in recordings {
        assert_eq!(
            read(bytes, None).1.unwrap(),
            format!(
                "trace is {what}, which cannot be replayed: it samples accesses or counts them by region, and a replay \
                 needs each access; record with `mmtwin record --page-cache` or valgrind's lackey"
            )
        );
    }
}

#[test]
fn records_are_not_read_as_text() {
    for name in ["ids", "csv", "csv:object=1", "fio", "blkparse", "lackey"] {
        let error = error(BLOCK_ORACLE, name);
        let expected = "a zero at byte 12: this is not text; name another format, or none";
        assert_eq!(error, format!("trace: line 1: {expected}"), "{name}");
    }
}

#[test]
fn what_stops_to_be_text_or_records_is_named() {
    let refused = |bytes: &[u8]| read(bytes, None).1.unwrap();
    let mut text = "time,key\n".to_string() + &"1,2\n".repeat(500);
    text.truncate(2005);
    let latin_1 = [text.as_bytes(), b"3,\xe9t\xe9\n"].concat();
    let error = refused(&latin_1);
    let expected =
        "trace is neither text (line 501: 0xe9 at byte 2007 is not UTF-8) nor records of oracleGeneral (";
    assert!(error.starts_with(expected), "{error}");
    // Any byte may be part of an id, so naming the format works.
    assert_eq!(good(&latin_1, Some("csv".parse().unwrap())).len(), 500);
    let error = refused(&[text.as_bytes(), b"3,a\0b\n"].concat());
    let expected = "trace is neither text (line 501: 0x00 at byte 2008 is a control character) nor records";
    assert!(error.starts_with(expected), "{error}");

    let records: Vec<u8> = (0..200).flat_map(|object| record(9, object, 1, -1)).collect();
    let damaged = |at: usize, record: Vec<u8>| [&records[..at * 24], &record, &records[at * 24..]].concat();
    let error = refused(&damaged(125, record(9, 1, 1, 125)));
    let expected =
        "oracleGeneral (at byte 3000: next access 125, which must be a record after 125, or -1 for none);";
    assert!(error.contains(expected), "{error}");
    let error = refused(&damaged(125, record(8, 1, 1, -1)));
    assert!(error.contains("(at byte 3000: time 8, which must not be before 9);"), "{error}");
    assert!(refused(b"\x01\x02").contains("oracleGeneral (2 bytes are less than a record of 24);"));
}

/// A trace of the page cache returns the accesses that were written to it, in order, without additions and
/// removals.
#[test]
fn the_page_cache_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let events: Vec<PageCacheEvent> = (0..100_000u32)
        .map(|i| PageCacheEvent {
            time: u64::from(i / 3),
            cpu: (i % 5) as u16,
            task: i as i32 % 7 - 1,
            object: i % 11,
            index: u64::from(i) * 1_000_003 % 4096,
            pages: 1 + i % 9,
            kind: PageCacheKind::ALL[i as usize % PageCacheKind::ALL.len()],
        })
        .collect();
    let write = |document: PageCacheDocument| {
        let mut writer = PageCacheWriter::create(&path).unwrap();
        events.iter().for_each(|&event| writer.push(event).unwrap());
        writer.finish(document).unwrap()
    };
    let objects = vec![PageCacheObject { major: 8, minor: 1, inode: 1 << 40 }];
    let mut document = PageCacheDocument { objects, ..PageCacheDocument::default() };
    document.metadata.tasks.insert(812, "cc1".to_string());
    let (written, bytes) = write(document.clone());
    assert_eq!((written.metadata.format, written.metadata.events), (PAGE_CACHE_FORMAT, 100_000));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
    let expected: Vec<Access> = events
        .iter()
        .filter(|event| event.kind.is_access())
        .map(|&PageCacheEvent { time, object, index, pages, kind, .. }| {
            let write = kind == PageCacheKind::Write;
            Access { time_ns: time, object: object.into(), index, pages, write }
        })
        .collect();
    let read: Vec<Access> = open(&path, None).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(read, expected);
    assert_eq!(good(std::fs::read(&path).unwrap(), Some(Format::PageCache)), expected);

    let mut writer = PageCacheWriter::create(&path).unwrap();
    writer.push(PageCacheEvent { time: 2, ..events[0] }).unwrap();
    assert!(writer.push(PageCacheEvent { time: 1, ..events[0] }).is_err());
    drop(writer);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "the one before stays, nothing else");

    document.metadata.lost = 3;
    write(document);
    let refused = open(&path, None).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("a.parquet: 3 events were lost when it was recorded"), "{refused}");
}

#[test]
fn damage_of_the_page_cache_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let mut writer = PageCacheWriter::create(&path).unwrap();
    for i in 0..500 {
        let kind = PageCacheKind::ALL[i as usize % PageCacheKind::ALL.len()];
        let (time, index) = (u64::from(i) * 17, u64::from(i * i) % 97);
        writer
            .push(PageCacheEvent { time, cpu: 0, task: 9, object: i % 3, index, pages: 1 + i % 4, kind })
            .unwrap();
    }
    writer.finish(PageCacheDocument::default()).unwrap();
    crate::damage::is_noticed(&std::fs::read(&path).unwrap(), 300, |mutant| {
        let (accesses, error) = read(mutant, Some(Format::PageCache));
        error.map_or(Ok(accesses), Err)
    });
}

#[test]
fn unknown_names_of_formats_list_the_known_ones() {
    for name in
        ["", "CSV", "csv:", "csv:time=1", "csv:object=0", "csv:object=", "csv:object=1,object=2", "csv:x=1"]
    {
        let error = name.parse::<Format>().unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("`{name}` is not a format of access traces; it must be one of")),
            "{error}"
        );
    }
}

#[test]
fn pages_are_numbered_in_the_order_of_first_appearance() {
    let mut pages = PageNumbers::new();
    assert!(pages.is_empty());
    let seen = [(5, 0), (5, 1), (4, 0), (5, 0)].map(|(object, index)| pages.number(object, index));
    assert_eq!((seen, pages.len()), ([0, 1, 2, 0], 3));
}

#[test]
fn spans_end_where_numbers_end() {
    assert_eq!(span(u64::MAX, 1, 4096), Some((u64::MAX / 4096, 1)));
    assert_eq!(span(u64::MAX, 2, 4096), None);
    assert_eq!(span(0, 1 << 44, 4096), None);
    assert_eq!(span(0, (1 << 44) - 4096, 4096), Some((0, u32::MAX)));
    assert_eq!(span(5000, 0, 4096), Some((1, 0)));
}

fn format() -> impl Strategy<Value = Option<Format>> {
    let names = [
        "oracle-general",
        "ids",
        "csv",
        "csv:object=1,time=2",
        "fio",
        "blkparse",
        "blkparse:D",
        "lackey",
        "page-cache",
    ];
    prop::option::of(prop::sample::select(names.to_vec()).prop_map(|name: &str| name.parse().unwrap()))
}

proptest! {
    #[test]
    fn spans_cover_the_pages_of_their_units(start in 0_u64..200, length in 1_u64..200, per_page in 1_u64..20) {
        let pages: HashSet<u64> = (start..start + length).map(|unit| unit / per_page).collect();
        prop_assert_eq!(span(start, length, per_page), Some((start / per_page, pages.len() as u32)));
    }

    #[test]
    fn records_come_back(records in prop::collection::vec((any::<u32>(), any::<u64>(), any::<u32>(), -2_i64..), 1..200),
                         packed in any::<bool>()) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (time, object, size, next) in records {
            bytes.extend(record(time, object, size, next));
            let pages = u64::from(size).div_ceil(4096) as u32;
            if pages > 0 {
                expected.push(Access { time_ns: u64::from(time) * 1_000_000_000, object, index: 0, pages, write: false });
            }
        }
        let bytes = if packed { zstd::encode_all(&bytes[..], 1).unwrap() } else { bytes };
        prop_assert_eq!(good(bytes, Some(Format::OracleGeneral)), expected);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), format in format()) {
        read(bytes, format);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9a-z,.+ \\[\\]\n\tFQDWRSILM=-]{0,200}", format in format()) {
        read(text, format);
    }

    /// The accesses before a cut are read as in the whole trace. The exception is a number that the cut may
    /// shorten, in formats whose last line need not have an end.
    #[test]
    fn a_cut_loses_nothing_before_it(sample in 0..7_usize, cut in any::<prop::sample::Index>()) {
        let (bytes, format) = samples()[sample].clone();
        let cut = cut.index(bytes.len() + 1);
        let whole = good(bytes, Some(format.clone()));
        let (mut accesses, error) = read(&bytes[..cut], Some(format.clone()));
        if matches!(format, Format::Csv(_)) {
            accesses.pop();
        } else if cut > 0 && cut < bytes.len() && !(format == Format::OracleGeneral && cut % 24 == 0) {
            prop_assert!(error.is_some() || bytes[cut - 1] == b'\n');
        }
        prop_assert!(whole.starts_with(&accesses));
    }

    #[test]
    fn a_changed_byte_is_read_or_refused(sample in 0..6_usize, at in any::<prop::sample::Index>(), byte: u8) {
        let (bytes, format) = samples()[sample].clone();
        let mut bytes = bytes.to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let (accesses, _) = read(&bytes, Some(format));
        prop_assert!(accesses.iter().all(|access| access.index.checked_add(u64::from(access.pages)).is_some()));
    }
}
