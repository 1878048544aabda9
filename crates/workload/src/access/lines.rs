//! Line-by-line decoding, shared by the formats with one record per line.

use super::{Access, AccessError, BLOCK, Decode, Input};

/// Longest line that is read. Lines of traces are far shorter; a file of another kind may have no line ends
/// at all.
const LONGEST: usize = 1 << 16;

/// A format with one record per line.
pub(super) trait LineFormat: Send {
    /// Whether the format's writer ends every line; if so, a last line without an end was cut short.
    const ENDS_LINES: bool;

    /// Appends the accesses of `line`, given without its end. The error says what is wrong and what would be
    /// right.
    fn line(&mut self, line: &[u8], out: &mut Vec<Access>) -> Result<(), String>;

    /// Checks that the trace may end here.
    fn end(&self) -> Result<(), String> {
        Ok(())
    }
}

pub(super) struct Lines<F> {
    input: Input,
    format: F,
    text: Vec<u8>,
    number: u64,
}

impl<F: LineFormat> Lines<F> {
    pub fn new(input: Input, format: F) -> Lines<F> {
        Lines { input, format, text: Vec::new(), number: 0 }
    }

    fn wrong(&self, problem: String) -> AccessError {
        AccessError::Line { file: self.input.file.clone(), line: self.number, problem }
    }
}

impl<F: LineFormat> Decode for Lines<F> {
    fn decode(&mut self, out: &mut Vec<Access>) -> Result<(), AccessError> {
        while out.len() < BLOCK {
            if !self.input.read_line(&mut self.text, LONGEST)? {
                return self.format.end().map_err(|problem| self.wrong(problem));
            }
            self.number += 1;
            let whole = match self.text.strip_suffix(b"\n") {
                Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
                None if self.text.len() >= LONGEST => {
                    return Err(
                        self.wrong(format!("no line end in {LONGEST} bytes: this is not a text trace"))
                    );
                }
                None if F::ENDS_LINES => {
                    return Err(
                        self.wrong("the last line has no end: the trace is cut short; copy it again".into())
                    );
                }
                None => &self.text,
            };
            self.format.line(whole, out).map_err(|problem| self.wrong(problem))?;
        }
        Ok(())
    }
}

/// The words of a line, separated by white space.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

pub(super) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses seconds, with or without a fraction, into nanoseconds; further digits are dropped.
pub(super) fn seconds(text: &[u8]) -> Option<u64> {
    let (whole, fraction) = match text.iter().position(|&byte| byte == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &[][..]),
    };
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |place: usize| fraction.get(place).map_or(0, |digit| u64::from(digit - b'0'));
    let nanoseconds = (0..9).fold(0, |sum, place| sum * 10 + digit(place));
    number(whole)?.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

/// The beginning of a line, for error messages.
pub(super) fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut shown: String = text.chars().take(60).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().nth(60).is_some() {
        shown.push_str("...");
    }
    shown
}
