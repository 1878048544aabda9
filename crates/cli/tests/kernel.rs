//! Kernel trees as variants: what is added, run, refused, and what is said of a decision that crashes or does not end.
//!
//! The trees are made here, of a function or two in our own words. Where there is no C compiler the tests say so and do nothing.

// Who runs the tests reads it.
#![allow(clippy::print_stderr)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory with a tree in `linux`, a cache and a scenario.
struct Place(tempfile::TempDir);

const MAKEFILE: &str = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 0\n";

impl Place {
    /// With these bodies of functions of `mm/page_alloc.c`.
    fn with(functions: &str) -> Option<Place> {
        if Command::new("cc").arg("--version").output().is_err() {
            eprintln!("SKIPPED: no C compiler (cc); kernel trees are not tested");
            return None;
        }
        let place = Place(tempfile::tempdir().unwrap());
        let tree = place.path("linux");
        fs::create_dir_all(tree.join("mm")).unwrap();
        fs::write(tree.join("Makefile"), MAKEFILE).unwrap();
        fs::write(tree.join("mm/page_alloc.c"), functions).unwrap();
        fs::create_dir(place.path("cache")).unwrap();
        for (name, text) in [
            ("tiny.toml", include_str!("cmd/compare.in/tiny.toml")),
            ("machine.toml", include_str!("cmd/compare.in/machine.toml")),
        ] {
            fs::write(place.path(name), text).unwrap();
        }
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn mmtwin(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmtwin"));
        command.current_dir(self.0.path()).env("XDG_CACHE_HOME", self.path("cache")).args(arguments);
        command.output().unwrap()
    }

    fn add(&self, more: &[&str]) -> Output {
        self.mmtwin(&[&["kernel", "add", "mine", "--tree", "linux"], more].concat())
    }

    /// What stdout and stderr say of a command that succeeds.
    fn succeeds(&self, output: &Output) -> String {
        let text = said(output);
        assert!(output.status.success(), "{text}");
        text
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn fails(output: &Output, says: &[&str]) {
    let text = said(output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    says.iter().for_each(|word| assert!(text.contains(word), "{word} is not in: {text}"));
}

/// How much to free at a time: in our own words, so that it is nobody's.
fn frees(body: &str) -> String {
    format!(
        "static int nr_pcp_free(struct per_cpu_pages *pcp, int batch, int high, bool free_high)\n{{\n{body}\n}}\n"
    )
}

const COMPARE: [&str; 5] = ["compare", "tiny.toml", "--variants", "6.12,mine", "--seeds"];

fn compare(place: &Place) -> Output {
    place.mmtwin(&[&COMPARE[..], &["1"]].concat())
}

#[test]
fn a_tree_is_added_compared_listed_and_removed() {
    let Some(place) = Place::with(&frees("\treturn batch;")) else { return };
    let text = place.succeeds(&place.add(&[]));
    assert!(
        text.contains("nr_pcp_free  mm/page_alloc.c:1") && text.contains("not in this tree: nr_pcp_alloc"),
        "{text}"
    );
    let text = place.succeeds(&compare(&place));
    assert!(text.contains("6.12") && text.contains("mine"), "{text}");
    // What is there already is not made again.
    assert!(place.succeeds(&compare(&place)).contains("2 from before"));
    let text = place.succeeds(&place.mmtwin(&["kernel", "list", "--json"]));
    let listed: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(listed["kernels"][0]["base"], "6.12");
    place.succeeds(&place.mmtwin(&["kernel", "remove", "mine"]));
    fails(&place.mmtwin(&["kernel", "remove", "mine"]), &["mine: no such kernel", "none was added"]);
    fails(&compare(&place), &["mine"]);
}

#[test]
fn a_function_that_a_run_never_asks_is_named_in_its_result() {
    let alloc = "static int nr_pcp_alloc(struct per_cpu_pages *pcp, struct zone *zone, int order)\n{\n\treturn 9;\n}\n";
    let Some(place) = Place::with(alloc) else { return };
    let tier = "static int get_tier_idx(struct lruvec *lruvec, int type)\n{\n\treturn 0;\n}\n";
    fs::write(place.path("linux/mm/vmscan.c"), tier).unwrap();
    place.succeeds(&place.add(&[]));
    let text = place.succeeds(&place.mmtwin(&["run", "tiny.toml", "--variants", "mine"]));
    assert!(text.contains("never asked for get_tier_idx; a change to that cannot show here"), "{text}");
    fails(
        &place.mmtwin(&["run", "tiny.toml", "--variants", "yours"]),
        &["yours: no such variant", "kernel trees that were added: mine"],
    );
}

#[test]
fn another_function_makes_another_run_and_features_can_be_set_besides() {
    let Some(place) = Place::with(&frees("\treturn batch;")) else { return };
    place.succeeds(&place.add(&[]));
    place.succeeds(&compare(&place));
    fs::write(place.path("linux/mm/page_alloc.c"), frees("\treturn high > 1 ? high : batch;")).unwrap();
    place.succeeds(&place.add(&[]));
    assert!(place.succeeds(&compare(&place)).contains("1 from before"));
    let arguments = ["run", "tiny.toml", "--variants", "mine:pcp.scale_refills=off"];
    assert!(place.succeeds(&place.mmtwin(&arguments)).contains("mine:pcp.scale_refills=off"));
}

#[test]
fn a_patch_says_what_changes_and_the_rest_stays_the_twins_own() {
    let free = frees("\treturn batch;");
    let size = "static int zone_batchsize(struct zone *zone)\n{\n\treturn 63;\n}\n";
    let Some(place) = Place::with(&format!("{free}{size}")) else { return };
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no git; patches are not tested");
        return;
    }
    let patch = "--- a/mm/page_alloc.c\n+++ b/mm/page_alloc.c\n@@ -1,4 +1,4 @@\n \
        static int nr_pcp_free(struct per_cpu_pages *pcp, int batch, int high, bool free_high)\n {\n\
        -\treturn batch;\n+\treturn 2 * batch;\n }\n";
    fs::write(place.path("a.patch"), patch).unwrap();
    let text = place.succeeds(&place.add(&["--patch", "a.patch"]));
    assert!(text.contains("own rules decide: zone_batchsize") && text.contains("+ a.patch"), "{text}");
    fs::write(place.path("b.patch"), patch.replace("return batch", "return patch")).unwrap();
    fails(&place.add(&["--patch", "b.patch"]), &["b.patch: does not apply"]);
    fails(&place.add(&["--unchanged", "linux"]), &["nothing to try"]);
}

#[test]
fn what_is_wrong_with_a_tree_is_said_where_it_is() {
    let Some(place) = Place::with(&frees("\treturn batch\n")) else { return };
    fails(&place.add(&[]), &["mm/page_alloc.c"]);
    let wrong = |text: &str, says: &[&str]| {
        fs::write(place.path("linux/mm/page_alloc.c"), text).unwrap();
        fails(&place.add(&[]), says);
    };
    wrong(&frees("\treturn unheard_of(batch);"), &["mm/page_alloc.c:3", "nr_pcp_free", "unheard_of"]);
    wrong("int other(void) { return 1; }\n", &["mm/page_alloc.c", "nr_pcp_alloc"]);
    wrong(&[frees("\treturn 1;"), frees("\treturn 2;")].concat(), &["nr_pcp_free is there twice"]);
    wrong(&frees("\tasm volatile(\"nop\");\n\treturn 1;"), &["mm/page_alloc.c:3", "assembl"]);
    fs::remove_file(place.path("linux/Makefile")).unwrap();
    wrong(&frees("\treturn batch;"), &["Makefile", "--base"]);
    fails(&place.add(&["--base", "2.4"]), &["2.4", "--base"]);
    fails(&place.mmtwin(&["kernel", "add", "6.12", "--tree", "linux"]), &["name of a release"]);
    fails(
        &place.mmtwin(&["kernel", "add", "a/b", "--tree", "linux", "--base", "6.12"]),
        &["letters, digits"],
    );
    fails(&place.mmtwin(&["kernel", "add", "mine", "--tree", "nowhere"]), &["nowhere"]);
    fails(&place.mmtwin(&["kernel", "add", "mine", "--source", "linux-source-0.1"]), &["apt install"]);
    assert!(!Path::new(&place.path("cache/mmtwin/kernels/mine")).exists(), "nothing half done is left");
}

#[test]
fn a_decision_that_crashes_answers_nonsense_or_does_not_end_is_named_with_its_state() {
    let Some(place) = Place::with("") else { return };
    let ends = |body: &str, says: &[&str]| {
        let head = "static int nr_pcp_alloc(struct per_cpu_pages *pcp, struct zone *zone, int order)";
        fs::write(place.path("linux/mm/page_alloc.c"), format!("{head}\n{{\n{body}\n}}\n")).unwrap();
        place.succeeds(&place.add(&[]));
        let (output, text) = (compare(&place), said(&compare(&place)));
        assert_eq!(output.status.code(), Some(1), "{text}");
        says.iter().for_each(|word| assert!(text.contains(word), "{word} is not in: {text}"));
        assert!(!text.contains("panicked") && !text.contains("backtrace"), "{text}");
    };
    ends("\treturn *(volatile int *)8;", &["mine: nr_pcp_alloc ended by signal 11", "batch = "]);
    ends("\treturn -5;", &["mine", "nr_pcp_alloc", "-5"]);
    ends("\treturn 1 << 30;", &["nr_pcp_alloc", "no refill takes so many blocks"]);
    ends("\tfor (;;)\n\t\t;\n\treturn 1;", &["nr_pcp_alloc has not ended after 10 s", "count = "]);
}

/// A place with a kernel whose `nr_pcp_free` has another body than that of the tree that it is compared with.
fn changed(before: &str, after: &str) -> Option<Place> {
    let size = "static int zone_batchsize(struct zone *zone)\n{\n\treturn 63;\n}\n";
    let place = Place::with(&[&frees(after), size].concat())?;
    fs::create_dir_all(place.path("before/mm")).unwrap();
    fs::write(place.path("before/mm/page_alloc.c"), [&frees(before), size].concat()).unwrap();
    place.succeeds(&place.add(&["--unchanged", "before"]));
    Some(place)
}

#[test]
fn a_diff_shows_the_smallest_states_in_which_a_changed_function_decides_otherwise() {
    let Some(place) = changed("\treturn batch;", "\treturn batch > 7 ? 2 * batch : batch;") else { return };
    let text = place.succeeds(&place.mmtwin(&["kernel", "diff", "mine"]));
    assert!(
        text.contains("asked  batch = 8\n    old  answer = 8\n    new  answer = 16\n")
            && text.contains("same text: zone_batchsize")
            && text.contains("not in this tree: nr_pcp_alloc"),
        "{text}"
    );
    let text = place.succeeds(&place.mmtwin(&["kernel", "diff", "mine", "--json", "--states", "1"]));
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let schema = include_str!("../../../schemas/kernel-diff.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    jsonschema::validate(&schema, &document).unwrap();
    let functions = document["functions"].as_array().unwrap();
    let function = functions.iter().find(|one| one["function"] == "nr_pcp_free").unwrap();
    assert_eq!(function["decisions"]["states"].as_array().unwrap().len(), 1, "{function}");
}

#[test]
fn a_diff_against_the_twin_or_another_kernel_is_of_decisions() {
    let Some(place) = changed("\treturn batch;", "\treturn 2 * batch / 2;") else { return };
    let text = place.succeeds(&place.mmtwin(&["kernel", "diff", "mine"]));
    assert!(text.contains("changed, but decides the same in each of 20000 states"), "{text}");
    let text = place.succeeds(&place.mmtwin(&["kernel", "diff", "mine", "--against", "twin"]));
    assert!(text.contains("mine against the twin's 6.12") && text.contains("nr_pcp_free  mm"), "{text}");
    place.succeeds(&place.mmtwin(&["kernel", "add", "other", "--tree", "before", "--base", "6.12"]));
    let text = place.succeeds(&place.mmtwin(&["kernel", "diff", "mine", "--against", "other"]));
    assert!(text.contains("nr_pcp_free  mm/page_alloc.c:1: changed, but"), "{text}");
    fails(
        &place.mmtwin(&["kernel", "diff", "mine", "--against", "none"]),
        &["none: no such kernel", "other"],
    );
    fails(&place.mmtwin(&["kernel", "diff", "none"]), &["none: no such kernel; there are: mine, other"]);
    let sources = place.path("cache/mmtwin/kernels/mine/sources.json");
    fs::write(&sources, "{}").unwrap();
    fails(&place.mmtwin(&["kernel", "diff", "mine"]), &["sources.json", "add it again"]);
}

#[test]
fn a_decision_that_crashes_or_does_not_end_ends_a_diff_with_its_state() {
    let ends = |body: &str, says: &[&str]| {
        let Some(place) = changed("\treturn batch;", body) else { return };
        fails(&place.mmtwin(&["kernel", "diff", "mine"]), says);
    };
    ends(
        "\treturn high == 5 ? *(volatile int *)8 : batch;",
        &["mine: nr_pcp_free ended by signal 11", "high = "],
    );
    ends(
        "\tfor (; high == 5;)\n\t\t;\n\treturn 1;",
        &["mine: nr_pcp_free has not ended after 10 s", "asked_high = 5"],
    );
}
