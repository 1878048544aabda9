//! All output of the command passes through this module.
//!
//! ```text
//!   tables, JSON, help ─► print ──► stdout   a write error is a failure of the command
//!   notes, progress ────► say ────► stderr   write errors are ignored
//!   errors ─► abridged ─► say
//! ```
//!
//! Much of the output comes from elsewhere: names of files and tasks, descriptions of scenarios, quoted
//! lines, text from the kernel. A terminal interprets some characters instead of showing them, so
//! [`harmless`] escapes these. It is applied to whole texts just before they are written, so that none is
//! forgotten. Tables apply it to their cells as well, because they count the width of each cell.

use crate::failure::Failure;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;

/// Maximum length, in characters, of a word, a quotation or a quoted line in an error message; a file may
/// consist of one line.
const LONGEST_FOREIGN: usize = 200;

/// Maximum length of a line of an error message; lists of names are shorter.
const LONGEST_LINE: usize = 2000;

/// The escape sequences that tables use on a terminal: bold, red, green, default colour, reset.
const STYLES: [&str; 5] = ["\x1b[1m", "\x1b[38;5;9m", "\x1b[38;5;10m", "\x1b[39m", "\x1b[0m"];

/// Prints a text and a newline to stdout.
pub fn print(text: &str) -> Result<(), Failure> {
    let text = if is_styled() { harmless_but_styles(text) } else { harmless(text) };
    print_as_it_is(&text)
}

/// Prints the text of `--help` or `--version`; it is all our own, so nothing is escaped.
pub fn print_help(help: &clap::Error) -> Result<(), Failure> {
    let help = help.render();
    let text = if is_styled() { help.ansi().to_string() } else { help.to_string() };
    print_as_it_is(text.trim_end_matches('\n'))
}

/// Prints a line to stderr. If stderr is closed, full or broken, the text is lost without an error.
pub fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "{}", harmless(&text.to_string()));
}

/// Prints an error message to stderr, shortened if it is long.
pub fn say_error(text: impl Display) {
    let _ = writeln!(io::stderr(), "{}", abridged(&text.to_string()));
}

/// Prints the panic message, and the backtrace if RUST_BACKTRACE asks for one.
pub fn say_panic(panic: &PanicHookInfo) {
    say(panic);
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        say(backtrace);
    }
}

/// Whether stdout is a terminal that has styles, and NO_COLOR is not set.
pub fn is_styled() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Escapes every character that a terminal would not show: control characters, bidirectional controls,
/// zero-width characters, line separators other than `\n`. Escapes are those of JSON, so an escaped JSON
/// document still means the same.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_shown) {
        return text.into();
    }
    let mut spelled = String::with_capacity(text.len());
    for character in text.chars() {
        if is_shown(character) {
            spelled.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(spelled, "\\u{unit:04x}");
            }
        }
    }
    spelled.into()
}

fn is_shown(character: char) -> bool {
    match character {
        '\n' | ' '..='~' => true,
        '\0'..='\x7f' => false,
        // A combining accent counts as shown when it follows a character.
        _ => !format!(" {character}").escape_debug().to_string().contains('\\'),
    }
}

fn harmless_but_styles(text: &str) -> Cow<'_, str> {
    let mut spelled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        let (before, from_escape) = rest.split_at(at);
        spelled += &harmless(before);
        let style = STYLES.into_iter().find(|style| from_escape.starts_with(style));
        let (escape, after) = from_escape.split_at(style.map_or(1, str::len));
        spelled += &style.map_or_else(|| harmless(escape), Cow::from);
        rest = after;
    }
    spelled += &harmless(rest);
    spelled.into()
}

/// An error message as it is printed: escaped, and cut where it is too long.
fn abridged(message: &str) -> String {
    let lines = harmless(message);
    let lines = lines.split('\n').map(|line| {
        // TOML errors quote lines of the file as `12 | text of line 12`.
        let is_quoted = line.split_once('|').is_some_and(|(number, _)| {
            number.ends_with(' ') && number.chars().all(|c| c == ' ' || c.is_ascii_digit())
        });
        if is_quoted {
            cut(line, LONGEST_FOREIGN).into_owned()
        } else {
            cut(&with_short_pieces(line), LONGEST_LINE).into_owned()
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Cuts long words and long quotations of a line.
fn with_short_pieces(line: &str) -> String {
    let between = |mark: char, line: &str| {
        // Quotations are every other piece; an unbalanced mark quotes nothing.
        let balanced = line.matches(mark).count().is_multiple_of(2);
        let short = |(number, piece)| {
            if number % 2 == 1 && balanced { cut(piece, LONGEST_FOREIGN) } else { piece.into() }
        };
        line.split(mark).enumerate().map(short).collect::<Vec<_>>().join(&mark.to_string())
    };
    let words: Vec<_> = line.split(' ').map(|word| cut(word, LONGEST_FOREIGN)).collect();
    between('"', &between('`', &words.join(" ")))
}

fn cut(text: &str, longest: usize) -> Cow<'_, str> {
    match text.char_indices().nth(longest) {
        None => text.into(),
        Some((end, _)) => format!("{}… ({} more)", &text[..end], text[end..].chars().count()).into(),
    }
}

fn print_as_it_is(text: &str) -> Result<(), Failure> {
    write_to_stdout(text).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::Other(anyhow::Error::new(error).context("cannot write to stdout")),
    })
}

/// Bypasses [`io::Stdout`], which silently discards output if the descriptor is closed.
fn write_to_stdout(text: &str) -> io::Result<()> {
    if at_start::stdout_was_closed() {
        return Err(io::Error::other("it is closed"));
    }
    let mut stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    stdout.write_all(format!("{text}\n").as_bytes())
}

/// Rust's runtime opens /dev/null in place of a closed stdout before `main`, so that no file gets descriptor
/// 1. Whether stdout was closed has to be checked before that.
#[allow(unsafe_code)]
mod at_start {
    use std::sync::atomic::{AtomicBool, Ordering};

    static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

    pub fn stdout_was_closed() -> bool {
        STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
    }

    extern "C" fn look_at_stdout() {
        // F_GETFD only reads the flags of a descriptor, and is valid for any number.
        let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        STDOUT_WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
    }

    // the loader calls the functions in .init_array before `main`, and this is one of their type.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK_AT_STDOUT: extern "C" fn() = look_at_stdout;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_spelled_out() {
        for (text, harmless_text) in [
            ("plain, ünïcode, 表, e\u{301}\n'\"\\", "plain, ünïcode, 表, e\u{301}\n'\"\\"),
            ("\x1b]0;title\x07\r\t\x7f\u{9b}2J", r"\u001b]0;title\u0007\u000d\u0009\u007f\u009b2J"),
            ("a\u{202e}b\u{2066}\u{200b}\u{feff}\u{2028}", r"a\u202eb\u2066\u200b\ufeff\u2028"),
            ("\u{e0041}", r"\udb40\udc41"),
        ] {
            assert_eq!(harmless(text), harmless_text);
            let document = format!("\"{}\"", harmless(&text.replace(['"', '\\', '\n'], "")));
            assert_eq!(
                serde_json::from_str::<String>(&document).unwrap(),
                text.replace(['"', '\\', '\n'], "")
            );
        }
    }

    #[test]
    fn tables_keep_their_styles_on_a_terminal() {
        let text = format!("{}\x1b[31m\x1b[2J\x1b", STYLES.concat());
        assert_eq!(harmless_but_styles(&text), format!(r"{}\u001b[31m\u001b[2J\u001b", STYLES.concat()));
    }

    #[test]
    fn what_is_foreign_and_long_is_cut_in_errors() {
        let long = "x".repeat(1000);
        let several = "x ".repeat(500);
        let cut_long = format!("{}… (800 more)", "x".repeat(200));
        let cut_several = format!("{}… (800 more)", "x ".repeat(100));
        assert_eq!(abridged(&format!("{long} is no file")), format!("{cut_long} is no file"));
        assert_eq!(abridged(&format!("kind `{several}`: none")), format!("kind `{cut_several}`: none"));
        assert_eq!(abridged(&format!("name = \"{several}\"")), format!("name = \"{cut_several}\""));
        let quoted = abridged(&format!("at line 1\n  |\n1 | {several}\n  | {}^", " ".repeat(500)));
        assert!(quoted.lines().all(|line| line.chars().count() < 220), "{quoted}");
        let names = "name, ".repeat(200);
        assert_eq!(abridged(&format!("`a` is none of {names}")), format!("`a` is none of {names}"));
        assert!(abridged(&"a ".repeat(10_000)).chars().count() < 2020);
    }
}
