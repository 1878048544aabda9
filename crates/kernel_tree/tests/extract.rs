//! Taking decisions out of small trees of our own making: what is found, what is refused, and what the message says.

use kernel_tree::{
    Compiler, Config, DECISIONS, Decision, Error, Extract, Instrumentation, KernelTree, Loaded, Provenance,
    Survey, Surveyed,
};
use mm::decisions::{PcpState, Rule};
use std::path::Path;
use tempfile::TempDir;

const PCP_HIGH: &str = "static int nr_pcp_high(struct per_cpu_pages *pcp, struct zone *zone, bool free_high)";

fn tree(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

fn extract_of(root: &Path, config: Config, names: &[&str]) -> Result<Extract, Error> {
    let wanted: Vec<&Decision> = names.iter().map(|name| Decision::named(name).unwrap()).collect();
    Extract::of(&KernelTree::new(root, config), &wanted)
}

fn extract(text: &str) -> Result<Extract, Error> {
    extract_of(tree(&[("mm/page_alloc.c", text)]).path(), Config::default(), &["nr_pcp_high"])
}

fn load(text: &str) -> Result<Loaded, Error> {
    load_with(text, Config::default())
}

fn load_with(text: &str, config: Config) -> Result<Loaded, Error> {
    let root = tree(&[("mm/page_alloc.c", text)]);
    let extract = extract_of(root.path(), config, &["nr_pcp_high"])?;
    let object =
        Compiler::of_the_system(Instrumentation::None).compile(&extract, &root.path().join("built"))?;
    Loaded::open(&object, extract)
}

fn answer(loaded: &Loaded, mut state: PcpState) -> i32 {
    let Rule::Tree(decide) = loaded.decisions.pcp.nr_pcp_high else {
        panic!("the tree's function is not there")
    };
    decide(&mut state);
    state.answer
}

/// The message of what must not be taken.
fn refused(text: &str) -> String {
    match load(text) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it was taken"),
    }
}

#[test]
fn what_a_decision_needs_is_taken_along_and_what_the_header_has_is_not() {
    let text = format!(
        "enum speeds {{ SLOW = 3, FAST = 5 }};\n#define SPEED(x) ((x) * FAST)\n\
         static inline int hurried(int pages)\n{{\n\treturn SPEED(pages) + SLOW;\n}}\n\
         int min(int a, int b)\n{{\n\treturn 0;\n}}\n\
         static noinline int unused(void)\n{{\n\treturn 1;\n}}\n\
         {PCP_HIGH}\n{{\n\treturn min(hurried(pcp->batch), 1000);\n}}\n"
    );
    let extract = extract(&text).unwrap();
    let names: Vec<&str> = extract.taken.iter().map(|taken| taken.name.as_str()).collect();
    assert_eq!(names, ["SLOW", "SPEED", "hurried", "nr_pcp_high"]);
    let loaded = load(&text).unwrap();
    assert_eq!(answer(&loaded, PcpState { batch: 7, ..PcpState::default() }), 38);
    let (_, provenance) = loaded.provenance.iter().find(|(name, _)| *name == "nr_pcp_high").unwrap();
    assert!(
        matches!(provenance, Provenance::Tree { place, .. } if place.to_string() == "mm/page_alloc.c:15"),
        "{provenance:?}"
    );
    assert!(loaded.provenance.contains(&("nr_pcp_alloc", Provenance::Own)));
}

#[test]
fn parameters_are_given_in_the_trees_order() {
    let text = "static int nr_pcp_free(struct per_cpu_pages *pcp, int high, int batch, bool free_high)\n\
                {\n\treturn 100 * high + batch;\n}\n";
    for text in [text.to_string(), text.replace("int high, int batch", "int batch, int high")] {
        let root = tree(&[("mm/page_alloc.c", &text)]);
        let extract = extract_of(root.path(), Config::default(), &["nr_pcp_free"]).unwrap();
        let object = Compiler::of_the_system(Instrumentation::None).compile(&extract, root.path()).unwrap();
        let loaded = Loaded::open(&object, extract).unwrap();
        let Rule::Tree(decide) = loaded.decisions.pcp.nr_pcp_free else { panic!("it is not there") };
        let mut state = PcpState { asked_high: 5, batch: 3, ..PcpState::default() };
        decide(&mut state);
        assert_eq!(state.answer, 503, "{text}");
    }
}

#[test]
fn of_two_the_configuration_says_which() {
    let text = format!(
        "#ifdef CONFIG_NUMA\n{PCP_HIGH}\n{{\n\treturn 1;\n}}\n#else\n{PCP_HIGH}\n{{\n#ifdef CONFIG_ODD\n\treturn odd();\n#endif\n\treturn 2;\n}}\n#endif\n"
    );
    let answers = |config: Config| answer(&load_with(&text, config).unwrap(), PcpState::default());
    assert_eq!(answers(Config::default()), 1);
    assert_eq!(answers(Config::parse("# CONFIG_NUMA is not set\n")), 2);
    let nobody_knows = text.replace("CONFIG_NUMA", "ARCH_HAS_MORE");
    assert_eq!(
        extract(&nobody_knows).err().unwrap().to_string(),
        "nr_pcp_high is there twice: mm/page_alloc.c:2, mm/page_alloc.c:7; a configuration file that says which #if holds decides"
    );
}

#[test]
fn a_function_behind_one_whose_braces_do_not_match_is_found() {
    let text = format!(
        "void torn(void)\n{{\n#ifdef A\n\tif (x) {{\n#else\n\tif (y) {{\n#endif\n\t\tz();\n\t}}\n}}\n\n{PCP_HIGH}\n{{\n\treturn 4;\n}}\n"
    );
    assert_eq!(answer(&load(&text).unwrap(), PcpState::default()), 4);
}

#[test]
fn what_is_missing_is_named() {
    let root = tree(&[("mm/swap.c", "")]);
    let message = extract_of(root.path(), Config::default(), &["nr_pcp_high"]).err().unwrap().to_string();
    assert!(
        message.contains("mm/page_alloc.c: No such file or directory")
            && message.ends_with("(it has nr_pcp_high)"),
        "{message}"
    );
    assert!(refused("int x;\n").starts_with("mm/page_alloc.c: there is no function nr_pcp_high;"));
    let unknown = refused(&format!("{PCP_HIGH}\n{{\n\tint y = 1;\n\treturn y + zone_weather(zone);\n}}\n"));
    assert!(
        unknown.starts_with(
            "mm/page_alloc.c:4: nr_pcp_high uses zone_weather, which neither mmtwin's header nor the files searched have"
        ) && unknown.contains("add it to crates/kernel_tree/c/pcp.h"),
        "{unknown}"
    );
}

#[test]
fn another_signature_shows_both() {
    let message = refused(&PCP_HIGH.replace("bool free_high)", "unsigned long weight)\n{\n\treturn 1;\n}\n"));
    assert_eq!(
        message.lines().take(2).collect::<Vec<_>>(),
        [
            "mm/page_alloc.c:1: nr_pcp_high has another signature than mmtwin knows: it asks for unsigned long weight",
            "  found:        int nr_pcp_high(struct per_cpu_pages *pcp, struct zone *zone, unsigned long weight)"
        ]
    );
    assert!(message.contains("can be given: int nr_pcp_high(struct per_cpu_pages *pcp,"), "{message}");
}

#[test]
fn a_field_of_another_type_or_name_is_an_error() {
    let zones = "struct per_cpu_pages {\n\tint count;\n\tint free_count;\n};\n";
    let text = format!("{PCP_HIGH}\n{{\n\treturn pcp->count;\n}}\n");
    let root = tree(&[("mm/page_alloc.c", &text), ("include/linux/mmzone.h", zones)]);
    let message = extract_of(root.path(), Config::default(), &["nr_pcp_high"]).err().unwrap().to_string();
    assert_eq!(
        message,
        "include/linux/mmzone.h:3: free_count of struct per_cpu_pages has changed\n  found:    int free_count\n  expected: short free_count"
    );
    let new = refused(&text.replace("pcp->count", "pcp->weight"));
    assert!(
        new.contains("mm/page_alloc.c:3:") && new.contains("no member named") && new.contains("weight"),
        "{new}"
    );
}

#[test]
fn what_a_decision_may_not_do_is_refused() {
    let cases = [
        ("\tasm volatile(\"nop\");\n\treturn 1;", "mm/page_alloc.c:3: nr_pcp_high has inline assembly"),
        ("\tstatic int calls;\n\treturn calls++;", "mm/page_alloc.c:3: nr_pcp_high has a static variable"),
        ("\treturn 1 +;", "mm/page_alloc.c:3:"),
    ];
    for (body, expected) in cases {
        let message = refused(&format!("{PCP_HIGH}\n{{\n{body}\n}}\n"));
        assert!(message.contains(expected), "{message}");
    }
    let shared = refused(&format!("static int tunable = 3;\n{PCP_HIGH}\n{{\n\treturn tunable++;\n}}\n"));
    assert!(shared.starts_with("mm/page_alloc.c:4: nr_pcp_high writes the variable tunable"), "{shared}");
    let read = format!("static int tunable = 3;\n{PCP_HIGH}\n{{\n\treturn tunable;\n}}\n");
    assert_eq!(answer(&load(&read).unwrap(), PcpState::default()), 3);
}

#[test]
fn a_symbol_that_is_in_no_object_is_refused_before_anything_runs() {
    let message = refused(&format!(
        "#define ASK() ({{ extern int elsewhere(void); elsewhere(); }})\n{PCP_HIGH}\n{{\n\treturn ASK();\n}}\n"
    ));
    assert!(message.contains("elsewhere"), "{message}");
}

#[test]
fn a_survey_tells_which_functions_a_tree_has_and_which_are_others() {
    let survey = |answer: &str| {
        let text = format!(
            "#define ANSWER {answer}\n{PCP_HIGH}\n{{\n\treturn ANSWER;\n}}\n\
             static int zone_batchsize(struct zone *zone)\n{{\n\treturn 7;\n}}\n"
        );
        let root = tree(&[("mm/page_alloc.c", &text)]);
        let tree = KernelTree::new(root.path(), Config::default());
        let all: Vec<&'static Decision> = DECISIONS.iter().collect();
        Survey::of(&tree, &all).each(&all)
    };
    let hashes = |surveyed: Vec<Surveyed>| -> Vec<_> {
        let found = surveyed.iter().filter_map(|one| Some((one.decision.name, one.place_and_hash()?.1)));
        found.collect()
    };
    let (one, other) = (hashes(survey("1")), hashes(survey("2")));
    assert_eq!(one.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["nr_pcp_high", "zone_batchsize"]);
    let is_same: Vec<bool> = one.iter().zip(&other).map(|(one, other)| one == other).collect();
    assert_eq!(is_same, [false, true], "what a function needs counts");
    let missing = survey("1").into_iter().find(|one| one.decision.name == "nr_pcp_alloc");
    assert!(missing.is_some_and(|one| one.is_missing()));
}

#[test]
fn equal_sources_have_equal_hashes_wherever_they_are() {
    let text = format!("{PCP_HIGH}\n{{\n\treturn 4;\n}}\n");
    let hash = |text: &str| load(text).unwrap().content_hash;
    assert_eq!(hash(&text), hash(&text));
    assert_ne!(hash(&text), hash(&text.replace('4', "5")));
}

#[test]
fn what_is_nested_too_deep_is_as_if_it_were_not_there() {
    let deep = |levels: usize| {
        format!("{PCP_HIGH}\n{{\n\treturn {}1{};\n}}\n", "(".repeat(levels), ")".repeat(levels))
    };
    assert_eq!(answer(&load(&deep(100)).unwrap(), PcpState::default()), 1);
    assert!(refused(&deep(100_000)).starts_with("mm/page_alloc.c: there is no function nr_pcp_high"));
    let in_macro = format!(
        "#define DEEP {}1{}\n{PCP_HIGH}\n{{\n\treturn DEEP;\n}}\n",
        "(".repeat(9999),
        ")".repeat(9999)
    );
    assert!(refused(&in_macro).contains("DEEP is nested deeper than anybody writes C"));
}

/// The part of the next test that runs in a process of its own.
const IN_CHILD: &str = "MMTWIN_TEST_OF_SANITIZERS";

#[test]
fn what_is_undefined_ends_the_process_and_names_the_line() {
    let root = tree(&[("mm/page_alloc.c", &format!("{PCP_HIGH}\n{{\n\treturn 1 << pcp->batch;\n}}\n"))]);
    let extract = extract_of(root.path(), Config::default(), &["nr_pcp_high"]).unwrap();
    let object = Compiler::of_the_system(Instrumentation::Sanitizers).compile(&extract, root.path()).unwrap();
    if std::env::var_os(IN_CHILD).is_some() {
        let loaded = Loaded::open(&object, extract).unwrap();
        answer(&loaded, PcpState { batch: 77, ..PcpState::default() });
        return;
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "what_is_undefined_ends_the_process_and_names_the_line"])
        .env("LD_PRELOAD", object.preloaded.unwrap())
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .env(IN_CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success() && said.contains("shift exponent 77 is too large"), "{said}");
    assert!(said.contains("mm/page_alloc.c:3"), "{said}");
}

#[test]
fn sanitizers_ask_for_their_library() {
    let root = tree(&[("mm/page_alloc.c", &format!("{PCP_HIGH}\n{{\n\treturn 4;\n}}\n"))]);
    let extract = extract_of(root.path(), Config::default(), &["nr_pcp_high"]).unwrap();
    let object = Compiler::of_the_system(Instrumentation::Sanitizers).compile(&extract, root.path()).unwrap();
    let message = Loaded::open(&object, extract).err().unwrap().to_string();
    assert!(message.contains("LD_PRELOAD=") && message.contains("libasan"), "{message}");
}
