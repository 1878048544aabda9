/* Sizes of readahead windows, between mmtwin's record and the kernel's structure. */

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
