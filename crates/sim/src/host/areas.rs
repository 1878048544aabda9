//! The numbered areas of a process.
//!
//! ```text
//!   0 │ 1 │ 2 │ 3      1 and 2 unmapped: 0 │ - │ - │ 3      one mapped: 0 │ - │ 2 │ 3      three mapped: 0 │ 1 │ 2 │ 3 │ 4 │ 5
//! ```

use mm::address_space::Vpn;
use std::ops::Range;

/// Areas by number.
#[derive(Debug, Default)]
pub(super) struct Areas {
    /// What has been unmapped is empty.
    all: Vec<Range<Vpn>>,
    /// Numbers of areas that have been unmapped, the last one last.
    unmapped: Vec<u32>,
    /// Pages of all areas.
    pages: u64,
}

impl Areas {
    pub fn get(&self, number: u32) -> Range<Vpn> {
        self.all[number as usize].clone()
    }

    /// Adds an area that has been mapped, with the number that [`Mmap`](workload::operation::Operation::Mmap) says.
    pub fn add(&mut self, area: Range<Vpn>) {
        self.pages += area.end - area.start;
        match self.unmapped.pop() {
            Some(number) => self.all[number as usize] = area,
            None => self.all.push(area),
        }
    }

    /// Removes an area that has been unmapped.
    pub fn remove(&mut self, number: u32) {
        let area = &mut self.all[number as usize];
        self.pages -= area.end - area.start;
        area.end = area.start;
        self.unmapped.push(number);
    }

    /// Pages of all areas together.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// All areas in the order of their numbers; those that have been unmapped are empty.
    pub fn iter(&self) -> impl Iterator<Item = &Range<Vpn>> {
        self.all.iter()
    }
}

impl FromIterator<Range<Vpn>> for Areas {
    fn from_iter<I: IntoIterator<Item = Range<Vpn>>>(areas: I) -> Areas {
        let mut all = Areas::default();
        areas.into_iter().for_each(|area| all.add(area));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_unmapped_last_is_numbered_again_first() {
        let mut areas: Areas = [0..4, 8..9, 16..18, 32..40].into_iter().collect();
        assert_eq!(areas.pages(), 15);
        areas.remove(1);
        areas.remove(2);
        assert_eq!((areas.pages(), areas.get(1)), (12, 8..8));
        (64..67).for_each(|start| areas.add(start..start + 1));
        assert_eq!([1, 2, 4].map(|number| areas.get(number).start), [65, 64, 66]);
    }
}
