//! Machines that have nothing in common but an object store find each other's runs there.
//!
//! ```text
//!   directory 1 ──► Results ──┐                              ┌── Results ◄── directory 2
//!                             └──► HTTP ──► Bucket ◄── HTTP ─┘       a server on this machine that speaks S3's GET, HEAD and PUT
//! ```
//!
//! Built with `--features object-store` only.

use lab::experiment::{Experiment, Makers, Progress, make_or_get};
use lab::results::{Program, Results, ResultsError, Store, compact};
use sim::outcome::Outcome;
use sim::progress::RunProgress;
use sim::{Run, RunError};
use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Objects by path.
type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A server with one bucket.
struct Bucket {
    objects: Objects,
    /// Where it is.
    endpoint: String,
}

impl Bucket {
    fn new() -> Bucket {
        let (objects, listener) = (Objects::default(), TcpListener::bind("127.0.0.1:0").unwrap());
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let held = objects.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let held = held.clone();
                std::thread::spawn(move || serve(stream, &held));
            }
        });
        Bucket { objects, endpoint }
    }

    /// How many objects it holds.
    fn held(&self) -> usize {
        self.objects.lock().unwrap().len()
    }

    /// A results directory that shares with it.
    fn results(&self, directory: &Path) -> Results {
        let environment = [
            ("AWS_ENDPOINT", &*self.endpoint),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "nobody"),
            ("AWS_SECRET_ACCESS_KEY", "nothing"),
            ("AWS_REGION", "nowhere"),
        ];
        let environment = environment.map(|(name, value)| (name.to_string(), value.to_string()));
        let store = Store::open("s3://bucket/mmtwin", environment).unwrap();
        Results::open(directory, program()).unwrap().sharing(store)
    }
}

fn program() -> Program {
    Program { version: "test".into(), build: "test".into(), commit: String::new() }
}

/// Answers the requests of a connection until it ends.
fn serve(stream: TcpStream, objects: &Objects) -> Option<()> {
    let mut answers = stream.try_clone().ok()?;
    let mut requests = BufReader::new(stream);
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if requests.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_string()),
            }
        }
        let length = lines
            .iter()
            .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        requests.read_exact(&mut body).ok()?;
        let mut words = lines.first()?.split(' ');
        let (method, path) = (words.next()?, words.next()?.to_string());
        let mut objects = objects.lock().unwrap();
        let (status, body) = match (method, objects.get(&path)) {
            ("PUT", _) => {
                objects.insert(path, body);
                ("200 OK", Vec::new())
            }
            (_, Some(content)) => ("200 OK", content.clone()),
            (_, None) => ("404 Not Found", Vec::new()),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"e\"\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n"
        );
        answers.write_all(head.as_bytes()).ok()?;
        if method != "HEAD" {
            answers.write_all(&body).ok()?;
        }
    }
}

fn simulate(run: &Run, _: &RunProgress) -> Result<Outcome, RunError> {
    Ok(Outcome { virtual_seconds: run.seed as f64, ..Outcome::default() })
}

fn never(_: &Run, _: &RunProgress) -> Result<Outcome, RunError> {
    panic!("the store has it")
}

/// Makes or gets all runs; returns the records' virtual seconds and how many were known.
fn make(
    runs: &[Run],
    results: &Results,
    simulate: &(dyn Fn(&Run, &RunProgress) -> Result<Outcome, RunError> + Sync),
) -> (Vec<f64>, usize) {
    let known = Mutex::new(0);
    let progress = |step: Progress| {
        if let Progress::Known(_) = step {
            *known.lock().unwrap() += 1;
        }
    };
    let makers = Makers { simulate, elsewhere: &|_| Err(RunError::Process("no tree".into())) };
    let of = |run: &Run| make_or_get(run, results, &makers, &progress).unwrap().virtual_seconds;
    (runs.iter().map(of).collect(), known.into_inner().unwrap())
}

fn runs() -> Vec<Run> {
    Experiment::of("page_fault1", Some(3)).unwrap().runs().unwrap()
}

#[test]
fn a_run_that_one_machine_made_is_there_for_another() {
    let (bucket, first, second) = (Bucket::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let runs = runs();
    let made = make(&runs, &bucket.results(first.path()), &simulate);
    assert_eq!((made.1, bucket.held()), (0, runs.len()));
    let got = make(&runs, &bucket.results(second.path()), &never);
    assert_eq!(got, (made.0, runs.len()));
    let files = |directory: &Path| {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
        let of = |entry: DirEntry| (entry.file_name(), std::fs::read(entry.path()).unwrap());
        entries.map(of).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(files(first.path()), files(second.path()));
}

#[test]
fn what_was_made_without_a_store_is_put_there_from_files_and_packs() {
    let (bucket, first, second) = (Bucket::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let runs = runs();
    make(&runs, &Results::open(first.path(), program()).unwrap(), &simulate);
    let (packed, alone) = runs.split_at(2);
    make(alone, &bucket.results(first.path()), &never);
    assert_eq!(bucket.held(), alone.len());
    compact(first.path()).unwrap();
    make(packed, &bucket.results(first.path()), &never);
    assert_eq!(bucket.held(), runs.len());
    assert_eq!(make(&runs, &bucket.results(second.path()), &never).1, runs.len());
}

#[test]
fn a_run_that_is_made_afresh_takes_the_place_of_the_one_there() {
    let (bucket, first, second) = (Bucket::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let runs = &runs()[..1];
    make(runs, &bucket.results(first.path()), &simulate);
    let later = |_: &Run, _: &RunProgress| Ok(Outcome { virtual_seconds: 7.0, ..Outcome::default() });
    make(runs, &bucket.results(first.path()).afresh(), &later);
    assert_eq!(make(runs, &bucket.results(second.path()), &never).0, [7.0]);
}

#[test]
fn an_object_that_is_damaged_is_told_and_not_kept() {
    let (bucket, first, second) = (Bucket::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let runs = &runs()[..1];
    make(runs, &bucket.results(first.path()), &simulate);
    for content in bucket.objects.lock().unwrap().values_mut() {
        content.truncate(content.len() / 2);
    }
    let results = bucket.results(second.path());
    let described = results.describe(&runs[0]).unwrap();
    assert!(matches!(results.get(&described), Err(ResultsError::Damaged { .. })));
    assert_eq!(std::fs::read_dir(second.path()).unwrap().count(), 0);
}

#[test]
fn an_address_that_is_none_is_refused() {
    for address in ["", "bucket", "s3://", "gs://bucket", "s3:///x//y"] {
        assert!(matches!(Store::open(address, []), Err(ResultsError::NoStore { .. })), "{address}");
    }
}
