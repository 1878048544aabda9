/* Decisions about large folios, between mmtwin's records and the kernel's structures. */

#ifdef MMTWIN_CALL_thp_vma_suitable_orders
MMTWIN_DECISION(thp_vma_suitable_orders, mmtwin_thp_window)
{
	struct vm_area_struct mmtwin_vma = { .vm_start = state->vm_start, .vm_end = state->vm_end }, *vma = &mmtwin_vma;
	unsigned long addr = state->addr, orders = state->orders;

	mmtwin_page_shift = 12;
	state->answer = MMTWIN_CALL_thp_vma_suitable_orders;
}
#endif

#if defined(MMTWIN_CALL_alloc_anon_folio) || defined(MMTWIN_CALL_vma_thp_gfp_mask)
static inline void mmtwin_enter_anon_folio(const struct mmtwin_anon_folio *state, struct vm_area_struct *vma)
{
	static const unsigned char defrag_flags[] = {
		TRANSPARENT_HUGEPAGE_DEFRAG_DIRECT_FLAG,
		TRANSPARENT_HUGEPAGE_DEFRAG_KSWAPD_FLAG,
		TRANSPARENT_HUGEPAGE_DEFRAG_KSWAPD_OR_MADV_FLAG,
		TRANSPARENT_HUGEPAGE_DEFRAG_REQ_MADV_FLAG,
	};
	static const unsigned char enabled_flags[] = { TRANSPARENT_HUGEPAGE_FLAG, TRANSPARENT_HUGEPAGE_REQ_MADV_FLAG };

	vma->vm_start = state->vm_start;
	vma->vm_end = state->vm_end;
	vma->vm_flags = state->vm_flags;
	vma->vm_mm->flags = state->thp_disabled ? BIT(MMF_DISABLE_THP) : 0;
	transparent_hugepage_flags = (state->defrag < (int)ARRAY_SIZE(defrag_flags) ? BIT(defrag_flags[state->defrag]) : 0) |
		(state->enabled < (int)ARRAY_SIZE(enabled_flags) ? BIT(enabled_flags[state->enabled]) : 0);
	huge_anon_orders_always = state->orders_always;
	huge_anon_orders_madvise = state->orders_madvise;
	huge_anon_orders_inherit = state->orders_inherit;
	mmtwin_page_shift = 12;
}
#endif

#ifdef MMTWIN_CALL_vma_thp_gfp_mask
MMTWIN_DECISION(vma_thp_gfp_mask, mmtwin_anon_folio)
{
	struct mm_struct mm = { 0 };
	struct vm_area_struct mmtwin_vma = { .vm_mm = &mm }, *vma = &mmtwin_vma;

	mmtwin_enter_anon_folio(state, vma);
	state->gfp = MMTWIN_CALL_vma_thp_gfp_mask;
}
#endif

#ifdef MMTWIN_CALL_alloc_anon_folio
MMTWIN_DECISION(alloc_anon_folio, mmtwin_anon_folio)
{
	struct mm_struct mm = { 0 };
	struct vm_area_struct vma = { .vm_mm = &mm };
	struct mmtwin_allocations allocations = { .no_block = state->no_block, .no_room = state->no_room };
	pmd_t pmd = 0;
	struct vm_fault mmtwin_fault = { &vma, state->addr, &pmd }, *vmf = &mmtwin_fault;
	const struct folio *folio;

	mmtwin_enter_anon_folio(state, &vma);
	mmtwin_populated = state->populated;
	mmtwin_table = (pte_t *)state->populated;
	mmtwin_allocations = &allocations;
	folio = MMTWIN_CALL_alloc_anon_folio;
	state->answer = folio == &allocations.folio ? allocations.order : -1;
	state->gfp = allocations.gfp;
	state->tried = allocations.tried;
	state->fallbacks = allocations.fallbacks;
	state->charge_fallbacks = allocations.charge_fallbacks;
}
#endif

#ifdef MMTWIN_CALL_hpage_collapse_scan_pmd
MMTWIN_DECISION(hpage_collapse_scan_pmd, mmtwin_scan_pmd)
{
	struct mm_struct mmtwin_mm = { 0 }, *mm = &mmtwin_mm;
	struct vm_area_struct mmtwin_vma = { .vm_mm = mm, .vm_flags = state->userfault ? VM_UFFD_WP : 0 }, *vma = &mmtwin_vma;
	struct collapse_control mmtwin_control = { .is_khugepaged = true }, *cc = &mmtwin_control;
	struct folio folio = { { { 0 } } };
	unsigned long address = 0;
	bool mmtwin_locked = true, *mmap_locked = &mmtwin_locked;

	mmtwin_page_shift = 12;
	mmtwin_pmd = state->pmd;
	mmtwin_mapped = &folio;
	mmtwin_table = state->entries;
	khugepaged_max_ptes_none = state->max_ptes_none;
	khugepaged_max_ptes_swap = state->max_ptes_swap;
	khugepaged_max_ptes_shared = state->max_ptes_shared;
	mmtwin_collapse_referenced = 0;
	mmtwin_collapse_unmapped = 0;
	state->answer = MMTWIN_CALL_hpage_collapse_scan_pmd;
	state->referenced = mmtwin_collapse_referenced;
	state->unmapped = mmtwin_collapse_unmapped;
}
#endif
