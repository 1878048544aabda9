/* Decisions about lists of pages, between mmtwin's records and the kernel's structures. */

static inline void mmtwin_enter_lru_gen(const struct mmtwin_lru_gen *state, struct lruvec *lruvec)
{
	struct lru_gen_folio *gen = &lruvec->lrugen;
	int type, at;

	*lruvec = (struct lruvec){ .lrugen = { .max_seq = state->max_seq } };
	for (type = 0; type < ANON_AND_FILE; type++) {
		gen->min_seq[type] = state->min_seq[type];
		for (at = 0; at < (int)MAX_NR_GENS; at++)
			gen->nr_pages[at][type][0] = state->nr_pages[at * ANON_AND_FILE + type];
		for (at = 0; at < (int)MAX_NR_TIERS; at++) {
			int tier = type * MAX_NR_TIERS + at;

			gen->avg_refaulted[type][at] = state->avg_refaulted[tier];
			gen->avg_total[type][at] = state->avg_total[tier];
			gen->refaulted[0][type][at].counter = state->refaulted[tier];
			gen->evicted[0][type][at].counter = state->evicted[tier];
			if (at < (int)MAX_NR_TIERS - 1)
				gen->protected[0][type][at] = state->protected[tier];
		}
	}
}

#define MMTWIN_LRU_GEN_DECISION(name, ...) \
	MMTWIN_DECISION(name, mmtwin_lru_gen) \
	{ \
		struct lruvec mmtwin_lists, *lruvec = &mmtwin_lists; \
		struct scan_control mmtwin_control = { .priority = state->priority }, *sc = &mmtwin_control; \
		int type = state->lru_type, tier = state->tier, gain = state->gain, swappiness = state->swappiness; \
		int *tier_idx = &state->tier_idx; \
		unsigned long max_seq = state->max_seq, min_seq[] = { state->min_seq[0], state->min_seq[1] }; \
		unsigned long mmtwin_to_scan = 0, *nr_to_scan = &mmtwin_to_scan; \
		bool can_swap = state->can_swap, mmtwin_need_aging = false, *need_aging = &mmtwin_need_aging; \
		(void)sc, (void)type, (void)tier, (void)gain, (void)swappiness, (void)tier_idx; \
		(void)max_seq, (void)min_seq, (void)can_swap; \
		mmtwin_below_min = state->below_min; \
		mmtwin_can_age = state->can_age; \
		mmtwin_kswapd = state->kswapd; \
		mmtwin_enter_lru_gen(state, lruvec); \
		__VA_ARGS__; \
		state->nr_to_scan = *nr_to_scan; \
		state->need_aging = *need_aging; \
	}

#ifdef MMTWIN_CALL_get_tier_idx
MMTWIN_LRU_GEN_DECISION(get_tier_idx, state->answer = MMTWIN_CALL_get_tier_idx)
#endif
#ifdef MMTWIN_CALL_get_type_to_scan
MMTWIN_LRU_GEN_DECISION(get_type_to_scan, state->answer = MMTWIN_CALL_get_type_to_scan)
#endif
#ifdef MMTWIN_CALL_should_run_aging
MMTWIN_LRU_GEN_DECISION(should_run_aging, state->answer = MMTWIN_CALL_should_run_aging)
#endif
#ifdef MMTWIN_CALL_get_nr_to_scan
MMTWIN_LRU_GEN_DECISION(get_nr_to_scan, *nr_to_scan = MMTWIN_CALL_get_nr_to_scan)
#endif
#ifdef MMTWIN_CALL_read_ctrl_pos
MMTWIN_LRU_GEN_DECISION(read_ctrl_pos, {
	struct ctrl_pos mmtwin_pos, *pos = &mmtwin_pos;
	MMTWIN_CALL_read_ctrl_pos;
	state->process[0] = pos->refaulted;
	state->process[1] = pos->total;
	state->process[2] = pos->gain;
})
#endif
#ifdef MMTWIN_CALL_positive_ctrl_err
MMTWIN_LRU_GEN_DECISION(positive_ctrl_err, {
	struct ctrl_pos mmtwin_sp = { state->set_point[0], state->set_point[1], state->set_point[2] };
	struct ctrl_pos mmtwin_pv = { state->process[0], state->process[1], state->process[2] };
	struct ctrl_pos *sp = &mmtwin_sp;
	struct ctrl_pos *pv = &mmtwin_pv;
	state->answer = MMTWIN_CALL_positive_ctrl_err;
})
#endif

#define MMTWIN_SHADOW_DECISION(name, ...) \
	MMTWIN_DECISION(name, mmtwin_shadow) \
	{ \
		struct lruvec mmtwin_lists = { .nonresident_age = { state->nonresident_age } }; \
		struct lruvec *mmtwin_found = NULL, **lruvec = &mmtwin_found; \
		pg_data_t mmtwin_pgdat = { .node_id = state->node }; \
		bool file = state->file, flush = false, mmtwin_workingset = state->workingset; \
		unsigned long mmtwin_token = 0, *token = &mmtwin_token; \
		void *shadow = xa_mk_value(state->value); \
		int at; \
		(void)lruvec, (void)mmtwin_pgdat, (void)file, (void)flush, (void)mmtwin_workingset, (void)token, (void)shadow; \
		for (at = 0; at < 4; at++) \
			mmtwin_lists.mmtwin_sizes[at] = state->sizes[at]; \
		for (at = 0; at < ANON_AND_FILE; at++) \
			mmtwin_lists.lrugen.min_seq[at] = state->min_seq[at]; \
		mmtwin_lruvec = &mmtwin_lists; \
		mmtwin_memcg.mmtwin_swap = state->has_swap; \
		mmtwin_memcg_exists = state->memcg_exists; \
		mmtwin_lru_gen_enabled = state->lru_gen_enabled; \
		bucket_order = state->bucket_order; \
		__VA_ARGS__; \
	}

#ifdef MMTWIN_CALL_pack_shadow
MMTWIN_SHADOW_DECISION(pack_shadow, {
	int memcgid = state->memcg_id;
	pg_data_t *pgdat = &mmtwin_pgdat;
	unsigned long eviction = state->eviction;
	bool workingset = state->workingset;
	state->value = xa_to_value(MMTWIN_CALL_pack_shadow);
})
#endif
#ifdef MMTWIN_CALL_unpack_shadow
MMTWIN_SHADOW_DECISION(unpack_shadow, {
	pg_data_t *mmtwin_at;
	pg_data_t **pgdat = &mmtwin_at;
	int mmtwin_id;
	int *memcgidp = &mmtwin_id;
	unsigned long *evictionp = token;
	bool *workingsetp = &mmtwin_workingset;
	MMTWIN_CALL_unpack_shadow;
	state->memcg_id = mmtwin_id;
	state->node = mmtwin_at->node_id;
	state->eviction = *token;
	state->workingset = mmtwin_workingset;
})
#endif
#ifdef MMTWIN_CALL_lru_gen_test_recent
MMTWIN_SHADOW_DECISION(lru_gen_test_recent, {
	bool *workingset = &mmtwin_workingset;
	state->answer = MMTWIN_CALL_lru_gen_test_recent;
})
#endif
#ifdef MMTWIN_CALL_workingset_test_recent
MMTWIN_SHADOW_DECISION(workingset_test_recent, {
	bool *workingset = &mmtwin_workingset;
	state->answer = MMTWIN_CALL_workingset_test_recent;
})
#endif

#ifdef MMTWIN_CALL_reset_ctrl_pos
MMTWIN_LRU_GEN_DECISION(reset_ctrl_pos, {
	bool carryover = true;
	int at;
	MMTWIN_CALL_reset_ctrl_pos;
	for (at = 0; at < (int)MAX_NR_TIERS; at++) {
		int mmtwin_at = type * MAX_NR_TIERS + at;
		state->avg_refaulted[mmtwin_at] = lruvec->lrugen.avg_refaulted[type][at];
		state->avg_total[mmtwin_at] = lruvec->lrugen.avg_total[type][at];
		state->refaulted[mmtwin_at] = lruvec->lrugen.refaulted[0][type][at].counter;
		state->evicted[mmtwin_at] = lruvec->lrugen.evicted[0][type][at].counter;
		if (at < (int)MAX_NR_TIERS - 1)
			state->protected[mmtwin_at] = lruvec->lrugen.protected[0][type][at];
	}
})
#endif
#ifdef MMTWIN_CALL_inactive_is_low
MMTWIN_SHADOW_DECISION(inactive_is_low, {
	struct lruvec *lruvec = mmtwin_lruvec;
	enum lru_list inactive_lru = file ? LRU_INACTIVE_FILE : LRU_INACTIVE_ANON;
	mmtwin_page_shift = 12;
	state->answer = MMTWIN_CALL_inactive_is_low;
})
#endif

/* lruvec, sc and nr are what the tree's functions may ask for. */
#define MMTWIN_SCAN_COUNT_DECISION(name) \
	MMTWIN_DECISION(name, mmtwin_scan_count) \
	{ \
		struct lruvec mmtwin_lists, *lruvec = &mmtwin_lists; \
		struct scan_control mmtwin_control = { \
			.nr_to_reclaim = state->nr_to_reclaim, \
			.target_mem_cgroup = state->cgroup_reclaim ? &mmtwin_memcg : NULL, \
			.anon_cost = state->cost[0], \
			.file_cost = state->cost[1], \
			.may_swap = state->may_swap, \
			.memcg_low_reclaim = state->memcg_low_reclaim, \
			.cache_trim_mode = state->cache_trim_mode, \
			.file_is_tiny = state->file_is_tiny, \
			.priority = state->priority, \
		}, *sc = &mmtwin_control; \
		unsigned long mmtwin_nr[NR_LRU_LISTS] = { 0 }, *nr = mmtwin_nr; \
		int at; \
		*lruvec = (struct lruvec){ .mmtwin_aged = 0 }; \
		for (at = 0; at < 4; at++) { \
			lruvec->mmtwin_sizes[at] = state->sizes[at]; \
			lruvec->mmtwin_reclaimed_of_32[at] = state->reclaimed_of_32[at]; \
		} \
		mmtwin_memcg = (struct mem_cgroup){ \
			.mmtwin_swap = state->can_reclaim_anon, \
			.mmtwin_swappiness = state->swappiness, \
			.mmtwin_usage = state->usage, \
			.mmtwin_min = state->min, \
			.mmtwin_low = state->low, \
		}; \
		mmtwin_lru_gen_enabled = false; \
		mmtwin_kswapd = state->kswapd; \
		mmtwin_can_age_anon = state->can_age_anon; \
		mmtwin_page_shift = 12; \
		MMTWIN_CALL_##name; \
		for (at = 0; at < 4; at++) { \
			state->nr[at] = nr[at]; \
			state->calls[at] = lruvec->mmtwin_calls[at]; \
			state->scanned[at] = lruvec->mmtwin_scanned[at]; \
		} \
		state->memcg_low_skipped = sc->memcg_low_skipped; \
		state->nr_reclaimed = sc->nr_reclaimed; \
		state->aged = lruvec->mmtwin_aged; \
	}

#ifdef MMTWIN_CALL_get_scan_count
MMTWIN_SCAN_COUNT_DECISION(get_scan_count)
#endif
#ifdef MMTWIN_CALL_shrink_lruvec
MMTWIN_SCAN_COUNT_DECISION(shrink_lruvec)
#endif

static inline unsigned long mmtwin_flags(const struct mmtwin_tail_folio *state)
{
	return (state->locked ? BIT(PG_locked) : 0) | (state->referenced ? BIT(PG_referenced) : 0) |
		(state->dirty ? BIT(PG_dirty) : 0) | (state->lru ? BIT(PG_lru) : 0) |
		(state->workingset ? BIT(PG_workingset) : 0) | (state->reclaim ? BIT(PG_reclaim) : 0) |
		(state->swapbacked ? BIT(PG_swapbacked) : 0) | (state->swapcache ? BIT(PG_swapcache) : 0) |
		(state->writeback ? BIT(PG_writeback) : 0) | (unsigned long)state->refs << LRU_REFS_PGOFF |
		(state->generation + 1UL) << LRU_GEN_PGOFF;
}

/* lruvec, folio, sc and tier_idx are what the tree's functions may ask for. Reclaim may do all that it can. */
#define MMTWIN_TAIL_FOLIO_DECISION(name) \
	MMTWIN_DECISION(name, mmtwin_tail_folio) \
	{ \
		struct lruvec mmtwin_lists, *lruvec = &mmtwin_lists; \
		struct folio mmtwin_folio = { \
			.flags = mmtwin_flags(state), \
			.mmtwin_zone = state->zone, \
			.mmtwin_pages = state->nr_pages, \
		}, *folio = &mmtwin_folio; \
		struct scan_control mmtwin_control = { \
			.may_writepage = 1, \
			.may_unmap = 1, \
			.may_swap = 1, \
			.reclaim_idx = state->reclaim_idx, \
			.gfp_mask = __GFP_IO, \
		}, *sc = &mmtwin_control; \
		int tier_idx = state->tier_idx, at; \
		(void)tier_idx; \
		*lruvec = (struct lruvec){ .lrugen = { .min_seq = { state->min_seq, state->min_seq } } }; \
		mmtwin_moved_to = 0; \
		mmtwin_activated = 0; \
		state->answer = MMTWIN_CALL_##name; \
		state->generation = (int)(folio->flags >> LRU_GEN_PGOFF & (BIT(LRU_GEN_WIDTH) - 1)) - 1; \
		state->refs = (int)(folio->flags >> LRU_REFS_PGOFF & (BIT(LRU_REFS_WIDTH) - 1)); \
		state->referenced = folio_test_referenced(folio); \
		state->workingset = folio_test_workingset(folio); \
		state->reclaim = folio->flags >> PG_reclaim & 1; \
		state->lru = folio->flags >> PG_lru & 1; \
		state->moved_to = mmtwin_moved_to; \
		state->activated = mmtwin_activated; \
		for (at = 0; at < 3; at++) \
			state->protected[at] = lruvec->lrugen.protected[0][0][at] + lruvec->lrugen.protected[0][1][at]; \
	}

#ifdef MMTWIN_CALL_sort_folio
MMTWIN_TAIL_FOLIO_DECISION(sort_folio)
#endif
#ifdef MMTWIN_CALL_isolate_folio
MMTWIN_TAIL_FOLIO_DECISION(isolate_folio)
#endif

#ifdef MMTWIN_CALL_folio_check_references
MMTWIN_DECISION(folio_check_references, mmtwin_references)
{
	struct folio mmtwin_folio = {
		.mmtwin_referenced_ptes = state->referenced_ptes,
		.mmtwin_vm_flags = (state->locked ? VM_LOCKED : 0) | (state->executable ? VM_EXEC : 0),
		.flags = (state->referenced ? BIT(PG_referenced) : 0) | (state->swapbacked ? BIT(PG_swapbacked) : 0),
	}, *folio = &mmtwin_folio;
	struct scan_control mmtwin_control = { 0 }, *sc = &mmtwin_control;

	(void)sc;
	state->answer = MMTWIN_CALL_folio_check_references;
	state->referenced = folio_test_referenced(folio);
}
#endif
