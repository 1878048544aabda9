//! Places of labels beside the ends of lines: as near as possible to where the line ends, and not on each other.

/// Least distance between labels, in pixels.
const DISTANCE: f64 = 14.0;

/// Moves places, in pixels from the top of something so high, apart. Their order stays.
pub fn apart(places: &[f64], height: f64) -> Vec<f64> {
    let distance = DISTANCE.min(height / places.len().max(1) as f64);
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|&a, &b| places[a].total_cmp(&places[b]));
    let mut moved = places.to_vec();
    let mut free_from = 0.0;
    for &at in &order {
        moved[at] = moved[at].max(free_from);
        free_from = moved[at] + distance;
    }
    let mut free_to = height;
    for &at in order.iter().rev() {
        moved[at] = moved[at].min(free_to);
        free_to = moved[at] - distance;
    }
    moved
}

/// Names of lines that are the same: the first few, and how many there are of others.
pub fn joined(names: &[&str]) -> String {
    const FEW: usize = 2;
    match names {
        [first, second, others @ ..] if others.len() > 1 => {
            format!("{first}, {second} and {} more", others.len())
        }
        names if names.len() <= FEW + 1 => names.join(", "),
        _ => String::new(),
    }
}
