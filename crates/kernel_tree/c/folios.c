/* Which orders of folios are inside of a VMA, between mmtwin's record and the kernel's structure. */

#ifdef MMTWIN_CALL_thp_vma_suitable_orders
MMTWIN_DECISION(thp_vma_suitable_orders, mmtwin_thp_window)
{
	struct vm_area_struct mmtwin_vma = { .vm_start = state->vm_start, .vm_end = state->vm_end }, *vma = &mmtwin_vma;
	unsigned long addr = state->addr, orders = state->orders;

	mmtwin_page_shift = 12;
	state->answer = MMTWIN_CALL_thp_vma_suitable_orders;
}
#endif
