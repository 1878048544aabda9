//! The twin against the recordings of readahead.

use live::recordings::default_directory;
use live::verify::readahead::{Case, MappedCase, Recording, Said};
use live::verify::{RecordedKernel, by_recordings};
use mm::Mechanism;

#[test]
fn recordings_are_whole() {
    let recordings = Recording::list(&default_directory()).unwrap();
    assert_eq!(recordings.len(), 4);
    for (name, recording) in recordings {
        for case in &recording.cases {
            let mut came = std::collections::BTreeSet::new();
            for (read, folios) in recording.reads(case).unwrap() {
                let place = format!("{name}, {}: {read:?}", case.name);
                let mut pages = folios.iter().flat_map(|folio| folio.pages());
                assert!(pages.all(|page| page < case.file_pages && came.insert(page)), "{place}");
                let last = case.file_pages.min(read.index + read.pages);
                assert!((read.index..last).all(|page| came.contains(&page)), "{place}");
            }
        }
    }
}

/// There is enough memory, so only the reads matter.
#[test]
fn every_read_brings_in_the_kernel_s_pages() {
    let report = by_recordings(Mechanism::Readahead, &default_directory()).unwrap();
    assert_eq!((report.kernel.as_str(), report.entries.len()), ("6.18.44", 2 * 65 + 2 * 32));
    let differs = report.entries.iter().filter(|entry| entry.error != Some(0.0));
    let differs = differs.map(|entry| (&entry.case, &entry.counter, entry.kernel, entry.twin));
    assert_eq!(differs.collect::<Vec<_>>(), []);
}

#[test]
fn a_recording_can_be_written_and_read_and_errors_name_the_place() {
    let directory = tempfile::tempdir().unwrap();
    let (_, original) = Recording::list(&default_directory()).unwrap().remove(0);
    let case = original.cases.iter().find(|case| case.name == "strided").unwrap();
    let reads = original.reads(case).unwrap();
    let written = [(case.clone(), reads.clone())];
    Recording::write(directory.path(), original.kernel.clone(), original.machine.clone(), &written).unwrap();
    let copy = Recording::open(directory.path()).unwrap();
    assert_eq!(copy.cases, std::slice::from_ref(case));
    assert_eq!(copy.reads(case).unwrap(), reads);

    let packed = zstd::encode_all(&b"0 0 4: 0-7\n1 16 4: 16-19"[..], 3).unwrap();
    std::fs::write(directory.path().join("strided.reads.zst"), packed).unwrap();
    let error = copy.reads(case).unwrap_err().to_string();
    assert!(error.contains("strided.reads.zst, line 2: `1 16 4: 16-19`"), "{error}");

    let packed = zstd::encode_all(&b"0 0 4: 0-7\n0 16 1 load: 16-19"[..], 3).unwrap();
    std::fs::write(directory.path().join("strided.reads.zst"), packed).unwrap();
    let error = copy.reads(case).unwrap_err().to_string();
    let problem = "line 2: case strided of readahead.toml has mapped no such pages";
    assert!(error.contains(problem), "{error}");
    let mapping = MappedCase { said: Said::Normal, fault_around_bytes: 65536, page_faults: 1 };
    let mapped = |file_pages| Case { mapping: Some(mapping), file_pages, ..case.clone() };
    assert_eq!(copy.reads(&mapped(17)).unwrap().len(), 2);
    assert!(copy.reads(&mapped(16)).unwrap_err().to_string().contains(problem));
}
