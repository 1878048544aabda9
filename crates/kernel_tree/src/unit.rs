//! The text that is compiled: options, header, records, what was taken from the tree, and shims between both.
//!
//! Everything is in one file, so that its hash is the hash of all of it. What is the tree's says so to the compiler (`#line`), whose
//! messages then name the tree's file and line.

use crate::compiler::Instrumentation;
use crate::decision::{CFile, HEADERS, SHIMS, records};
use crate::extract::Extract;
use crate::note;
use std::fmt::Write;

/// How a process writes down which branches were taken.
const COVERAGE: &str = "extern void __gcov_dump(void);\n\
    MMTWIN_EXPORT void mmtwin_write_coverage(void);\n\
    void mmtwin_write_coverage(void) { __gcov_dump(); }\n";

/// What the compiler may call by itself where there is no C library.
const WITHOUT_LIBRARY: &str = "\
    __attribute__((used)) static void *mmtwin_memset(void *to, int byte, unsigned long length)\n\
    { for (char *at = to; length; length--) *(volatile char *)at++ = byte; return to; }\n\
    __attribute__((used)) static void *mmtwin_memcpy(void *to, const void *from, unsigned long length)\n\
    { for (char *at = to; length; length--) { *(volatile char *)at++ = *(const char *)from; from = (const char *)from + 1; } return to; }\n\
    void *memset(void *, int, unsigned long) __attribute__((alias(\"mmtwin_memset\"), visibility(\"hidden\")));\n\
    void *memcpy(void *, const void *, unsigned long) __attribute__((alias(\"mmtwin_memcpy\"), visibility(\"hidden\")));\n";

/// The text that a compiler is given for what was taken.
pub fn text(extract: &Extract, instrumentation: Instrumentation) -> String {
    let mut unit = String::new();
    let mut add = |line: std::fmt::Arguments| {
        // A `String` takes all that is written to it.
        let _ = unit.write_fmt(line);
    };
    for (option, value) in &extract.options {
        add(format_args!("#define {option} {value}\n"));
    }
    add(format_args!("#define MMTWIN_NOTE_WORDS {}\n", note::WORDS));
    add(format_args!("#define MMTWIN_NOTE_DECISIONS {}\n", note::MOST_DECISIONS));
    let of_ours = |file: &CFile| format!("#line 1 \"mmtwin/{}\"\n{}\n", file.name, file.text);
    HEADERS.iter().take(1).for_each(|file| add(format_args!("{}", of_ours(file))));
    match instrumentation {
        Instrumentation::None => add(format_args!("{WITHOUT_LIBRARY}")),
        Instrumentation::Coverage => add(format_args!("{COVERAGE}")),
        Instrumentation::Sanitizers => {}
    }
    add(format_args!("#line 1 \"mmtwin/records\"\n{}", records()));
    HEADERS.iter().skip(1).for_each(|file| add(format_args!("{}", of_ours(file))));
    for taken in &extract.taken {
        add(format_args!("#line {} \"{}\"\n{}\n", taken.place.line, taken.place.file, taken.text));
    }
    for found in &extract.found {
        let (name, number) = (found.decision.name, found.decision.number());
        add(format_args!(
            "#define MMTWIN_CALL_{name} {}\n#define MMTWIN_NUMBER_{name} {number}\n",
            found.call
        ));
    }
    SHIMS.iter().for_each(|file| add(format_args!("{}", of_ours(file))));
    unit
}
