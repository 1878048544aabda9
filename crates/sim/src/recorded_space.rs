//! The address space of a process whose mappings were recorded.
//!
//! ```text
//!   recorded   map ─ protect ─ unmap ...      in pages of 4 KiB, at the addresses of the recorded process
//!                       │ Places: in pages of the machine's size
//!   twin       mmap_fixed, mprotect, munmap, madvise
//! ```
//!
//! Of private file mappings only copied pages are modelled, and of shared mappings none. Each file mapping of a process is of a file of
//! its own, which no device has; when the process runs again, it maps the same ones. Mappings that exec makes itself, the image and the
//! stack, are not in the recording: a store there copies a file page.

mod places;

use machine::PageSize;
use mm::Kernel;
use mm::address_space::{Advice, Backing, MmId, VmFlags, Vpn};
use mm::memory::Unmapped;
use mm::xarray::FileId;
use places::{Pages, Places};
use workload::mappings::{Change, Operation};

/// Where the recorded pages of a process are mapped.
#[derive(Debug)]
pub(crate) struct RecordedSpace {
    places: Places,
    /// The files that the process maps, in the order in which it does.
    files: Vec<FileId>,
    /// How many of them it has mapped since it began.
    mapped: usize,
}

impl RecordedSpace {
    /// An empty address space with this page size.
    pub fn new(page_size: PageSize) -> RecordedSpace {
        RecordedSpace { places: Places::new(page_size), files: Vec::new(), mapped: 0 }
    }

    /// The process begins anew, with nothing mapped.
    pub fn exec(&mut self) {
        (self.places, self.mapped) = (self.places.empty(), 0);
    }

    /// The process begins with what its parent has mapped.
    pub fn fork(&mut self, parent: &RecordedSpace) {
        (self.places, self.mapped) = (parent.places.clone(), 0);
    }

    /// The file that it maps next.
    fn next_file(&mut self, kernel: &mut Kernel) -> Backing {
        self.mapped += 1;
        if self.files.len() < self.mapped {
            self.files.push(kernel.parts.page_cache.open_file());
        }
        Backing::File(self.files[self.mapped - 1], 0)
    }

    /// Changes the mappings of `id`. Returns what was unmapped.
    pub fn map(&mut self, kernel: &mut Kernel, id: MmId, change: &Change) -> Unmapped {
        let (recorded, rights) = (change.range(), rights(change));
        let mut unmapped = Unmapped::default();
        match change.operation {
            Operation::MapAnon if change.pages > 0 => {
                unmapped = self.mmap(kernel, id, change, Backing::Anonymous);
            }
            Operation::MapFile if change.pages > 0 => {
                let file = self.next_file(kernel);
                unmapped = self.mmap(kernel, id, change, file);
            }
            Operation::MapShared if change.pages == 0 => {}
            Operation::Unmap | Operation::MapShared => {
                for Pages { whole, parts } in self.places.unmap(recorded) {
                    unmapped += kernel.munmap(id, whole);
                    discard_parts(kernel, id, parts, &mut unmapped);
                }
            }
            Operation::Protect if change.pages > 0 => {
                for Pages { whole, parts } in self.places.pages(recorded) {
                    kernel.parts.mprotect(id, whole, rights);
                    add_rights(kernel, id, parts, rights);
                }
            }
            Operation::Dontneed => {
                for Pages { whole, parts } in self.places.discard(recorded) {
                    unmapped += kernel.madvise_dontneed(id, whole);
                    discard_parts(kernel, id, parts, &mut unmapped);
                }
            }
            Operation::Hugepage | Operation::Nohugepage => {
                let huge = change.operation == Operation::Hugepage;
                let advice = if huge { Advice::HugePage } else { Advice::NoHugePage };
                self.places.pages(recorded).iter().for_each(|pages| kernel.madvise(id, pages.all(), advice));
            }
            _ => {}
        }
        unmapped
    }

    /// Maps an area over whatever is mapped there. Returns what was unmapped.
    fn mmap(&mut self, kernel: &mut Kernel, id: MmId, change: &Change, backing: Backing) -> Unmapped {
        let (recorded, rights) = (change.range(), rights(change));
        let mut unmapped = Unmapped::default();
        for Pages { parts, .. } in self.places.discard(recorded.clone()) {
            discard_parts(kernel, id, parts, &mut unmapped);
        }
        let grows = |page| {
            let vma = kernel.parts.address_spaces.mm(id).vmas.find(page);
            vma.is_some_and(|vma| (vma.backing, backing) == (Backing::Anonymous, Backing::Anonymous))
        };
        for Pages { whole, parts } in self.places.map(recorded, grows) {
            if !whole.is_empty() {
                kernel.mmap_fixed(id, whole.start, whole.end - whole.start, backing, rights);
            }
            add_rights(kernel, id, parts, rights);
        }
        unmapped
    }

    /// The page of `id` that a touch of a recorded page is of, if there is a mapping with that right.
    pub fn page_to_touch(
        &mut self,
        kernel: &mut Kernel,
        id: MmId,
        (recorded, write): (u64, bool),
    ) -> Option<Vpn> {
        let is_mapped = |&page: &Vpn| kernel.parts.address_spaces.mm(id).vmas.find(page).is_some();
        let mapped = self.places.page(recorded).filter(is_mapped);
        let page = match mapped {
            Some(page) => page,
            None if write => self.map_image(kernel, id, recorded)?,
            None => return None,
        };
        let vma = kernel.parts.address_spaces.mm(id).vmas.find(page)?;
        let right = if write { VmFlags::WRITE } else { VmFlags::READ };
        let is_modelled = vma.backing == Backing::Anonymous || write;
        (is_modelled && vma.flags.has(right)).then_some(page)
    }

    /// Maps what exec has mapped around a recorded page.
    fn map_image(&mut self, kernel: &mut Kernel, id: MmId, recorded: u64) -> Option<Vpn> {
        let image = self.next_file(kernel);
        let pages = match self.places.page(recorded) {
            Some(page) => page..page + 1,
            None => self.places.map_image(recorded),
        };
        kernel.mmap_fixed(id, pages.start, pages.end - pages.start, image, VmFlags::PRIVATE);
        self.places.page(recorded)
    }

    /// Notes a store to a recorded page.
    pub fn note_store(&mut self, recorded: u64) {
        self.places.note_store(recorded);
    }

    /// Parts stored to in pages larger than the recorded ones.
    pub fn stored_parts(&self) -> u64 {
        self.places.stored_parts()
    }
}

/// The access rights in a change.
fn rights(change: &Change) -> VmFlags {
    let named = [(1, VmFlags::READ), (2, VmFlags::WRITE), (4, VmFlags::EXEC)];
    let has = named.iter().filter(|(bit, _)| change.rights & bit != 0);
    has.fold(VmFlags::default(), |flags, (_, right)| flags.or(*right))
}

/// Discards the contents of these pages (`MADV_DONTNEED`) and adds what was present to `unmapped`.
fn discard_parts(kernel: &mut Kernel, id: MmId, pages: [Option<Vpn>; 2], unmapped: &mut Unmapped) {
    for page in pages.into_iter().flatten() {
        *unmapped += kernel.madvise_dontneed(id, page..page + 1);
    }
}

/// Adds rights to those that the pages already have.
fn add_rights(kernel: &mut Kernel, id: MmId, pages: [Option<Vpn>; 2], rights: VmFlags) {
    for page in pages.into_iter().flatten() {
        let Some(flags) = kernel.parts.address_spaces.mm(id).vmas.find(page).map(|vma| vma.flags) else {
            continue;
        };
        kernel.parts.mprotect(id, page..page + 1, flags.or(rights));
    }
}
