//! Any text is what tracefs says of its buffers and events, or an error; what a format says of a record is in the record.

#![no_main]

use libfuzzer_sys::fuzz_target;
use live::tracefs::{BufferStatistics, EventFormat, SubBufferLayout, TextEvent};

/// A number, one in another's place, and a string.
const FIELDS: [&str; 3] = ["pfn", "page", "comm"];

fuzz_target!(|content: &[u8]| {
    // The text, and a record or sub-buffer of what it describes.
    let (text, record) = match content.iter().position(|&byte| byte == 0) {
        Some(end) => (&content[..end], &content[end + 1..]),
        None => (content, &[][..]),
    };
    let text = String::from_utf8_lossy(text);
    let _ = BufferStatistics::parse(&text);
    for line in text.lines() {
        if let Ok(Some(event)) = TextEvent::parse(line) {
            let _ = event.field("cpu");
        }
    }
    if let Ok(format) = EventFormat::parse(&text) {
        for field in FIELDS.iter().filter_map(|name| format.field(name).ok()) {
            let _ = (field.number(record), field.string(record));
        }
    }
    let Ok(layout) = SubBufferLayout::parse(&text) else { return };
    if let Ok(sub_buffer) = layout.open(record) {
        let _ = sub_buffer.take_while(Result::is_ok).count();
    }
});
