//! Colours and dashes that tell series apart: the palette of Okabe and Ito (2008), which people who see no red or no green can
//! tell apart, without its yellow, which is no line on white paper.
//!
//! The first series, with which others are compared, has the colour of the text. From the eighth on colours come again, dashed.

/// Of lines and of parts of bars; the first is for whoever embeds the picture to choose.
const COLOURS: [&str; 7] = ["currentColor", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"];

/// Dashes of lines, the first round solid; lengths of dash and gap in pixels.
const DASHES: [&[u32]; 3] = [&[], &[6, 3], &[2, 2]];

/// The colour of a series.
pub fn colour(at: usize) -> &'static str {
    COLOURS[at % COLOURS.len()]
}

/// The dash of a series.
pub fn dash(at: usize) -> &'static [u32] {
    DASHES[at / COLOURS.len() % DASHES.len()]
}

/// The colours of parts of a bar: no text colour among them, since a bar of it hides the text on it.
pub fn part(at: usize) -> &'static str {
    const OTHERS: &str = "#999999";
    COLOURS.get(at + 1).copied().unwrap_or(OTHERS)
}

/// The colour of text on a part of a bar: white on the three dark ones.
pub fn on_part(at: usize) -> &'static str {
    if at < 3 { "white" } else { "black" }
}

/// How many parts of a bar have a colour of their own.
pub const PARTS: usize = COLOURS.len() - 1;
