//! Any text is a sweep file or an error, and so is each of its lines as a constraint, as a key with its values, and as a shard; what is a
//! space has a design.

#![no_main]

use lab::sweep::file::{Source, is_sweep};
use lab::sweep::goals::{Constraint, Direction, Goal, check_together};
use lab::sweep::plan::{Design, Method, Shard, Size};
use lab::sweep::space::Axis;
use libfuzzer_sys::fuzz_target;

const SIZE: Size = Size { points: 3, samples: None };

fuzz_target!(|text: &str| {
    let _ = is_sweep(text);
    let source = Source { place: "fuzz".into(), text: text.into() };
    if let Ok(file) = source.parse() {
        let axes = file.over.0.iter().filter_map(|(key, values)| Axis::of(key, &values.spec()).ok());
        let axes: Vec<Axis> = axes.take(4).collect();
        drop(Design::new(&axes, file.method, SIZE));
    }
    let constraints: Vec<Constraint> =
        text.lines().take(8).filter_map(|line| Constraint::parse(line).ok()).collect();
    drop(check_together(&constraints));
    let axes: Vec<Axis> = text.lines().take(4).filter_map(|line| Axis::parse(line).ok()).collect();
    for method in Method::ALL {
        drop(Design::new(&axes, method, SIZE));
    }
    for line in text.lines().take(8) {
        drop(line.parse::<Shard>());
        drop(Goal::parse(line, Direction::Minimize));
    }
});
