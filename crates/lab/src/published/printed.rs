//! Values as printed: `100.0`, `-3.4%`, `206s`, `0.75 MB`, `2m27.609s`, `61x slower`, `IOPS=5125.5k`, `4 * batch`.

/// A printed number with its precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// The number, in the printed unit.
    pub value: f64,
    /// Half a unit of the last printed digit.
    pub half_unit: f64,
}

impl Printed {
    /// Whether a change or a share is printed. Percentages of a base row and of CPU time come without the sign.
    pub fn is_percentage(text: &str) -> bool {
        text.trim_end().ends_with('%')
    }

    /// Reads a number with an optional sign, optionally behind `name=`, with optional words, `/` or `%` behind it, or
    /// minutes and seconds as time(1) prints them; none if it is something else.
    pub fn parse(text: &str) -> Option<Printed> {
        if let Some((minutes, seconds)) = text.strip_suffix('s').and_then(|text| text.split_once('m')) {
            let minutes: u32 = minutes.parse().ok()?;
            let seconds = Printed::parse(seconds)?;
            return Some(Printed { value: 60.0 * f64::from(minutes) + seconds.value, ..seconds });
        }
        let text = text.split_once('=').map_or(text, |(_, value)| value).trim();
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || matches!(c, '%' | '/' | ' '));
        let unsigned = number.trim_start_matches(['+', '-']);
        if !unsigned.chars().all(|c| c.is_ascii_digit() || c == '.') {
            return None;
        }
        let decimals = unsigned.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        Some(Printed { value: number.parse().ok()?, half_unit: 0.5 * 10f64.powi(-(decimals as i32)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_tables_print() {
        for (text, value, half_unit) in [
            ("100.0", 100.0, 0.05),
            ("-3.4%", -3.4, 0.05),
            ("+17.1%", 17.1, 0.05),
            ("206s", 206.0, 0.5),
            ("0.9375 MB", 0.9375, 0.00005),
            ("513633.4", 513633.4, 0.05),
            ("0m4.119s", 4.119, 0.0005),
            ("2m27.609s", 147.609, 0.0005),
            ("61x slower", 61.0, 0.5),
            ("37794.71 op/s", 37794.71, 0.005),
            ("6327.3k iops", 6327.3, 0.05),
            ("IOPS=5125.5k", 5125.5, 0.05),
            ("1817.13499 seconds", 1817.13499, 0.000005),
        ] {
            let printed = Printed::parse(text).unwrap();
            assert_eq!(printed.value, value, "{text}");
            assert!((printed.half_unit - half_unit).abs() < 1e-12, "{text}");
        }
        for text in [
            "4 * batch",
            "spinlock_t",
            ">> 3",
            "",
            "%",
            "1.2.3",
            "xm4.1s",
            "2-3x slowdown",
            "~2x",
            "two",
            ".",
        ] {
            assert_eq!(Printed::parse(text), None, "{text}");
        }
    }
}
