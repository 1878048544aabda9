/* Fragmentation, between mmtwin's record and the kernel's zone. */

#define MMTWIN_FRAGMENTATION_DECISION(name) \
	MMTWIN_DECISION(name, mmtwin_fragmentation) \
	{ \
		struct zone mmtwin_zone = { .flags = 0 }, *zone = &mmtwin_zone; \
		pg_data_t mmtwin_node = { .node_id = 0 }, *pgdat = &mmtwin_node; \
		unsigned int order = state->order; \
		bool low = state->low; \
		int at; \
		(void)pgdat, (void)order, (void)low; \
		for (at = 0; at < NR_PAGE_ORDERS; at++) \
			zone->free_area[at].nr_free = state->free_blocks[at]; \
		sysctl_compaction_proactiveness = state->proactiveness; \
		state->answer = MMTWIN_CALL_##name; \
	}

#ifdef MMTWIN_CALL_fragmentation_score_wmark
MMTWIN_FRAGMENTATION_DECISION(fragmentation_score_wmark)
#endif
#ifdef MMTWIN_CALL_fragmentation_index
MMTWIN_FRAGMENTATION_DECISION(fragmentation_index)
#endif
#ifdef MMTWIN_CALL_extfrag_for_order
MMTWIN_FRAGMENTATION_DECISION(extfrag_for_order)
#endif
#ifdef MMTWIN_CALL_fragmentation_score_zone
MMTWIN_FRAGMENTATION_DECISION(fragmentation_score_zone)
#endif

#define MMTWIN_DEFERRAL_DECISION(name, answer_or_nothing) \
	MMTWIN_DECISION(name, mmtwin_deferral) \
	{ \
		struct zone mmtwin_zone = { \
			.compact_considered = state->considered, \
			.compact_defer_shift = state->shift, \
			.compact_order_failed = state->order_failed, \
		}, *zone = &mmtwin_zone; \
		int order = state->order; \
		bool alloc_success = state->alloc_success; \
		(void)alloc_success; \
		answer_or_nothing MMTWIN_CALL_##name; \
		state->considered = zone->compact_considered; \
		state->shift = zone->compact_defer_shift; \
		state->order_failed = zone->compact_order_failed; \
	}

#ifdef MMTWIN_CALL_defer_compaction
MMTWIN_DEFERRAL_DECISION(defer_compaction, )
#endif
#ifdef MMTWIN_CALL_compaction_deferred
MMTWIN_DEFERRAL_DECISION(compaction_deferred, state->answer =)
#endif
#ifdef MMTWIN_CALL_compaction_defer_reset
MMTWIN_DEFERRAL_DECISION(compaction_defer_reset, )
#endif
