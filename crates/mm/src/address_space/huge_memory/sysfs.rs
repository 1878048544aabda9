//! The files of `/sys/kernel/mm/transparent_hugepage`, as programs read and write them.
//!
//! ```text
//!   transparent_hugepage/
//!     enabled  defrag  use_zero_page  shrink_underused  hpage_pmd_size
//!     hugepages-16kB/ ... hugepages-2048kB/      enabled  stats/anon_fault_alloc ...
//!     khugepaged/                                pages_to_scan ...  pages_collapsed  full_scans
//! ```
//!
//! Writable files are declared in [`crate::sysctl`], counters in [`super::stats`]. A kernel has the files
//! that were added up to its release; `shmem_enabled` is not modelled. v6 of the series has two files of bit
//! masks instead of directories; here it has directories, like the later versions. In the kernel:
//! `hugepage_attr`, `thpsize_create` in mm/huge_memory.c, `khugepaged_attr` in mm/khugepaged.c.

use super::features::ThpFiles;
use super::orders::Orders;
use super::policy::has_file;
use super::stats::MthpStat;
use crate::allocator::page::Geometry;
use crate::kernel::MemoryManager;
use crate::sysctl::{SETTINGS, Setting, SettingError};
use machine::PageSize;

const ROOT: &str = "transparent_hugepage/";

/// A file below `transparent_hugepage/`.
#[derive(Clone, Copy, Debug)]
enum File {
    Setting(&'static Setting),
    HpagePmdSize,
    Stat(u8, MthpStat),
    PagesCollapsed,
    FullScans,
}

impl File {
    /// The kernel that added the file. `anon_beside_full` is in no kernel, and shown in those with per-size
    /// directories.
    fn since(self) -> ThpFiles {
        match self {
            File::Stat(_, stat) => stat.since(),
            File::Setting(setting) if setting.is_of_size() => ThpFiles::Sizes,
            File::Setting(Setting { name: "transparent_hugepage/anon_beside_full", .. }) => ThpFiles::Sizes,
            File::Setting(Setting { name: "transparent_hugepage/shrink_underused", .. }) => ThpFiles::V6_12,
            File::Setting(_) | File::HpagePmdSize | File::PagesCollapsed | File::FullScans => ThpFiles::Huge,
        }
    }

    fn all(page_size: PageSize) -> impl Iterator<Item = (String, File)> {
        let is_there = move |setting: &&Setting| setting.name.starts_with(ROOT) && setting.exists(page_size);
        let settings = SETTINGS.iter().filter(is_there);
        let settings = settings.map(|setting| (setting.name.to_string(), File::Setting(setting)));
        let stats = Orders::all_anon(Geometry::of(page_size)).descending().flat_map(move |order| {
            let path = move |stat: MthpStat| ROOT.to_string() + &stat.file(page_size, order);
            MthpStat::ALL.iter().map(move |&stat| (path(stat), File::Stat(order, stat)))
        });
        let others = [
            ("hpage_pmd_size", File::HpagePmdSize),
            ("khugepaged/pages_collapsed", File::PagesCollapsed),
            ("khugepaged/full_scans", File::FullScans),
        ];
        settings.chain(stats).chain(others.map(|(path, file)| (format!("{ROOT}{path}"), file)))
    }
}

impl MemoryManager {
    /// The paths of all files that this kernel has.
    pub fn sysfs_files(&self) -> Vec<String> {
        let files = File::all(self.parts.allocator.page_size()).filter(|(_, file)| self.has_file(*file));
        files.map(|(path, _)| path).collect()
    }

    fn has_file(&self, file: File) -> bool {
        has_file(&self.features().folios, file.since())
    }

    fn find_file(&self, path: &str) -> Result<File, SettingError> {
        match File::all(self.parts.allocator.page_size()).find(|(other, _)| other == path) {
            Some((_, file)) if self.has_file(file) => Ok(file),
            Some((name, file)) => Err(SettingError::NoFile { name, since: file.since() }),
            None => Err(SettingError::Unknown { name: path.into() }),
        }
    }

    /// Reads a file. Fails if this kernel does not have it.
    pub fn read_sysfs(&self, path: &str) -> Result<String, SettingError> {
        let number = match self.find_file(path)? {
            File::Setting(setting) => {
                return Ok(setting.show(self.settings()).expect("a file of this tree can be read"));
            }
            File::HpagePmdSize => self.settings().transparent_hugepage.hpage_pmd_size() as i64,
            File::Stat(order, stat) => self.parts.address_spaces.mthp_stats.get(order, stat),
            File::PagesCollapsed => self.parts.address_spaces.khugepaged.pages_collapsed as i64,
            File::FullScans => self.parts.address_spaces.khugepaged.full_scans as i64,
        };
        Ok(format!("{number}\n"))
    }

    /// Writes to a file. After an error nothing has changed.
    pub fn write_sysfs(&mut self, path: &str, value: &str) -> Result<(), SettingError> {
        match self.find_file(path)? {
            File::Setting(setting) => self.set(setting.name, value),
            _ => Err(SettingError::ReadOnly { name: path.into() }),
        }
    }
}
