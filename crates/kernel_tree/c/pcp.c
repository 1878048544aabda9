/* Decisions about per-CPU pagesets, between mmtwin's records and the kernel's structures. */

static inline void mmtwin_enter_pcp(const struct mmtwin_pcp *state, struct per_cpu_pages *pcp, struct zone *zone)
{
	*pcp = (struct per_cpu_pages){
		.count = state->count,
		.high = state->high,
		.high_min = state->high_min,
		.high_max = state->high_max,
		.batch = state->batch,
		.flags = (state->prev_free_high_order ? PCPF_PREV_FREE_HIGH_ORDER : 0) |
			 (state->free_high_batch ? PCPF_FREE_HIGH_BATCH : 0),
		.alloc_factor = state->alloc_factor,
		.free_factor = state->free_factor,
		.free_count = state->free_count,
	};
	*zone = (struct zone){
		.flags = (state->reclaim_active ? BIT(ZONE_RECLAIM_ACTIVE) : 0) |
			 (state->below_high ? BIT(ZONE_BELOW_HIGH) : 0),
	};
}

static inline void mmtwin_leave_pcp(struct mmtwin_pcp *state, const struct per_cpu_pages *pcp)
{
	state->count = pcp->count;
	state->high = pcp->high;
	state->free_factor = pcp->free_factor;
	state->alloc_factor = pcp->alloc_factor;
	state->free_count = pcp->free_count;
	state->prev_free_high_order = !!(pcp->flags & PCPF_PREV_FREE_HIGH_ORDER);
	state->drains = pcp->mmtwin_drains;
	state->drained = pcp->mmtwin_drained;
	state->first_drain = pcp->mmtwin_first_drain;
}

/* pcp, zone, batch, high, free_high, order, page and migratetype are what the tree's functions may ask for. */
#define MMTWIN_PCP_DECISION(name, calls) \
	MMTWIN_DECISION(name, mmtwin_pcp) \
	{ \
		struct per_cpu_pages mmtwin_pages, *pcp = &mmtwin_pages; \
		struct zone mmtwin_zone, *zone = &mmtwin_zone; \
		struct page mmtwin_page = { { 0 } }, *page = &mmtwin_page; \
		int batch = state->batch, high = state->asked_high, order = state->order, migratetype = 0; \
		bool free_high = state->free_high; \
		(void)page, (void)batch, (void)high, (void)order, (void)migratetype, (void)free_high; \
		mmtwin_enter_pcp(state, pcp, zone); \
		calls; \
		mmtwin_leave_pcp(state, pcp); \
	}

#ifdef MMTWIN_CALL_nr_pcp_alloc
MMTWIN_PCP_DECISION(nr_pcp_alloc, state->answer = MMTWIN_CALL_nr_pcp_alloc)
#endif
#ifdef MMTWIN_CALL_nr_pcp_high
MMTWIN_PCP_DECISION(nr_pcp_high, state->answer = MMTWIN_CALL_nr_pcp_high)
#endif
#ifdef MMTWIN_CALL_nr_pcp_free
MMTWIN_PCP_DECISION(nr_pcp_free, state->answer = MMTWIN_CALL_nr_pcp_free)
#endif
#ifdef MMTWIN_CALL_decay_pcp_high
MMTWIN_PCP_DECISION(decay_pcp_high, state->answer = MMTWIN_CALL_decay_pcp_high)
#endif
#ifdef MMTWIN_CALL_free_unref_page_commit
/* Frees one block, or several until one of them gives pages back: that one is taken back, for the twin to free it by itself. */
#define MMTWIN_FREES \
	if (!state->frees) { \
		MMTWIN_CALL_free_unref_page_commit; \
	} else { \
		for (state->entered = 0; state->entered < state->frees; state->entered++) { \
			struct per_cpu_pages before = *pcp; \
			MMTWIN_CALL_free_unref_page_commit; \
			if (pcp->mmtwin_drains) { \
				*pcp = before; \
				break; \
			} \
		} \
	}
MMTWIN_PCP_DECISION(free_unref_page_commit, MMTWIN_FREES)
#endif

/* zone, batch, cpu_online and high_fraction are what the tree's functions may ask for; before 6.7 the last is a variable. */
#define MMTWIN_PCP_ZONE_DECISION(name) \
	MMTWIN_DECISION(name, mmtwin_pcp_zone) \
	{ \
		struct zone mmtwin_zone = { .mmtwin_managed = state->managed }, *zone = &mmtwin_zone; \
		int batch = state->batch, cpu_online = state->cpu_online, high_fraction = state->high_fraction; \
		(void)batch, (void)cpu_online, (void)high_fraction; \
		zone->_watermark[WMARK_LOW] = state->low; \
		mmtwin_page_shift = state->page_shift; \
		mmtwin_local_cpus.mmtwin_weight = state->local_cpus; \
		mmtwin_online_cpus = state->online_cpus; \
		percpu_pagelist_high_fraction = state->high_fraction; \
		state->answer = MMTWIN_CALL_##name; \
	}

#ifdef MMTWIN_CALL_zone_batchsize
MMTWIN_PCP_ZONE_DECISION(zone_batchsize)
#endif
#ifdef MMTWIN_CALL_zone_highsize
MMTWIN_PCP_ZONE_DECISION(zone_highsize)
#endif
#ifdef MMTWIN_CALL_calculate_normal_threshold
MMTWIN_PCP_ZONE_DECISION(calculate_normal_threshold)
#endif
