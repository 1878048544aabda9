//! Watermarks: zones of a machine, and what `watermark.rs` makes of them.

use super::case::{Both, Case, Known, Span};
use super::draw::Draw;
use mm::Features;
use mm::ZoneType;
use mm::decisions::WatermarkState;
use mm::watermark;

pub fn cases() -> Vec<Case> {
    vec![
        Both {
            name: "__setup_per_zone_wmarks",
            releases: Span::ALL,
            rule: |d| d.watermarks,
            draw: zones,
            own: marks,
            known: KNOWN,
        }
        .into(),
    ]
}

const KNOWN: &[Known<WatermarkState>] = &[
    Known {
        releases: Span::only(6, 1),
        when: |s| s.kind.contains(&MOVABLE),
        why: "6.1 counts movable zones as low memory and gives them a share; the twin has the later rule in all kernels",
    },
    Known {
        releases: Span::only(6, 1),
        when: |s| lowmem(s) >> 32 != 0,
        why: "6.1 divides by the low 32 bits of a number of pages: wrong from 16 TiB on, and mended since",
    },
];

const MOVABLE: i32 = ZoneType::Movable as i32;

/// Managed pages of all zones but movable ones.
fn lowmem(s: &WatermarkState) -> u64 {
    (0..s.nr_zones as usize).filter(|&zone| s.kind[zone] != MOVABLE).map(|zone| s.managed[zone]).sum()
}

fn zones(draw: &mut Draw) -> WatermarkState {
    let mut state = WatermarkState {
        min_free_kbytes: draw.number(128, 1 << 26, &[67_584]) as i32,
        watermark_scale_factor: draw.number(1, 3000, &[10]) as i32,
        page_shift: draw.one_of([12, 14, 16]),
        nr_zones: draw.number(1, 6, &[]) as i32,
        ..WatermarkState::default()
    };
    for zone in 0..state.nr_zones as usize {
        // The first is no movable one, so that there is low memory.
        state.kind[zone] = draw.number(0, if zone == 0 { 2 } else { 3 }, &[]) as i32;
        state.managed[zone] = draw.number(1, 1 << 34, &[3840]) as u64;
    }
    // 6.1 divides by the low 32 bits of the sum of all zones; where they are all 0 it does not boot.
    let all_pages: u64 = state.managed.iter().sum();
    state.managed[0] += u64::from(all_pages as u32 == 0);
    state
}

fn marks(_: &Features, s: &mut WatermarkState) {
    let lowmem = lowmem(s);
    let min_free = (s.min_free_kbytes >> (s.page_shift - 10)) as u64;
    for zone in 0..s.nr_zones as usize {
        let kind = ZoneType::ALL[s.kind[zone] as usize];
        let scale = s.watermark_scale_factor as u64;
        let marks = watermark::marks(kind, s.managed[zone], min_free, lowmem, scale);
        [s.min[zone], s.low[zone], s.high[zone], s.promo[zone]] = marks;
    }
}
