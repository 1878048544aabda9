//! What a sweep recommends, as text and as a file for sysctl.d: both are views of the same answer.

use crate::compare::tone_of;
use crate::files::tables;
use crate::number::{Told, change, number, percent, quantity};
use crate::run::title;
use crate::table::{Entry, Grid, Tone, folded, terminal_width};
use lab::statistics::Change;
use lab::sweep::goals::Measure;
use lab::sweep::{
    Answer, ConstraintResult, Cost, Effect, GoalResult, Holds, MemberResult, PointResult, Recommendation,
    Trial, Verdict, Why, on_machine,
};
use report::chart::{self, Axis, Chart, Drawing, Scale, Span, Spans};
use report::{Data, Page, Part, Section};
use sim::metric::Metric;

/// How one of several points is chosen that no other beats.
const RULE: &str = "Of those with * that keep the constraints the choice is the one with the largest part of the best gain of each goal, in \
                    the goal where its part is least; goals in which nothing gains do not count.";
/// How many points are shown.
const POINTS: usize = 8;
/// The answer as text.
pub fn render(answer: &Answer) -> String {
    let of = &answer.recommendation;
    let width = terminal_width().unwrap_or(usize::MAX);
    let mut text = format!("{}\n\n{}", folded(&verdict(answer), width), fleet(answer));
    if !of.goals.is_empty() {
        text += &format!(
            "\n\nWhat {} does, {}:\n\n",
            chosen(of),
            match answer.is_one_recording {
                true => "in the only recording that there is".into(),
                false => format!("on {} seeds that did not choose it", answer.held_out),
            }
        );
        text += &gains(answer).render();
    }
    if let Some(grid) = constraints(of) {
        let title = if of.goals.is_empty() {
            "Constraints, of the nearest point"
        } else {
            "Constraints, on the same seeds"
        };
        text += &format!("\n\n{title}:\n\n{}", grid.render());
    }
    if !of.goals.is_empty() {
        text += &format!("\n\n{}", costs(of));
    }
    text += &format!(
        "\n\nWhich settings matter, over {} points:\n\n{}",
        answer.points.len(),
        effects(answer).render()
    );
    match &answer.negligible()[..] {
        [] => {}
        [one] => text += &format!("\n{one} hardly matters here: leave it at its default."),
        several => {
            text += &format!("\n{} hardly matter here: leave them at their defaults.", several.join(", "))
        }
    }
    text += &format!("\n\n{}\n\n{}", points_title(answer), points(answer, POINTS).render());
    if answer.goals.len() > 1 {
        text += &format!("\n{}", folded(RULE, width));
    }
    if !of.trials.is_empty() && of.chosen.iter().any(on_machine::Chosen::is_setting) {
        text += &format!("\n\n{}", on_real_machine(answer, width));
    }
    text
}

/// The answer as a page.
pub fn page(answer: &Answer) -> Page {
    let of = &answer.recommendation;
    let (gains, effects, points) = (gains(answer), effects(answer), points(answer, usize::MAX));
    let (constraints, costs) = (constraints(of), costs_table(of));
    let chart = if answer.keys.len() == 1 { by_value(answer) } else { shares(answer) };
    let mut front = vec![Section { title: chart.title.clone(), parts: vec![Part::Chart(chart)] }];
    if !of.trials.is_empty() && of.chosen.iter().any(on_machine::Chosen::is_setting) {
        let code = Part::Code { title: "Commands".into(), text: on_real_machine(answer, usize::MAX) };
        front.push(Section { title: "On a real machine".into(), parts: vec![code] });
    }
    let mut grids = vec![("All points", &points), ("What the choice does", &gains)];
    grids.extend(constraints.as_ref().map(|constraints| ("Constraints", constraints)));
    grids.extend(costs.as_ref().map(|costs| ("What it costs", costs)));
    grids.push(("Which settings matter", &effects));
    let verdict = verdict(answer).lines().chain(fleet(answer).lines()).map(String::from).collect();
    Page { verdict, data: all_points(answer), ..tables("Which settings", front, &grids) }
}

/// The points, as they are.
fn all_points(answer: &Answer) -> Data {
    let mut header: Vec<&str> = answer.keys.iter().map(String::as_str).collect();
    let goals: Vec<String> = answer.goals.iter().map(|goal| format!("gain: {goal}")).collect();
    header.extend(goals.iter().map(String::as_str));
    header.extend(["seeds", "keeps the constraints"]);
    let mut data = Data::of(&header);
    for point in &answer.points {
        let values = answer.keys.iter().map(|key| point.values.get(key).cloned().unwrap_or_default());
        let gains = point.gains.iter().map(f64::to_string);
        data.rows
            .push(values.chain(gains).chain([point.seeds.to_string(), point.allowed.to_string()]).collect());
    }
    data
}

/// The gain of the first goal by the values of the only key.
fn by_value(answer: &Answer) -> Chart {
    let is_relative = answer.measures[0] == Measure::Relative;
    let scale = if is_relative { 100.0 } else { 1.0 };
    let span = |point: &PointResult| Span {
        name: point.values.values().cloned().collect(),
        mean: scale * point.gains[0],
        interval: None,
        label: told(answer, 0, point.gains[0]),
    };
    let goal = &answer.goals[0];
    let axis = Axis {
        title: format!("gain ({goal})"),
        measure: if is_relative { chart::Measure::Percent } else { chart::Measure::Number },
        scale: Scale::Linear,
    };
    Chart {
        title: format!("Gain by {}", answer.keys.join(", ")),
        caption: format!(
            "The mean gain of each value against the default over {} seeds that chose; to the right is better ({goal}).",
            answer.seeds
        ),
        drawing: Drawing::Spans(Spans { axis, spans: answer.points.iter().map(span).collect() }),
    }
}

/// The share of the variance that each setting makes alone.
fn shares(answer: &Answer) -> Chart {
    let first = answer.goals.first();
    let span = |effect: &Effect| Span {
        name: effect.key.clone(),
        mean: 100.0 * effect.main,
        interval: None,
        label: percent(effect.main),
    };
    let axis = Axis {
        title: "share of the variance".into(),
        measure: chart::Measure::Percent,
        scale: Scale::Linear,
    };
    Chart {
        title: "How much of the differences each setting makes".into(),
        caption: format!(
            "Part of the variance of the first goal ({}) over {} points that each setting makes by itself.",
            first.map_or("", String::as_str),
            answer.points.len()
        ),
        drawing: Drawing::Spans(Spans {
            axis,
            spans: answer.effects.iter().filter(|effect| Some(&effect.goal) == first).map(span).collect(),
        }),
    }
}

/// `vm.swappiness=100, vm.page-cluster=0`
fn chosen(of: &Recommendation) -> String {
    let pairs: Vec<String> =
        of.chosen.iter().map(|chosen| format!("{}={}", chosen.key, chosen.value)).collect();
    pairs.join(", ")
}

/// The change of a metric with its interval, in a line.
fn in_a_line(of: &Change, metric: &Metric) -> String {
    Told::of(of, metric).in_a_sentence()
}

/// The change of the fleet in a goal.
fn of_goal(goal: &GoalResult) -> String {
    let told = match (goal.members.first(), goal.measure) {
        (Some(member), Measure::Relative) => in_a_line(&goal.change, &member.metric),
        (Some(MemberResult { metric, .. }), Measure::Difference) => {
            let unit = metric.unit_of_change().unwrap_or(metric.unit);
            match change(&goal.change, Some(unit), "") {
                (value, Some(interval)) if !goal.change.is_exact() => format!("{value} {interval}"),
                (value, _) => value,
            }
        }
        (None, _) => String::new(),
    };
    match goal.holds {
        Holds::Same => format!("{} as before", label(goal)),
        _ => format!("{} {told}", label(goal)),
    }
}

/// The metric of a goal, unless each member has its own.
fn metric_of(goal: &str) -> Option<Metric> {
    Metric::find(changed(goal))
}

/// A mean gain in a goal, told as the change of the metric.
fn told(answer: &Answer, goal: usize, gain: f64) -> String {
    let name = &answer.goals[goal];
    let difference = if name.starts_with("minimize ") { -gain } else { gain };
    let sign = if difference > 0.0 { "+" } else { "" };
    match (metric_of(name), answer.measures[goal]) {
        _ if difference == 0.0 => "=".into(),
        (Some(metric), Measure::Difference) => format!("{sign}{}", quantity(difference, &metric)),
        (Some(metric), Measure::Relative) => {
            let ratio = Some(1.0 + difference);
            let of =
                Change { difference, difference_interval: None, ratio, ratio_interval: None, p_value: None };
            Told::of(&of, &metric).value
        }
        (None, _) => format!("{sign}{}", percent(difference)),
    }
}

/// What the change of a goal is of.
fn label(goal: &GoalResult) -> &str {
    match &goal.members[..] {
        [first, others @ ..] if others.iter().all(|other| other.metric == first.metric) => first.metric.label,
        _ => "gain in each workload's own metric",
    }
}

/// What to do, and why.
fn verdict(answer: &Answer) -> String {
    let of = &answer.recommendation;
    let goals = of.goals.iter().map(of_goal).collect::<Vec<_>>().join("; ");
    let seeds = match answer.is_one_recording {
        true => "of the only recording that there is: what chance makes of it is not known".into(),
        false if of.goals.iter().all(|goal| goal.change.is_exact()) => {
            format!("{} seeds that did not choose it, all the same", answer.held_out)
        }
        false => format!("95 % interval, {} seeds that did not choose it", answer.held_out),
    };
    let best =
        || format!("The best of {} points, {}, comes to {goals} ({seeds})", answer.points.len(), chosen(of));
    let set = if of.chosen.iter().any(on_machine::Chosen::is_setting) { "Set" } else { "Best is" };
    match of.why {
        Why::Gains => format!("{set} {}: {goals} ({seeds}).", chosen(of)),
        Why::KeepsConstraints => {
            let keeps = "it keeps the constraints, which the default does not";
            format!("{set} {}: {keeps}; {goals} ({seeds}).{}", chosen(of), losers(&of.goals))
        }
        Why::NoneAllowed => {
            let keeps = of.constraints.iter().all(|of| !of.was_broken);
            let default = if keeps { "; the default does" } else { ", nor does the default" };
            let nearest = match of.chosen.is_empty() {
                true => "It is nearest to them".into(),
                false => format!("Nearest to them is {}", chosen(of)),
            };
            format!("Keep the default: no point keeps all constraints{default}. {nearest}.")
        }
        Why::NoneBetter => {
            let all = answer.points.len();
            let over = match answer.is_one_recording {
                true => "in the only recording that there is".into(),
                false => format!("over {} seeds", answer.seeds),
            };
            match answer.points.iter().filter(|point| point.allowed).count() {
                allowed if allowed < all => format!(
                    "Keep the default: no point that keeps the constraints ({allowed} of {all}) is better, {over}."
                ),
                _ => format!("Keep the default: none of {all} points is better, {over}."),
            }
        }
        Why::MayBeChance => format!("Keep the default. {}: that may be chance.", best()),
        Why::TooSmall => format!("Keep the default. {}: less than what matters (--at-least).", best()),
        Why::Loses => format!("Keep the default. {}: a goal loses.", best()),
        Why::BreaksConstraint => {
            let broken =
                of.constraints.iter().filter(|of| !of.kept).map(|of| {
                    format!("{} of {}: {}", of.constraint, of.member, quantity(of.value, &of.metric))
                });
            let broken: Vec<String> = broken.collect();
            format!("Keep the default. {}, but breaks constraints there: {}.", best(), broken.join("; "))
        }
    }
}

/// The members that lose by what keeps the constraints, with a space before.
fn losers(goals: &[GoalResult]) -> String {
    let members = goals.iter().flat_map(|goal| &goal.members);
    let losing = members.filter(|member| member.holds == Holds::Worse).map(|of| {
        let change = in_a_line(&of.change, &of.metric);
        format!("{}: {} {change}", of.member, of.metric.label)
    });
    let losing: Vec<String> = losing.collect();
    if losing.is_empty() { String::new() } else { format!(" It loses on {}.", losing.join("; ")) }
}

/// What was asked for: goals, constraints and members, with how sure the model is of each.
fn fleet(answer: &Answer) -> String {
    let member = |of: &lab::sweep::MemberSummary| {
        let weight = if answer.fleet.len() > 1 { format!(", weight {}", of.weight) } else { String::new() };
        format!("{} on {}, {}{weight}\n  evidence: {}", of.scenario, of.machine, of.variant, of.evidence)
    };
    let constraints = match &answer.constraints[..] {
        [] => String::new(),
        texts => format!("; subject to {}", texts.join(", ")),
    };
    let asked = format!("asked: {}{constraints}", answer.goals.join(", "));
    std::iter::once(asked).chain(answer.fleet.iter().map(member)).collect::<Vec<_>>().join("\n")
}

fn holds(of: Holds) -> &'static str {
    match of {
        Holds::Better => "better",
        Holds::Worse => "worse",
        Holds::Negligible => "too little to matter",
        Holds::Unclear => "may be chance",
        Holds::Same => "no difference",
    }
}

fn gains(answer: &Answer) -> Grid {
    let mut grid = Grid {
        more_labels: 1,
        words: vec![4],
        ..Grid::new(&["workload", "metric", "default", "change", "holds"])
    };
    for goal in &answer.recommendation.goals {
        for MemberResult { member, metric, default, change, holds: of } in &goal.members {
            let tone = match of {
                Holds::Better => Tone::Good,
                Holds::Worse => Tone::Bad,
                Holds::Negligible | Holds::Unclear | Holds::Same => Tone::Plain,
            };
            let text = in_a_line(change, metric);
            grid.row([
                Entry::from(member.as_str()),
                title(metric).into(),
                number(*default).into(),
                Entry { text, tone },
                holds(*of).into(),
            ]);
        }
    }
    grid
}

/// What each constraint comes to; none if there are none.
fn constraints(of: &Recommendation) -> Option<Grid> {
    let mut grid = Grid {
        more_labels: 1,
        words: vec![4],
        ..Grid::new(&["constraint", "workload", "default", "chosen", ""])
    };
    for ConstraintResult { constraint, member, metric, default, value, kept, .. } in &of.constraints {
        let (text, tone) = if *kept { ("kept", Tone::Good) } else { ("broken", Tone::Bad) };
        grid.row([
            Entry::from(constraint.as_str()),
            member.as_str().into(),
            quantity(*default, metric).into(),
            quantity(*value, metric).into(),
            Entry { text: text.into(), tone },
        ]);
    }
    (!of.constraints.is_empty()).then_some(grid)
}

fn costs(of: &Recommendation) -> String {
    match costs_table(of) {
        Some(grid) => format!("What it costs:\n\n{}", grid.render()),
        None => "No other metric that can be better or worse gets worse, more than chance would make.".into(),
    }
}

/// What gets worse; none if nothing does.
fn costs_table(of: &Recommendation) -> Option<Grid> {
    let mut grid = Grid { more_labels: 1, ..Grid::new(&["workload", "gets worse", "change"]) };
    for Cost { member, metric, change, .. } in &of.costs {
        let text = in_a_line(change, metric);
        let tone = tone_of(metric, change.difference);
        grid.row([Entry::from(member.as_str()), title(metric).into(), Entry { text, tone }]);
    }
    (!of.costs.is_empty()).then_some(grid)
}

fn effects(answer: &Answer) -> Grid {
    let several = answer.goals.len() > 1;
    let mut header = vec!["setting", "goal", "default", "range of means", "share alone", "with others"];
    if !several {
        header.remove(1);
    }
    let mut grid = Grid { more_labels: usize::from(several), ..Grid::new(&header) };
    for Effect { key, goal, range, main, total, .. } in &answer.effects {
        let at = answer.goals.iter().position(|of| of == goal).unwrap_or_default();
        let default = answer.defaults.get(key).cloned().unwrap_or("-".into());
        let range = match (answer.measures[at], metric_of(goal)) {
            (Measure::Relative, _) => percent(*range),
            (Measure::Difference, Some(metric)) => quantity(*range, &metric),
            (Measure::Difference, None) => number(*range),
        };
        let mut row = vec![
            key.clone(),
            goal.clone(),
            default,
            range,
            percent(*main),
            total.map_or("-".into(), percent),
        ];
        if !several {
            row.remove(1);
        }
        grid.row(row);
    }
    grid
}

fn points_title(answer: &Answer) -> String {
    let goals = answer.goals.join(", ");
    let shown = match answer.points.len() {
        all if all > POINTS => format!("The best {POINTS} of {all} points"),
        all => format!("All {all} points"),
    };
    match answer.goals.len() {
        1 => format!(
            "{shown} by the seeds that chose ({goals}); the best of many look better there than they are:"
        ),
        _ => format!(
            "{shown} by the seeds that chose ({goals}); * marks those that no other beats in all goals:"
        ),
    }
}

/// The points, the best first, and `most` of them.
fn points(answer: &Answer, most: usize) -> Grid {
    let mut header: Vec<&str> = answer.keys.iter().map(String::as_str).collect();
    header.extend(answer.goals.iter().map(|goal| changed(goal)));
    header.extend(["seeds", ""]);
    let mut grid = Grid { words: vec![header.len() - 1], ..Grid::new(&header) };
    grid.more_labels = answer.keys.len().saturating_sub(1);
    let mut best: Vec<&PointResult> = answer.points.iter().collect();
    let key = |point: &PointResult| (point.seeds, point.allowed, point.on_front);
    best.sort_by(|a, b| key(b).cmp(&key(a)).then(b.gains[0].total_cmp(&a.gains[0])));
    let to_set = answer.recommendation.to_set();
    for point in best.into_iter().take(most) {
        let values = answer.keys.iter().map(|key| point.values.get(key).cloned().unwrap_or_default());
        let gains = point.gains.iter().enumerate().map(|(at, gain)| told(answer, at, *gain));
        let is_chosen =
            !to_set.is_empty() && to_set.iter().all(|of| point.values.get(&of.key) == Some(&of.value));
        let marks = [
            (point.on_front && answer.goals.len() > 1).then_some("*"),
            is_chosen.then_some("chosen"),
            (!point.allowed).then_some("breaks a constraint"),
            point.shortened.then_some("a quarter of the time"),
        ];
        let marks: Vec<&str> = marks.into_iter().flatten().collect();
        grid.row(values.chain(gains).chain([point.seeds.to_string(), marks.join(" ")]));
    }
    grid
}

/// What the change of a goal is of: `minimize build_time` is told as the change of `build_time`.
fn changed(goal: &str) -> &str {
    goal.split_once(' ').filter(|(way, _)| ["minimize", "maximize"].contains(way)).map_or(goal, |(_, of)| of)
}

/// How to set it, how to find out, and how to take it back.
fn on_real_machine(answer: &Answer, width: usize) -> String {
    let of = &answer.recommendation;
    let lines = |lines: Vec<String>| lines.iter().map(|line| format!("  {line}\n")).collect::<String>();
    let set = lines(of.chosen.iter().map(on_machine::Chosen::command).collect());
    let undo = lines(of.chosen.iter().map(on_machine::Chosen::undo).collect());
    let read = lines(of.chosen.iter().filter_map(on_machine::Chosen::read).collect());
    let folded = |of| folded(&trial(of), width.saturating_sub(2)).replace('\n', "\n  ");
    let trials = lines(of.trials.iter().map(folded).collect());
    let heading = match of.verdict {
        Verdict::Set => "On a real machine (nothing was set)",
        Verdict::KeepDefault => "To look at it on a real machine all the same",
    };
    format!(
        "{heading}:\n\nnote what it is now\n{read}set\n{set}measure, in turns with the default\n{trials}undo\n{}",
        undo.trim_end()
    )
}

fn trial(of: &Trial) -> String {
    let Trial { member, metric, seconds, runs, change } = of;
    let expected = in_a_line(change, metric);
    let refuted = match change.is_exact() || runs.is_none() {
        true => "refuted unless the change that you measure is significant and goes the same way",
        false => "refuted if the 95 % interval of the change that you measure does not overlap that",
    };
    let runs = match runs {
        Some(runs) => format!("{runs} runs of either side show it if the machine varies as the twin does"),
        None => {
            "the twin does not vary here, so take as many runs as your machine's own noise asks for".into()
        }
    };
    format!(
        "{member}: {}, {} s a run; {runs}. Predicted: {expected}; {refuted}",
        title(metric),
        number(*seconds)
    )
}

/// The recommendation as a file for /etc/sysctl.d.
pub fn sysctl_file(answer: &Answer) -> String {
    let of = &answer.recommendation;
    let use_of_file = match of.to_set() {
        [] => "It sets nothing: the default stays.",
        some if some.iter().any(on_machine::Chosen::is_of_sysctl) => {
            "Copy it to /etc/sysctl.d, then: sysctl --system"
        }
        _ => "It sets nothing, because none of what was chosen is a sysctl; what does is below.",
    };
    let mut notes = vec![
        format!("Written by mmtwin {} sweep. {use_of_file}", env!("CARGO_PKG_VERSION")),
        verdict(answer),
        String::new(),
    ];
    notes.push(fleet(answer));
    if !of.to_set().is_empty() {
        let worse = |goal: &GoalResult| {
            let members = goal.members.iter().filter(|member| member.holds != Holds::Better);
            members.map(does_not_hold).collect::<Vec<_>>()
        };
        notes.extend(of.goals.iter().flat_map(worse));
        let cost = |cost: &Cost| {
            format!("cost: {}: {} {}", cost.member, cost.metric.label, in_a_line(&cost.change, &cost.metric))
        };
        notes.extend(of.costs.iter().map(cost));
        notes.extend(of.trials.iter().map(|of| format!("check: {}", trial(of))));
        notes.extend(of.to_set().iter().map(|of| format!("undo: {}", of.undo().trim_start_matches("# "))));
    }
    on_machine::sysctl_file(&notes, of.to_set())
}

fn does_not_hold(of: &MemberResult) -> String {
    let MemberResult { member, metric, change, holds: of, .. } = of;
    let metric: &Metric = metric;
    format!("does not hold of {member}: {} {} ({})", metric.label, in_a_line(change, metric), holds(*of))
}
