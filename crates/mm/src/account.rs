//! Categories of CPU time: what the memory manager and programs spend it on.

use machine::Category as _;

macro_rules! categories {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal),* $(,)?) => {
        /// A category of CPU time. Every picosecond of every CPU is in exactly one of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Category { $($(#[doc = $doc])+ $variant),* }

        impl Category {
            /// All categories, in the order of their indices.
            pub const ALL: &'static [Category] = &[$(Category::$variant),*];

            /// The name in tables and files.
            pub fn name(self) -> &'static str {
                match self { $(Category::$variant => $name),* }
            }

            /// What the category covers, in a line.
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
    /// Idle: nothing to run.
    Idle = "idle",
    /// The program's own work, and kernel work that the recording does not tell apart from it.
    Program = "program",
    /// System calls that are not modelled, where a workload gives their length: fork, exec, files.
    SystemCalls = "system_calls",
    /// Scheduler ticks, without the NUMA balancing in them.
    Tick = "tick",
    /// Page faults, without clearing and without locks.
    PageFault = "page_fault",
    /// Clearing pages.
    PageClear = "page_clear",
    /// Copying page tables for child processes at fork.
    PageTables = "page_tables",
    /// Unmapping and freeing, without locks.
    PageFree = "page_free",
    /// Copying data between user memory and pages.
    PageCopy = "page_copy",
    /// Waiting for data that no cache held: while copying, or when pages are used that were cleared together.
    CacheMiss = "cache_miss",
    /// Spinning for zone->lock, hand-overs included.
    ZoneLockWait = "zone_lock_wait",
    /// Working under zone->lock.
    ZoneLockHold = "zone_lock_hold",
    /// Spinning for an lruvec's lru_lock, hand-overs included.
    LruLockWait = "lru_lock_wait",
    /// Working under an lruvec's lru_lock.
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
    /// TLB shootdowns: sending them, flushing the own TLB, waiting for the last CPU.
    TlbShootdown = "tlb_shootdown",
    /// Synchronising all CPUs because kernel code is patched.
    CodePatch = "code_patch",
    /// Reading from files through the page cache, without locks and without devices.
    FileRead = "file_read",
    /// Writing to files through the page cache, without locks and without devices.
    FileWrite = "file_write",
    /// Submitting requests to block devices, completing them, and work that the device leaves to the CPU.
    BlockLayer = "block_layer",
    /// Scanning folios for reclaim and evicting them, without locks.
    Reclaim = "reclaim",
    /// Compressing pages for zswap, and decompressing them.
    Zswap = "zswap",
    /// DAMON: looking which pages have been accessed.
    Damon = "damon",
    /// NUMA scanning: making pages PROT_NONE to see who touches them, without TLB flushes.
    NumaScan = "numa_scan",
    /// NUMA hint faults, without migration.
    NumaHintFault = "numa_hint_fault",
    /// Migrating pages between nodes, without locks.
    PageMigration = "page_migration",
    /// The extra time that programs wait for memory because it is on another node.
    RemoteMemory = "remote_memory",
    /// Compaction: scanning for pages and for free blocks, and migrating, without locks.
    Compaction = "compaction",
    /// khugepaged: scanning page tables and copying pages into huge ones, without locks.
    Khugepaged = "khugepaged",
    /// Handling another CPU's interrupt, and TLB misses afterwards.
    IpiHandler = "ipi_handler",
}

impl Category {
    /// Spinning for zone->lock, and working under it.
    pub const ZONE_LOCK: [Category; 2] = [Category::ZoneLockWait, Category::ZoneLockHold];
    /// Spinning for an lruvec's lru_lock, and working under it.
    pub const LRU_LOCK: [Category; 2] = [Category::LruLockWait, Category::LruLockHold];
    /// Spinning for hugetlb_lock, and working under it.
    pub const HUGETLB_LOCK: [Category; 2] = [Category::HugetlbLockWait, Category::HugetlbLockHold];

    pub fn find(name: &str) -> Option<Category> {
        Category::ALL.iter().copied().find(|category| category.name() == name)
    }

    /// Whether this is the program's own time; the rest is the kernel's, or idle.
    pub fn is_user(self) -> bool {
        matches!(self, Category::Program | Category::RemoteMemory)
    }

    /// Whether this is time spent spinning for a lock.
    pub fn is_lock_wait(self) -> bool {
        matches!(self, Category::ZoneLockWait | Category::LruLockWait | Category::HugetlbLockWait)
    }
}

const _: () = assert!(Category::COUNT == Category::ALL.len());
