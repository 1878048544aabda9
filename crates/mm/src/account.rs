//! What a CPU's time is spent on in this memory manager.

use machine::Category as _;

macro_rules! categories {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal),* $(,)?) => {
        /// A kind of time. Every picosecond of every CPU is in exactly one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Category { $($(#[doc = $doc])+ $variant),* }

        impl Category {
            /// All categories, in the order of their indices.
            pub const ALL: &'static [Category] = &[$(Category::$variant),*];

            /// The name used in tables and files.
            pub fn name(self) -> &'static str {
                match self { $(Category::$variant => $name),* }
            }

            /// What it means, in a line.
            pub fn description(self) -> &'static str {
                match self { $(Category::$variant => concat!($($doc),+).trim_ascii()),* }
            }
        }

        impl machine::Category for Category {
            const COUNT: usize = [$($name),*].len();
            const IDLE: Category = Category::Idle;
            #[inline]
            fn index(self) -> usize { self as usize }
        }
    };
}

categories! {
    /// Nothing to run.
    Idle = "idle",
    /// The program's own work, and kernel work that the recording does not tell apart from it.
    Program = "program",
    /// System calls that are not modelled, where a workload says how long they take: fork, exec, files.
    SystemCalls = "system_calls",
    /// Ticks of the scheduler, without what NUMA balancing does in them.
    Tick = "tick",
    /// Page faults, without clearing and without locks.
    PageFault = "page_fault",
    /// Clearing pages.
    PageClear = "page_clear",
    /// Copying page tables for child processes.
    PageTables = "page_tables",
    /// Unmapping and freeing, without locks.
    PageFree = "page_free",
    /// Copying data between user memory and pages.
    PageCopy = "page_copy",
    /// Waiting for data that no cache held: while copying, or when pages are used that were cleared with others.
    CacheMiss = "cache_miss",
    /// Spinning for a zone's lock, hand-overs included.
    ZoneLockWait = "zone_lock_wait",
    /// Working under a zone's lock.
    ZoneLockHold = "zone_lock_hold",
    /// Spinning for the lock of an LRU list vector, hand-overs included.
    LruLockWait = "lru_lock_wait",
    /// Working under the lock of an LRU list vector.
    LruLockHold = "lru_lock_hold",
    /// Spinning for hugetlb_lock, hand-overs included.
    HugetlbLockWait = "hugetlb_lock_wait",
    /// Working under hugetlb_lock.
    HugetlbLockHold = "hugetlb_lock_hold",
    /// Allocating huge pages and preparing their struct pages, without locks.
    HugePagePrep = "huge_page_prep",
    /// Checking the struct pages of huge pages and freeing them, without locks.
    HugePageFree = "huge_page_free",
    /// Allocating and freeing pages for struct pages and kernel page tables, without locks.
    VmemmapAlloc = "vmemmap_alloc",
    /// Copying struct pages into other pages.
    VmemmapCopy = "vmemmap_copy",
    /// Rewriting kernel page-table entries.
    VmemmapRemap = "vmemmap_remap",
    /// Having translation caches of all CPUs flushed: sending, flushing its own, waiting for the last.
    TlbShootdown = "tlb_shootdown",
    /// Having all CPUs synchronised because kernel code is patched.
    CodePatch = "code_patch",
    /// Reading from files through the page cache, without locks and without devices.
    FileRead = "file_read",
    /// Writing to files through the page cache, without locks and without devices.
    FileWrite = "file_write",
    /// Submitting requests to block devices, work that devices leave to the CPU, and completions.
    BlockLayer = "block_layer",
    /// Looking for pages to evict, and evicting them, without locks.
    Reclaim = "reclaim",
    /// Making pages inaccessible to see who touches them, without flushing translations.
    NumaScan = "numa_scan",
    /// NUMA hint faults, without moving pages.
    NumaHintFault = "numa_hint_fault",
    /// Moving pages between nodes, without locks.
    PageMigration = "page_migration",
    /// What programs wait longer for memory because it is on another node.
    RemoteMemory = "remote_memory",
    /// Looking for pages to move and for room, and moving them, without locks.
    Compaction = "compaction",
    /// Looking for small pages to make huge ones of, and copying them, without locks (khugepaged).
    Khugepaged = "khugepaged",
    /// Interrupted by another CPU, and lost translations afterwards.
    IpiHandler = "ipi_handler",
}

impl Category {
    /// Where spinning for a zone's lock and working under it go.
    pub const ZONE_LOCK: [Category; 2] = [Category::ZoneLockWait, Category::ZoneLockHold];
    /// The same of the lock of an LRU list vector.
    pub const LRU_LOCK: [Category; 2] = [Category::LruLockWait, Category::LruLockHold];
    /// The same of hugetlb_lock.
    pub const HUGETLB_LOCK: [Category; 2] = [Category::HugetlbLockWait, Category::HugetlbLockHold];

    /// Looks a category up by its name.
    pub fn find(name: &str) -> Option<Category> {
        Category::ALL.iter().copied().find(|category| category.name() == name)
    }

    /// Whether it is time spent spinning for a lock.
    pub fn is_lock_wait(self) -> bool {
        matches!(self, Category::ZoneLockWait | Category::LruLockWait | Category::HugetlbLockWait)
    }
}

const _: () = assert!(Category::COUNT == Category::ALL.len());
