//! Tests of whole explanations, with runs that cost nothing: a kernel measures what a formula of its features says.

use super::*;
use crate::experiment::{Makers, make_all};
use crate::results::{Program, Results};
use crate::scenario::load_machine;
use mm::Features;
use proptest::prelude::*;
use sim::KernelChoice;
use sim::metric::{BUILD_TIME, LOCK, ZONE_LOCK};
use sim::outcome::Outcome;
use std::cell::RefCell;

/// What a kernel's build takes, by features and seed.
type Formula = dyn Fn(&Features, u64) -> f64 + Sync;

fn question(from: &str, to: &str) -> Question {
    question_of("kernel-build-3g", from, to)
}

fn question_of(scenario: &str, from: &str, to: &str) -> Question {
    let scenario = Scenario::load(scenario).unwrap();
    Question {
        machine: load_machine(&scenario.machine).unwrap(),
        changes: BTreeMap::new(),
        trees: BTreeMap::new(),
        from: from.into(),
        to: to.into(),
        grain: Grain::Mechanism,
        metrics: vec![BUILD_TIME],
        seeds: vec![1, 2, 3],
        orders: 8,
        releases: Releases::Searched,
        scenario,
    }
}

/// The answer by a formula, and how many runs each stage made.
fn answer(question: &Question, formula: &Formula) -> Result<(Answer, Vec<(Stage, usize)>), ExplainError> {
    let directory = tempfile::tempdir().unwrap();
    let program = Program { version: "test".into(), build: "test".into(), commit: String::new() };
    let results = Results::open(directory.path(), program).unwrap();
    let simulate = |run: &Run, _: &sim::progress::RunProgress| {
        let features = KernelChoice::parse(&run.series, &run.variant).unwrap().features;
        let mut outcome = Outcome::default();
        outcome.set(BUILD_TIME, formula(&features, run.seed));
        outcome.set(ZONE_LOCK, 5.0);
        Ok(outcome)
    };
    let makers = Makers { simulate: &simulate, elsewhere: &|_| panic!("no kernel tree") };
    let made = RefCell::new(Vec::new());
    let mut make = |stage, runs: &[Run]| {
        made.borrow_mut().push((stage, runs.len()));
        Ok::<_, ExplainError>(make_all(runs, &results, 2, &makers, &|_| {}).unwrap())
    };
    let answer = question.answer(&mut make)?;
    Ok((answer, made.into_inner()))
}

fn names(players: &[Player]) -> Vec<&str> {
    players.iter().map(|player| player.name.as_str()).collect()
}

fn steps(explanation: &Explanation) -> Vec<(&str, f64)> {
    explanation.steps.iter().map(|step| (step.to.as_str(), step.change.difference)).collect()
}

fn shares(explanation: &Explanation) -> Vec<(&str, f64)> {
    let share = |effect: &Effect| effect.share.difference;
    explanation.players.iter().map(|effect| (effect.player.name.as_str(), share(effect))).collect()
}

/// Pagesets with tuning take 30 s off, large folios 4 s, and 2 s more if both are there.
fn build_time(features: &Features, seed: u64) -> f64 {
    let tuned = features.auto_tuning.is_some();
    let folios = features.folios != KernelChoice::parse("pcp", "6.6").unwrap().features.folios;
    let saved = f64::from(tuned) * 30.0 + f64::from(folios) * 4.0 + f64::from(tuned && folios) * 2.0;
    200.0 + seed as f64 - saved
}

#[test]
fn release_change_and_shares_are_found() {
    let question = question("6.6", "6.8");
    let (answer, made) = answer(&question, &build_time).unwrap();
    let explanation = &answer.explanations[0];
    assert_eq!(shares(explanation), [("pcp", -31.0), ("folios", -5.0)]);
    assert_eq!(answer.sharing, Sharing::Exact);
    assert_eq!(names(&answer.cannot_act), ["hugetlb", "numa", "zswap"]);
    assert_eq!(names(&answer.idle), ["reclaim", "mglru", "readahead"]);
    let pcp = &explanation.players[0];
    assert_eq!((pcp.alone.difference, pcp.taken_away.difference), (-30.0, 32.0));
    assert_eq!(pcp.part, Some(31.0 / 36.0));
    assert!(pcp.adjusted_p_value.unwrap() < 0.05);
    assert_eq!(steps(explanation), [("6.7", -30.0), ("6.8", -6.0)]);
    let most = explanation.most.as_ref().unwrap();
    assert_eq!((most.step.to.as_str(), most.by.name.as_str()), ("6.7", "pcp.high_bounds + pcp.auto_tuning"));
    assert_eq!(most.change.difference, -30.0);
    // No run is asked for twice.
    assert_eq!(made.iter().map(|(_, runs)| runs).sum::<usize>(), answer.runs);
    // Both kernels with all seeds, five players alone with the first.
    assert_eq!(made[0], (Stage::Kernels, 11));
}

#[test]
fn a_search_runs_few_releases_and_steps_add_up() {
    let (searched, made) = answer(&question("6.1", "6.18"), &build_time).unwrap();
    let explanation = &searched.explanations[0];
    let search = explanation.search.as_ref().unwrap();
    assert_eq!(explanation.most.as_ref().unwrap().step.to, "6.7");
    assert_eq!(steps(explanation).iter().map(|(to, _)| *to).collect::<Vec<_>>(), ["6.6", "6.7", "6.18"]);
    assert_eq!(explanation.steps[0].kernels, ["6.2", "6.3", "6.4", "6.5", "6.6"]);
    assert!(search.seed == 1 && 2 * search.run.len() < search.of && search.run.contains(&"6.7".into()));
    let every = Question { releases: Releases::Every, ..question("6.1", "6.18") };
    let (every, made_of_every) = answer(&every, &build_time).unwrap();
    let of_every = &every.explanations[0];
    assert!(of_every.search.is_none() && of_every.steps.len() == 17);
    assert_eq!(of_every.most.as_ref().unwrap().step.to, "6.7");
    assert_eq!(shares(of_every), shares(explanation));
    let whole = |steps: &[Step]| steps.iter().map(|step| step.change.difference).sum::<f64>();
    assert!((whole(&of_every.steps) - whole(&explanation.steps)).abs() < 1e-9);
    let runs = |made: &[(Stage, usize)]| made.iter().map(|(_, runs)| runs).sum::<usize>();
    assert!(runs(&made) + 20 < runs(&made_of_every), "{made:?} {made_of_every:?}");
}

#[test]
fn a_later_seed_searches_where_the_first_shows_nothing() {
    let late =
        |features: &Features, seed: u64| 100.0 - f64::from(seed == 2 && features.auto_tuning.is_some());
    let (answer, _) = answer(&question("6.5", "6.9"), &late).unwrap();
    let explanation = &answer.explanations[0];
    assert_eq!(explanation.search.as_ref().unwrap().seed, 2);
    assert_eq!(explanation.most.as_ref().unwrap().step.to, "6.7");
    // Who shows nothing with the first seed is idle, and then nobody is left to share.
    assert!(explanation.players.is_empty() && explanation.change.difference < 0.0);
}

#[test]
fn what_cannot_act_is_not_run() {
    let mut question = Question { releases: Releases::Every, ..question_of("kbuild", "6.2", "6.7") };
    // A build without files, under the classic LRU.
    question.scenario.workload.files = None;
    question.scenario.settings.insert("lru_gen/enabled".into(), "0".into());
    let (answer, made) = answer(&question, &build_time).unwrap();
    assert_eq!(answer.releases_that_cannot_act, ["6.3"]);
    assert_eq!(names(&answer.cannot_act), ["hugetlb", "mglru", "readahead", "zswap", "damon"]);
    // Both kernels; the other releases; what pagesets do is what both kernels show. The rest is the search among changes.
    let releases = made.iter().filter(|(stage, _)| *stage != Stage::Changes).collect::<Vec<_>>();
    let idle = &(Stage::Idle, 1);
    assert_eq!(releases, [&(Stage::Kernels, 9), idle, &(Stage::Releases, 9), &(Stage::Shares, 4)]);
    let explanation = &answer.explanations[0];
    assert_eq!((explanation.steps.len(), explanation.players.len()), (5, 1));
}

/// What is not run because it cannot act changes nothing where it is run all the same.
#[test]
fn what_cannot_act_does_not() {
    let mut paging = Scenario::load("burst-writer").unwrap();
    let workload = &mut paging.workload;
    (workload.warm_milliseconds, workload.milliseconds) = (0, 2000);
    for scenario in
        ["page_fault1", "xz-samples"].map(|name| Scenario::load(name).unwrap()).into_iter().chain([paging])
    {
        let question = Question {
            machine: load_machine(&scenario.machine).unwrap(),
            metrics: own_metric(&scenario).into_iter().collect(),
            scenario,
            ..question("6.1", "6.18")
        };
        let sides = question.sides().unwrap();
        let cannot_act = question.cannot_act(&sides).unwrap();
        let cannot: shapley::Players =
            sides.all().iter().filter(|&at| cannot_act.has(&sides.players[at])).collect();
        assert!(cannot.count() >= 2, "{}", question.scenario.name);
        let outcome = |set| {
            let run = question.run(&sides.kernel(set), 1).unwrap();
            let outcome = sim::run_noting(&run, &sim::progress::RunProgress::default()).unwrap();
            (outcome.metrics, outcome.counters)
        };
        assert_eq!(outcome(shapley::Players::NONE), outcome(cannot), "{}", question.scenario.name);
        assert_eq!(outcome(sides.all()), outcome(sides.all().but(cannot)), "{}", question.scenario.name);
    }
}

#[test]
fn back_is_forth_with_the_other_sign() {
    let forth = answer(&question("6.6", "6.8"), &build_time).unwrap().0;
    let back = answer(&question("6.8", "6.6"), &build_time).unwrap().0;
    let turned: Vec<(&str, f64)> =
        shares(&forth.explanations[0]).into_iter().map(|(name, share)| (name, -share)).collect();
    assert_eq!(shares(&back.explanations[0]), turned);
    assert_eq!(back.explanations[0].most.as_ref().unwrap().step.to, "6.6");
}

#[test]
fn by_change_a_player_is_a_feature() {
    let question = Question { grain: Grain::Change, ..question("6.6", "6.8") };
    let (answer, _) = answer(&question, &build_time).unwrap();
    let explanation = &answer.explanations[0];
    assert_eq!(explanation.players[0].player.name, "pcp.high_bounds + pcp.auto_tuning");
    let sum: f64 = shares(explanation).iter().map(|(_, share)| share).sum();
    assert!((sum + 36.0).abs() < 1e-9, "{sum}");
}

/// The formula of a player that works only beside another one, which it cannot show alone.
#[test]
fn who_works_only_beside_others_is_not_idle() {
    let only_together = |features: &Features, _: u64| {
        let folios = features.folios != KernelChoice::parse("pcp", "6.6").unwrap().features.folios;
        f64::from(features.auto_tuning.is_some() && folios)
    };
    let (answer, _) = answer(&question("6.6", "6.8"), &only_together).unwrap();
    assert_eq!(shares(&answer.explanations[0]), [("pcp", 0.5), ("folios", 0.5)]);
}

#[test]
fn where_nothing_moves_everyone_is_idle() {
    let (answer, _) = answer(&question("6.6", "6.8"), &|_, seed| seed as f64).unwrap();
    let explanation = &answer.explanations[0];
    assert!(explanation.players.is_empty() && explanation.most.is_none());
    assert_eq!(
        (explanation.change.difference, names(&answer.idle)),
        (0.0, vec!["pcp", "reclaim", "mglru", "readahead", "folios"])
    );
}

#[test]
fn kernels_that_are_no_releases_have_no_steps() {
    let (answer, _) = answer(&question_of("kbuild", "patch5", "patch9"), &build_time).unwrap();
    let explanation = &answer.explanations[0];
    assert!(explanation.steps.is_empty());
    let most = explanation.most.as_ref().unwrap();
    assert_eq!((most.step.from.as_str(), most.step.to.as_str()), ("patch5", "patch9"));
    assert_eq!(most.by.name, "pcp.high_bounds + pcp.auto_tuning");
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let refused = |question: &Question| {
        let error = answer(question, &build_time).map(drop).unwrap_err();
        error.to_string()
    };
    assert!(refused(&question_of("kbuild", "patch1", "patch2")).contains("the same kernel"));
    assert!(refused(&question("6.6", "6.99")).contains("6.99: no such variant"));
    let score = Question { metrics: vec![sim::metric::SCORE], ..question_of("kbuild", "6.6", "6.8") };
    assert!(refused(&score).contains("it has build_time, zone_lock"));
    // One that the scenario lists and its runs lack.
    let lock = Question { metrics: vec![LOCK], ..question_of("kbuild", "6.6", "6.8") };
    assert!(refused(&lock).ends_with("it has build_time, zone_lock"));
}

#[test]
fn the_own_metric_is_one_with_a_direction() {
    let mut scenario = Scenario::load("kbuild").unwrap();
    assert_eq!(own_metric(&scenario).unwrap().name, "build_time");
    scenario.metrics.insert(0, "duration".into());
    assert_eq!(own_metric(&scenario).unwrap().name, "build_time");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5))]

    /// Whatever mechanisms do together, drawn orders share the whole difference, seed by seed and so on average.
    #[test]
    fn shares_add_up(weights in proptest::collection::vec(-10.0..10.0_f64, 64), orders in 1_usize..5) {
        let old = KernelChoice::parse("pcp", "6.1").unwrap().features;
        let formula = move |features: &Features, seed: u64| {
            let set = [
                features.folios != old.folios,
                features.hugetlb != old.hugetlb,
                features.readahead != old.readahead,
                features.numa != old.numa,
                features.reclaim != old.reclaim,
                features.auto_tuning.is_some(),
            ];
            let set = set.iter().fold(0, |set, &is_new| 2 * set + usize::from(is_new));
            100.0 + weights[set] * seed as f64
        };
        let question = Question { orders, ..question("6.1", "6.12") };
        let (answer, _) = answer(&question, &formula).unwrap();
        let explanation = &answer.explanations[0];
        let sum: f64 = shares(explanation).iter().map(|(_, share)| share).sum();
        prop_assert!((sum - explanation.change.difference).abs() < 1e-9);
        let of_steps: f64 = explanation.steps.iter().map(|step| step.change.difference).sum();
        prop_assert!((of_steps - explanation.change.difference).abs() < 1e-9);
    }
}
