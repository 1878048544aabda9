//! The report in a real browser: whether it opens from a file, without a word on the console, and every chart has what it is to show.
//!
//! Needs Chromium (Debian: `apt-get install chromium`); where there is none the test says so and passes.

mod drawings;

use drawings::{drawings, marks};
use report::chart::Chart;
use report::{Cell, Page, Part, Section, Table, Tone, html};
use std::path::Path;
use std::process::Command;

fn page() -> Page {
    let chart =
        |drawing| Part::Chart(Chart { title: "A & <b>".into(), caption: "What it shows".into(), drawing });
    let cell = Cell { text: "5".into(), note: "+5 %".into(), tone: Tone::Good };
    let table = Table {
        caption: "All".into(),
        header: vec!["".into(), "score".into()],
        rows: vec![vec!["a".into(), cell]],
        is_folded: true,
    };
    let mut parts: Vec<Part> = drawings().into_iter().map(chart).collect();
    parts.push(Part::Table(table));
    Page {
        title: "</title><script>alert(1)</script>".into(),
        verdict: vec!["a is <i>better</i>".into()],
        sections: vec![Section { title: "What differs".into(), parts }],
        ..Page::default()
    }
}

/// What the browser made of a page, and what it said on its console.
fn opened(browser: &str, file: &Path, profile: &Path) -> (String, String) {
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--virtual-time-budget=60000",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(["--dump-dom", &format!("file://{}", file.display())])
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{log}");
    let console = log.lines().filter(|line| line.contains("CONSOLE")).collect::<Vec<_>>().join("\n");
    (String::from_utf8_lossy(&output.stdout).into_owned(), console)
}

#[test]
fn a_report_opens_and_every_chart_is_drawn() {
    let is_there = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"].iter().find(is_there) else {
        eprintln!("skipped: there is no Chromium (Debian: apt-get install chromium)");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("report.html");
    std::fs::write(&file, html::page(&page()).unwrap()).unwrap();
    let (dom, console) = opened(browser, &file, &place.path().join("profile"));
    assert_eq!(console, "", "the browser said so");
    assert!(dom.contains("data-all=\"drawn\""), "{}", &dom[..200]);
    // Charts, by what is in each: marks of layers, as Vega names their groups.
    let pictures: Vec<&str> =
        dom.split("<figure").skip(1).map(|rest| rest.split("</figure>").next().unwrap()).collect();
    assert_eq!(pictures.len(), 6);
    for lines in &pictures[..2] {
        assert_eq!(marks(lines, "line"), 3, "{lines}");
        assert_eq!(marks(lines, "text"), 2, "two labels: two of the lines are the same");
        assert!(lines.contains("MiB</text>"), "bytes on the axis");
    }
    assert_eq!((marks(pictures[2], "symbol"), marks(pictures[2], "text")), (2, 2));
    assert_eq!(marks(pictures[3], "rect"), 7 + 2, "the smaller parts are one: of ten four, of three two");
    assert_eq!(marks(pictures[4], "rect"), 6);
    assert_eq!(marks(pictures[5], "symbol"), 3, "what no logarithmic axis has is left out");
}

#[test]
fn nothing_on_a_page_is_markup_and_nothing_comes_from_elsewhere() {
    let text = html::page(&page()).unwrap();
    assert!(!text.contains("<script>alert(1)") && !text.contains("<i>better"), "names are text");
    assert!(text.contains("&#60;i&#62;better") || text.contains("&lt;i&gt;better"), "names are there");
    for foreign in ["<link", "<img", "src=\"", "@import", "url("] {
        let own = text.split("<script>").next().unwrap();
        assert!(!own.contains(foreign), "{foreign}");
    }
    assert!(!text.contains("unsafe-eval") && text.contains("script-src &#39;sha256-"));
}
