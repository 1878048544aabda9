/* Watermarks and fallbacks, between mmtwin's records and the kernel's zones. */

#ifdef MMTWIN_CALL___setup_per_zone_wmarks
MMTWIN_DECISION(__setup_per_zone_wmarks, mmtwin_watermarks)
{
	struct zone zones[ARRAY_SIZE(state->kind)];
	int zone;

	mmtwin_zones = zones;
	mmtwin_nr_zones = state->nr_zones;
	mmtwin_page_shift = state->page_shift;
	min_free_kbytes = state->min_free_kbytes;
	watermark_scale_factor = state->watermark_scale_factor;
	for (zone = 0; zone < state->nr_zones; zone++)
		zones[zone] = (struct zone){ .mmtwin_managed = state->managed[zone], .mmtwin_type = state->kind[zone] };
	MMTWIN_CALL___setup_per_zone_wmarks;
	for (zone = 0; zone < state->nr_zones; zone++) {
		state->min[zone] = zones[zone]._watermark[WMARK_MIN];
		state->low[zone] = zones[zone]._watermark[WMARK_LOW];
		state->high[zone] = zones[zone]._watermark[WMARK_HIGH];
		state->promo[zone] = zones[zone]._watermark[WMARK_PROMO];
	}
}
#endif

/* Of a release's flags those that it has; macros of mm/internal.h. */
static inline unsigned int mmtwin_alloc_flags(const struct mmtwin_zone_mark *state)
{
	unsigned int flags = 0;

	(void)state;
#ifdef ALLOC_MIN_RESERVE
	flags |= state->min_reserve ? ALLOC_MIN_RESERVE : 0;
#endif
#ifdef ALLOC_NON_BLOCK
	flags |= state->non_block ? ALLOC_NON_BLOCK : 0;
#endif
#ifdef ALLOC_OOM
	flags |= state->oom ? ALLOC_OOM : 0;
#endif
#ifdef ALLOC_HIGHATOMIC
	flags |= state->highatomic ? ALLOC_HIGHATOMIC : 0;
#endif
	return flags;
}

/* z or zone, order, mark, highest_zoneidx, alloc_flags and free_pages are what the tree's functions may ask for. */
#define MMTWIN_ZONE_MARK_DECISION(name) \
	MMTWIN_DECISION(name, mmtwin_zone_mark) \
	{ \
		struct zone mmtwin_zone = { \
			.mmtwin_managed = state->managed, \
			.watermark_boost = state->boost, \
			.lowmem_reserve = { state->lowmem_reserve }, \
			.nr_reserved_highatomic = state->free_highatomic, \
			.nr_free_highatomic = state->free_highatomic, \
		}, *zone = &mmtwin_zone, *z = zone; \
		unsigned int order = state->order, alloc_flags = mmtwin_alloc_flags(state); \
		unsigned long mark = state->mark; \
		long free_pages = state->free_pages; \
		int highest_zoneidx = 0, at; \
		(void)z, (void)order, (void)alloc_flags, (void)mark, (void)free_pages, (void)highest_zoneidx; \
		for (at = 0; at < NR_PAGE_ORDERS; at++) \
			zone->free_area[at] = (struct free_area){ state->free_types[at] != 0, state->free_types[at] }; \
		zone->_watermark[WMARK_HIGH] = state->high; \
		watermark_boost_factor = state->boost_factor; \
		mmtwin_page_shift = 12; \
		state->answer = MMTWIN_CALL_##name; \
		state->boost = zone->watermark_boost; \
	}

#ifdef MMTWIN_CALL_boost_watermark
MMTWIN_ZONE_MARK_DECISION(boost_watermark)
#endif
#ifdef MMTWIN_CALL___zone_watermark_ok
MMTWIN_ZONE_MARK_DECISION(__zone_watermark_ok)
#endif

/* area, order, migratetype or start_mt, only_stealable and can_steal are what the tree's functions may ask for. */
#define MMTWIN_FALLBACK_DECISION(name) \
	MMTWIN_DECISION(name, mmtwin_fallback) \
	{ \
		struct free_area mmtwin_area = { 0 }, *area = &mmtwin_area; \
		unsigned int order = state->order; \
		int migratetype = state->migratetype, start_mt = migratetype, type; \
		bool only_stealable = state->only_stealable, mmtwin_can_steal = false, *can_steal = &mmtwin_can_steal; \
		(void)order, (void)start_mt, (void)only_stealable; \
		for (type = 0; type < 4; type++) { \
			area->nr_free += state->nr_free[type]; \
			area->mmtwin_types |= state->nr_free[type] ? 1U << type : 0; \
		} \
		state->answer = MMTWIN_CALL_##name; \
		state->can_steal = *can_steal; \
	}

#ifdef MMTWIN_CALL_can_steal_fallback
MMTWIN_FALLBACK_DECISION(can_steal_fallback)
#endif
#ifdef MMTWIN_CALL_find_suitable_fallback
MMTWIN_FALLBACK_DECISION(find_suitable_fallback)
#endif
