//! The numbered areas of a process, and how large they are together.

use mm::address_space::Vpn;
use std::ops::Range;

/// Areas by number.
#[derive(Debug, Default)]
pub(super) struct Areas {
    /// A number that no area has is one that is empty.
    all: Vec<Range<Vpn>>,
    /// Pages of all areas.
    pages: u64,
}

impl Areas {
    pub fn get(&self, number: u32) -> Range<Vpn> {
        self.all[number as usize].clone()
    }

    /// Adds an area that has been mapped, with a number that no other has.
    pub fn add(&mut self, number: u32, area: Range<Vpn>) {
        let number = number as usize;
        if self.all.len() <= number {
            self.all.resize(number + 1, 0..0);
        }
        self.pages += area.end - area.start;
        self.all[number] = area;
    }

    /// Removes an area that has been unmapped.
    pub fn remove(&mut self, number: u32) {
        let area = std::mem::take(&mut self.all[number as usize]);
        self.pages -= area.end - area.start;
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
        let all: Vec<Range<Vpn>> = areas.into_iter().collect();
        Areas { pages: all.iter().map(|area| area.end - area.start).sum(), all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_have_the_numbers_that_they_are_given() {
        let mut areas: Areas = [0..4, 8..9, 16..18, 32..40].into_iter().collect();
        assert_eq!(areas.pages(), 15);
        areas.remove(1);
        areas.remove(2);
        assert_eq!((areas.pages(), areas.get(1)), (12, 0..0));
        [2, 1, 5].into_iter().zip(64..).for_each(|(number, start)| areas.add(number, start..start + 1));
        assert_eq!([1, 2, 5].map(|number| areas.get(number).start), [65, 64, 66]);
        assert_eq!((areas.pages(), areas.iter().count()), (15, 6));
    }
}
