//! Whether specifications hold what they are to show, whatever the values are.

use super::labels::apart;
use super::*;
use proptest::prelude::*;

proptest! {
    /// Labels neither lie on each other nor change places, and stay beside the chart.
    #[test]
    fn labels_are_apart(places in prop::collection::vec(0.0..260.0f64, 1..40)) {
        let moved = apart(&places, 260.0);
        let distance = 14f64.min(260.0 / places.len() as f64);
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by(|&a, &b| places[a].total_cmp(&places[b]));
        for pair in order.windows(2) {
            prop_assert!(moved[pair[1]] - moved[pair[0]] >= distance - 1e-9, "{moved:?}");
        }
        prop_assert!(moved.iter().all(|place| (-1e-9..=260.0 + 1e-9).contains(place)), "{moved:?}");
    }

    /// No value is lost or makes a specification that is no JSON, be it infinite, negative on a logarithmic axis or no number.
    #[test]
    fn every_number_that_an_axis_has_is_drawn(
        values in prop::collection::vec(number(), 1..30),
        scale in prop_oneof![Just(Scale::Linear), Just(Scale::Logarithmic)],
        measure in prop_oneof![Just(Measure::Bytes), Just(Measure::Seconds), Just(Measure::Number)],
    ) {
        let points = values.iter().zip(1..).map(|(&y, x)| Point::at(f64::from(x), y));
        let axis = |measure, scale| Axis { title: "axis".into(), measure, scale };
        let lines = Lines {
            x: axis(Measure::Number, Scale::Linear),
            y: axis(measure, scale),
            y_ends: None,
            lines: vec![Line { name: "a".into(), points: points.collect() }],
        };
        let chart = Chart { title: "t".into(), caption: "c".into(), drawing: Drawing::Lines(lines) };
        let spec = chart.spec();
        let fits = |value: &&f64| value.is_finite() && (scale == Scale::Linear || **value > 0.0);
        prop_assert_eq!(spec["layer"][0]["data"]["values"].as_array().unwrap().len(), values.iter().filter(fits).count());
        let axis = &spec["layer"][0]["encoding"]["y"];
        let ends = axis["scale"]["domain"].as_array().unwrap();
        prop_assert!(ends.iter().all(|end| end.is_number()) && ends[0].as_f64() <= ends[1].as_f64(), "{axis}");
        let ticks = axis["axis"]["values"].as_array().into_iter().flatten();
        prop_assert!(ticks.into_iter().all(Value::is_number), "{axis}");
        prop_assert!(serde_json::from_str::<Value>(&spec.to_string()).is_ok());
    }
}

/// What may be measured, and what must not stop a chart.
fn number() -> impl Strategy<Value = f64> {
    let odd = vec![0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    prop_oneof![-1e15..1e15f64, 1e-12..1.0f64, prop::sample::select(odd)]
}

fn stacks(bars: &[&[(&str, f64)]]) -> Value {
    let stack = |(at, parts): (usize, &&[(&str, f64)])| Stack {
        name: at.to_string(),
        parts: parts.iter().map(|(name, part)| (name.to_string(), *part)).collect(),
    };
    let axis = Axis { title: "CPU time".into(), measure: Measure::Seconds, scale: Scale::Linear };
    Stacks { axis, stacks: bars.iter().enumerate().map(stack).collect() }.spec()
}

#[test]
fn parts_add_up_to_their_bar() {
    let many: Vec<(String, f64)> = (1..=9).map(|part| (format!("part{part}"), f64::from(part))).collect();
    let many: Vec<(&str, f64)> = many.iter().map(|(name, part)| (name.as_str(), *part)).collect();
    let spec = stacks(&[&many, &[("part9", 4.0)]]);
    let values = spec["data"]["values"].as_array().unwrap();
    let last = values.iter().rev().find(|value| value["of"] == "0").unwrap();
    assert_eq!((&last["part"], &last["to"]), (&json!("all others"), &json!(45)));
    assert_eq!(values.iter().find(|value| value["of"] == "1").unwrap()["to"], 4);
}

#[test]
fn lines_that_are_the_same_share_a_label_and_are_both_seen() {
    let line =
        |name: &str, y| Line { name: name.into(), points: vec![Point::at(0.0, 1.0), Point::at(1.0, y)] };
    let axis = || Axis { title: String::new(), measure: Measure::Bytes, scale: Scale::Linear };
    let lines = vec![line("lru", 4096.0), line("g614", 4096.0), line("clock", 8192.0)];
    let spec = Lines { x: axis(), y: axis(), y_ends: None, lines }.spec();
    let labels =
        spec["layer"].as_array().unwrap().last().unwrap()["data"]["values"].as_array().unwrap().clone();
    let labels: Vec<&str> = labels.iter().map(|label| label["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["lru, g614", "clock"]);
    let widths = spec["layer"][0]["encoding"]["strokeWidth"]["scale"]["range"].as_array().unwrap().clone();
    assert!(widths.windows(2).all(|pair| pair[0].as_f64() > pair[1].as_f64()), "{widths:?}");
}

#[test]
fn bytes_have_ticks_at_powers_of_two() {
    let axis = Axis { title: String::new(), measure: Measure::Bytes, scale: Scale::Linear };
    let encoding = axis.over(0.0, 3.0 * 1073741824.0).encoding("y");
    let ticks: Vec<f64> =
        encoding["axis"]["values"].as_array().unwrap().iter().map(|tick| tick.as_f64().unwrap()).collect();
    assert_eq!(ticks[..3], [0.0, 536870912.0, 1073741824.0]);
    assert!(encoding["axis"]["labelExpr"].as_str().unwrap().contains("' GiB'"));
}

#[test]
fn labels_of_ticks_say_how_much_it_is() {
    for (measure, size, unit) in [
        (Measure::Bytes, "1.048576e6", " MiB"),
        (Measure::Seconds, "1e-3", " ms"),
        (Measure::PerSecond, "1e3", " k/s"),
        (Measure::Number, "1e3", " k"),
    ] {
        let label = measure.label();
        let step = format!("abs(datum.value) >= {size} ? format(datum.value / {size}, '.6~r') + '{unit}'");
        assert!(label.contains(&step), "{label}");
    }
    assert_eq!(of_metric(&sim::metric::ZONE_LOCK).0, Measure::Percent);
    assert_eq!(of_metric(&sim::metric::PCP_MAX), (Measure::Bytes, 1048576.0));
}
