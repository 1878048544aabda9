/* Sizes of readahead windows, between mmtwin's records and the kernel's structures. */

#define MMTWIN_READAHEAD_DECISION(name) \
	MMTWIN_DECISION(name, mmtwin_readahead) \
	{ \
		struct file_ra_state mmtwin_ra = { .size = state->size }, *ra = &mmtwin_ra; \
		unsigned long size = state->size, max = state->max; \
		(void)ra, (void)size; \
		state->answer = MMTWIN_CALL_##name; \
	}

#ifdef MMTWIN_CALL_get_init_ra_size
MMTWIN_READAHEAD_DECISION(get_init_ra_size)
#endif
#ifdef MMTWIN_CALL_get_next_ra_size
MMTWIN_READAHEAD_DECISION(get_next_ra_size)
#endif

#ifdef MMTWIN_CALL___swapin_nr_pages
MMTWIN_DECISION(__swapin_nr_pages, mmtwin_swap_readahead)
{
	unsigned long prev_offset = state->prev_offset, offset = state->offset;
	int hits = state->hits, max_pages = state->max_pages, prev_win = state->prev_win;

	state->answer = MMTWIN_CALL___swapin_nr_pages;
}
#endif
