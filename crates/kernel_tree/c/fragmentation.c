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

#ifdef MMTWIN_CALL_compaction_suitable
MMTWIN_DECISION(compaction_suitable, mmtwin_suitable)
{
	struct zone mmtwin_zone = {
		.mmtwin_free_pages = state->free_pages,
		.watermark_boost = state->boost,
		.lowmem_reserve = { state->lowmem_reserve },
		.nr_reserved_highatomic = state->free_highatomic,
		.nr_free_highatomic = state->free_highatomic,
	}, *zone = &mmtwin_zone;
	int order = state->order, highest_zoneidx = 0, at;
	unsigned int alloc_flags = 0;

	(void)alloc_flags;
	for (at = 0; at < NR_PAGE_ORDERS; at++)
		zone->free_area[at].nr_free = state->free_blocks[at];
	zone->_watermark[WMARK_MIN] = state->min;
	zone->_watermark[WMARK_LOW] = state->low;
	sysctl_extfrag_threshold = state->extfrag_threshold;
	/* Before 6.5 it answers how compaction would end. */
	state->answer = __builtin_types_compatible_p(__typeof__(MMTWIN_CALL_compaction_suitable), bool)
		? MMTWIN_CALL_compaction_suitable : MMTWIN_CALL_compaction_suitable == COMPACT_CONTINUE;
}
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
