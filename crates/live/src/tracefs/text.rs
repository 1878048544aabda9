//! The tracefs file `trace`: events as lines of text.
//!
//! ```text
//!   mmtwin-write-4711    [001] d.h1.  8463.211907: csd_queue_cpu: cpu=0 callsite=... func=do_flush_tlb_all csd=...
//!   task                 CPU   context  seconds    event          fields
//! ```
//!
//! Slower than the binary records of the ring buffer, but the kernel has already converted addresses to
//! function names and gfp flags to their names. In the kernel: `trace_print_lat_fmt` in
//! `kernel/trace/trace_output.c` (6.18).

/// One line of `trace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextEvent<'a> {
    /// The event happened in a hard or soft interrupt, so it has nothing to do with the interrupted task.
    pub in_interrupt: bool,
    /// Name of the tracepoint.
    pub name: &'a str,
    fields: &'a str,
}

impl<'a> TextEvent<'a> {
    /// Parses a line; `None` for comments and empty lines. The task name must not contain a bracket.
    pub fn parse(line: &'a str) -> Result<Option<TextEvent<'a>>, String> {
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let parsed = || {
            let (_, rest) = line.split_once('[')?;
            let (_cpu, rest) = rest.split_once("] ")?;
            let (context, rest) = rest.trim_start().split_once(' ')?;
            let (_time, rest) = rest.split_once(": ")?;
            let (name, fields) = rest.split_once(": ")?;
            // The third character of the context: h and H hard interrupt, s soft interrupt, z and Z NMI.
            let in_interrupt = matches!(context.chars().nth(2)?, 'h' | 'H' | 's' | 'z' | 'Z');
            Some(TextEvent { in_interrupt, name: name.trim(), fields })
        };
        parsed().map(Some).ok_or_else(|| {
            format!("expected `TASK-PID [CPU] CONTEXT SECONDS: EVENT: FIELDS`, found `{}`", line.trim())
        })
    }

    /// The value of a field, up to the next blank.
    pub fn field(&self, name: &str) -> Option<&'a str> {
        self.fields.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_become_events() {
        let line = "    mmtwin-write-4711    [001] d.h1.  8463.211907: csd_queue_cpu: cpu=0 \
                    callsite=on_each_cpu_cond_mask+0x20/0x60 func=do_flush_tlb_all csd=00000000a0b1";
        let event = TextEvent::parse(line).unwrap().unwrap();
        assert_eq!((event.name, event.in_interrupt), ("csd_queue_cpu", true));
        assert_eq!((event.field("func"), event.field("cpu")), (Some("do_flush_tlb_all"), Some("0")));
        assert_eq!((event.field("fun"), event.field("callsite+")), (None, None));
        let in_task = line.replace("d.h1.", "...2.");
        assert!(!TextEvent::parse(&in_task).unwrap().unwrap().in_interrupt);
        assert_eq!(TextEvent::parse("# tracer: nop"), Ok(None));
        assert_eq!(TextEvent::parse(""), Ok(None));
    }

    #[test]
    fn other_lines_are_refused() {
        let error = TextEvent::parse("CPU:1 [LOST 12 EVENTS]").unwrap_err();
        assert!(error.ends_with("found `CPU:1 [LOST 12 EVENTS]`"), "{error}");
    }

    proptest! {
        #[test]
        fn any_line_gives_an_event_or_an_error(line in ".{0,120}") {
            if let Ok(Some(event)) = TextEvent::parse(&line) {
                prop_assert!(event.field("func").is_none_or(|value| !value.contains(' ')));
            }
        }
    }
}
