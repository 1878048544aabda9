//! Every reader on real and damaged traces.

use std::io::Cursor;

use super::*;

fn read(bytes: Vec<u8>, format: Option<Format>) -> Result<Vec<Access>, String> {
    let accesses =
        Accesses::from_reader(Cursor::new(bytes), "trace".to_string(), format).map_err(|e| e.to_string())?;
    accesses.map(|access| access.map_err(|error| error.to_string())).collect()
}

/// A record of oracleGeneral, written field by field.
fn record(time: u32, object: u64, size: u32, next: i64) -> Vec<u8> {
    let mut bytes = time.to_le_bytes().to_vec();
    bytes.extend(object.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes.extend(next.to_le_bytes());
    bytes
}

mod oracle {
    use super::*;

    #[test]
    fn an_object_of_several_pages_is_one_access_to_all_of_them() {
        let bytes = [record(1, 7, 1, 2), record(1, 8, 0, -1), record(3, 7, 8193, -1)].concat();
        let access = |time_ns, pages| Access { time_ns, object: 7, index: 0, pages, write: false };
        let expected = vec![access(1_000_000_000, 1), access(3_000_000_000, 3)];
        assert_eq!(read(bytes.clone(), None).unwrap(), expected);
        let packed = zstd::encode_all(&bytes[..], 3).unwrap();
        assert_eq!(read(packed, None).unwrap(), expected);
    }

    #[test]
    fn a_trace_that_is_cut_short_gives_what_it_has_and_says_where() {
        let bytes = [record(1, 7, 1, 2), record(1, 8, 1, -1)].concat()[..40].to_vec();
        let mut accesses =
            Accesses::from_reader(Cursor::new(bytes), "a.bin".to_string(), Some(Format::OracleGeneral))
                .unwrap();
        assert_eq!(accesses.next().unwrap().unwrap().object, 7);
        assert_eq!(
            accesses.next().unwrap().unwrap_err().to_string(),
            "a.bin: at byte 24: the last record has 16 bytes instead of 24: the trace is cut short; copy it again"
        );
        assert!(accesses.next().is_none());
    }
}

#[test]
fn pages_are_numbered_in_the_order_of_first_appearance() {
    let mut pages = PageNumbers::new();
    assert!(pages.is_empty());
    let seen = [(5, 0), (5, 1), (4, 0), (5, 0)].map(|(object, index)| pages.number(object, index));
    assert_eq!((seen, pages.len()), ([0, 1, 2, 0], 3));
}
