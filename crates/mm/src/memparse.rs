//! Sizes as users write them to the kernel: `4096`, `64K`, `512M` (`memparse` in lib/cmdline.c, up to T).

/// Bytes of a size; `None` if it is none, or if it does not fit into 64 bits.
pub(crate) fn memparse(size: &str) -> Option<u64> {
    let (digits, shift) = match size.as_bytes().last()? {
        b'K' | b'k' => (&size[..size.len() - 1], 10),
        b'M' | b'm' => (&size[..size.len() - 1], 20),
        b'G' | b'g' => (&size[..size.len() - 1], 30),
        b'T' | b't' => (&size[..size.len() - 1], 40),
        _ => (size, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}
