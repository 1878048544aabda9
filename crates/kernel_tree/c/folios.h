/* Large folios of anonymous memory: the VMA that they have to be inside of, its page table, and what a fault or khugepaged asks. */
#ifndef MMTWIN_FOLIOS_H
#define MMTWIN_FOLIOS_H

#define vma_is_anonymous(vma) ((void)(vma), true)
#define IS_ALIGNED(number, to) (((number) & ((to) - 1)) == 0)

struct vma_numab_state;
struct mm_struct;
struct file;

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_pgoff;
	unsigned long vm_flags;
	struct mm_struct *vm_mm;
	struct file *vm_file;
	void *anon_vma;
	struct vma_numab_state *numab_state;
	/* A scan: whether pages may move, where entries end that it can change, and what it did. */
	bool mmtwin_migratable;
	bool mmtwin_migrates_on_fault;
	unsigned long mmtwin_populated_to;
	unsigned int mmtwin_skipped;
	unsigned int mmtwin_ranges;
	unsigned long mmtwin_scanned;
};

/* Settings, as the record has them. */
static __thread unsigned long transparent_hugepage_flags;
static __thread unsigned long huge_anon_orders_always;
static __thread unsigned long huge_anon_orders_madvise;
static __thread unsigned long huge_anon_orders_inherit;
static __thread unsigned int khugepaged_max_ptes_none;
static __thread unsigned int khugepaged_max_ptes_swap;
static __thread unsigned int khugepaged_max_ptes_shared;

#define PMD_ORDER 9
#define PUD_ORDER 18
#define MAX_PAGECACHE_ORDER PMD_ORDER
#define HPAGE_PMD_ORDER PMD_ORDER
#define HPAGE_PMD_NR 512
#define PMD_MASK (~((PAGE_SIZE << PMD_ORDER) - 1))
#define HPAGE_PMD_MASK PMD_MASK

#define VM_UFFD_WP 0x1000
#define VM_HUGEPAGE 0x20000000
#define VM_NOHUGEPAGE 0x40000000
#define VM_NO_KHUGEPAGED 0
#define MMF_DISABLE_THP 24
#define userfaultfd_armed(vma) (((vma)->vm_flags & VM_UFFD_WP) != 0)
/* A stack that grows down, with the marks of both ways of readahead: exec moves it. */
#define vma_is_temporary_stack(vma) (((vma)->vm_flags & 0x18100) == 0x18100)
/* No memory of files. */
#define vma_is_special_huge(vma) ((void)(vma), false)
#define vma_is_dax(vma) ((void)(vma), false)
#define shmem_file(file) ((void)(file), false)
#define shmem_allowable_huge_orders(inode, vma, index, write_end, force) 0UL
#define vma_can_map_huge_file(vma, vm_flags, tva_flags) false

/* How hard an allocation tries is all of its flags that is read. */
#define __GFP_DIRECT_RECLAIM 0x400U
#define __GFP_KSWAPD_RECLAIM 0x800U
#define __GFP_NORETRY 0x10000U
#define GFP_TRANSHUGE_LIGHT 0U
#define GFP_TRANSHUGE (GFP_TRANSHUGE_LIGHT | __GFP_DIRECT_RECLAIM)
#define GFP_HIGHUSER_MOVABLE (__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)

#define EAGAIN 11
#define ENOMEM 12
#define ERR_PTR(error) ((void *)(long)(error))

/* An entry of a page table is what the record says about it, and its address only a place in the table. */
typedef unsigned int pte_t;
typedef int pmd_t;

struct vm_fault {
	struct vm_area_struct *vma;
	unsigned long address;
	pmd_t *pmd;
};

static __thread pte_t *mmtwin_table;
static __thread const unsigned long long *mmtwin_populated;

#define pte_index(address) ((address) >> PAGE_SHIFT & 511)
#define pte_offset_map(pmd, address) ((void)(pmd), mmtwin_table)
#define pte_offset_map_lock(mm, pmd, address, lock) ((void)(pmd), mmtwin_table)
#define pte_unmap(pte) ((void)(pte))
#define pte_unmap_unlock(pte, lock) ((void)(pte))
#define ptep_get(pte) (*(pte))

static inline pte_t ptep_get_lockless(pte_t *pte)
{
	long at = pte - mmtwin_table;

	return mmtwin_populated[at / 64] >> (at % 64) & 1;
}

/* What a fault asks the allocator and the memory cgroup for, and what was counted. */
struct mmtwin_allocations {
	struct folio folio;
	int order;
	unsigned int gfp;
	unsigned long no_block;
	unsigned long no_room;
	unsigned long tried;
	unsigned long fallbacks;
	unsigned long charge_fallbacks;
};

static __thread struct mmtwin_allocations *mmtwin_allocations;

static inline struct folio *mmtwin_alloc_folio(gfp_t gfp, int order)
{
	struct mmtwin_allocations *of = mmtwin_allocations;

	of->order = order;
	of->tried |= BIT(order);
	if (order)
		of->gfp = gfp;
	return of->no_block & BIT(order) ? NULL : &of->folio;
}

#define vma_alloc_folio(gfp, order, ...) mmtwin_alloc_folio(gfp, order)
#define vma_alloc_zeroed_movable_folio(vma, address) mmtwin_alloc_folio(GFP_HIGHUSER_MOVABLE, 0)
#define mem_cgroup_charge(folio, mm, gfp) \
	((void)(folio), mmtwin_allocations->no_room & BIT(mmtwin_allocations->order) ? -ENOMEM : 0)
#define folio_throttle_swaprate(folio, gfp) ((void)(folio))
#define folio_zero_user(folio, address) ((void)(folio))
#define count_mthp_stat(order, item) \
	((void)(*((item) == MTHP_STAT_ANON_FAULT_FALLBACK_CHARGE ? &mmtwin_allocations->charge_fallbacks : \
		&mmtwin_allocations->fallbacks) |= BIT(order)))

/* In the order of the kernel's, where results of later releases are at the end. */
enum scan_result {
	SCAN_FAIL,
	SCAN_SUCCEED,
	SCAN_PMD_NULL,
	SCAN_PMD_NONE,
	SCAN_PMD_MAPPED,
	SCAN_EXCEED_NONE_PTE,
	SCAN_EXCEED_SWAP_PTE,
	SCAN_EXCEED_SHARED_PTE,
	SCAN_PTE_NON_PRESENT,
	SCAN_PTE_UFFD_WP,
	SCAN_PTE_MAPPED_HUGEPAGE,
	SCAN_PAGE_RO,
	SCAN_LACK_REFERENCED_PAGE,
	SCAN_PAGE_NULL,
	SCAN_SCAN_ABORT,
	SCAN_PAGE_COUNT,
	SCAN_PAGE_LRU,
	SCAN_PAGE_LOCK,
	SCAN_PAGE_ANON,
	SCAN_PAGE_COMPOUND,
};

/* What an entry says of itself and of the page that it maps. */
enum mmtwin_entry {
	MMTWIN_PRESENT = 1,
	MMTWIN_SWAP = 2,
	MMTWIN_ZERO = 4,
	MMTWIN_WRITE = 8,
	MMTWIN_YOUNG = 0x10,
	MMTWIN_ANON = 0x20,
	MMTWIN_LRU = 0x40,
	MMTWIN_LOCKED = 0x80,
	MMTWIN_SHARED = 0x100,
	MMTWIN_HELD = 0x200,
	MMTWIN_REFERENCED = 0x400,
	MMTWIN_FOLIO_YOUNG = 0x800,
	MMTWIN_SWAPCACHE = 0x1000,
};

#define pte_none(pte) ((pte) == 0)
#define pte_present(pte) (((pte) & MMTWIN_PRESENT) != 0)
#define is_swap_pte(pte) (((pte) & MMTWIN_SWAP) != 0)
#define pte_write(pte) (((pte) & MMTWIN_WRITE) != 0)
#define pte_young(pte) (((pte) & MMTWIN_YOUNG) != 0)
#define pte_pfn(pte) ((unsigned long)(pte))
#define is_zero_pfn(pfn) (((pfn) & MMTWIN_ZERO) != 0)
/* None is write-protected by a userfaultfd. */
#define pte_uffd_wp(pte) ((void)(pte), false)
#define pte_swp_uffd_wp(pte) ((void)(pte), false)
#define pte_swp_uffd_wp_any(pte) ((void)(pte), false)

/* The directory's entry, and the page that is looked at. */
static __thread pmd_t mmtwin_pmd;
static __thread struct folio *mmtwin_mapped;

#define mm_find_pmd(mm, address) ((void)(mm), mmtwin_pmd == 1 ? NULL : &mmtwin_pmd)
#define pmdp_get_lockless(pmd) (*(pmd))
#define pmd_read_atomic(pmd) (*(pmd))
#define pmd_none(pmd) ((void)(pmd), false)
#define pmd_present(pmd) ((void)(pmd), true)
#define pmd_trans_huge(pmd) ((pmd) == 2)
#define pmd_devmap(pmd) ((void)(pmd), false)
#define pmd_bad(pmd) ((void)(pmd), false)

static inline struct page *vm_normal_page(struct vm_area_struct *vma, unsigned long address, pte_t pte)
{
	(void)vma, (void)address;
	mmtwin_mapped->flags = (pte & MMTWIN_ANON ? BIT(PG_swapbacked) : 0) | (pte & MMTWIN_LRU ? BIT(PG_lru) : 0) |
		(pte & MMTWIN_LOCKED ? BIT(PG_locked) : 0) | (pte & MMTWIN_REFERENCED ? BIT(PG_referenced) : 0) |
		(pte & MMTWIN_SWAPCACHE ? BIT(PG_swapcache) : 0);
	mmtwin_mapped->mmtwin_young = (pte & MMTWIN_FOLIO_YOUNG) != 0;
	mmtwin_mapped->mmtwin_pages = 1;
	mmtwin_mapped->mmtwin_mapcount = pte & MMTWIN_SHARED ? 2 : 1;
	mmtwin_mapped->mmtwin_refs =
		mmtwin_mapped->mmtwin_mapcount + (pte & MMTWIN_SWAPCACHE ? 1 : 0) + (pte & MMTWIN_HELD ? 1 : 0);
	return &mmtwin_mapped->page;
}

#define page_folio(from) container_of(from, struct folio, page)
#define is_zone_device_page(page) ((void)(page), false)
#define folio_nid(folio) ((void)(folio), 0)
#define folio_test_lru(folio) ((folio)->flags >> PG_lru & 1)
#define folio_test_young(folio) ((folio)->mmtwin_young)
#define folio_test_private(folio) ((void)(folio), false)
#define folio_mapcount(folio) ((folio)->mmtwin_mapcount)
#define folio_ref_count(folio) ((folio)->mmtwin_refs)
#define folio_likely_mapped_shared(folio) (folio_mapcount(folio) > 1)
#define page_mapcount(page) folio_mapcount(page_folio(page))
#define total_mapcount(page) folio_mapcount(page_folio(page))
#define page_count(page) folio_ref_count(page_folio(page))
#define compound_nr(page) folio_nr_pages(page_folio(page))
#define PageSwapCache(page) folio_test_swapcache(page_folio(page))
#define mmu_notifier_test_young(mm, address) ((void)(mm), false)
/* Pages of any node do (vm.zone_reclaim_mode is 0). */
#define node_reclaim_enabled() false
#define node_reclaim_distance 30
#define count_vm_event(event) ((void)0)
#define trace_mm_khugepaged_scan_pmd(...) ((void)0)

/* A collapse, noted instead of made. */
static __thread int mmtwin_collapse_referenced;
static __thread int mmtwin_collapse_unmapped;
#define collapse_huge_page(mm, address, referenced, unmapped, cc) \
	((void)(mm), (void)(cc), mmtwin_collapse_referenced = (referenced), mmtwin_collapse_unmapped = (unmapped), SCAN_SUCCEED)

#endif
