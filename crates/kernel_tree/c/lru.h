/* Lists of pages in the order of use: the multi-gen LRU's generations and tiers, and shadows of pages that are gone. */
#ifndef MMTWIN_LRU_H
#define MMTWIN_LRU_H

#define ANON_AND_FILE 2
#define MAX_NR_ZONES 1
#define MIN_NR_GENS 2U
#define MAX_NR_GENS 4U
#define MAX_NR_TIERS 4U
#define NR_HIST_GENS 1U
#define MIN_LRU_BATCH BITS_PER_LONG
#define MAX_SWAPPINESS 200
#define LRU_REFS_WIDTH 2
/* Where both are in the flags of a folio. */
#define LRU_REFS_PGOFF 32
#define LRU_GEN_WIDTH 3
#define LRU_GEN_PGOFF (LRU_REFS_PGOFF + LRU_REFS_WIDTH)
#define DEF_PRIORITY 12

enum { LRU_GEN_ANON, LRU_GEN_FILE };
enum node_stat_item { NR_INACTIVE_ANON, NR_ACTIVE_ANON, NR_INACTIVE_FILE, NR_ACTIVE_FILE };

/* In the order of their counters. */
enum lru_list { LRU_INACTIVE_ANON, LRU_ACTIVE_ANON, LRU_INACTIVE_FILE, LRU_ACTIVE_FILE, LRU_UNEVICTABLE, NR_LRU_LISTS };
#define LRU_BASE 0
#define LRU_ACTIVE 1
#define LRU_FILE 2
#define NR_LRU_BASE NR_INACTIVE_ANON

/* Called lru_gen_struct before 6.3. */
#define lru_gen_struct lru_gen_folio
struct lru_gen_folio {
	unsigned long max_seq;
	unsigned long min_seq[ANON_AND_FILE];
	long nr_pages[MAX_NR_GENS][ANON_AND_FILE][MAX_NR_ZONES];
	unsigned long avg_refaulted[ANON_AND_FILE][MAX_NR_TIERS];
	unsigned long avg_total[ANON_AND_FILE][MAX_NR_TIERS];
	unsigned long protected[NR_HIST_GENS][ANON_AND_FILE][MAX_NR_TIERS - 1];
	atomic_long_t evicted[NR_HIST_GENS][ANON_AND_FILE][MAX_NR_TIERS];
	atomic_long_t refaulted[NR_HIST_GENS][ANON_AND_FILE][MAX_NR_TIERS];
};

struct lruvec {
	atomic_long_t nonresident_age;
	struct lru_gen_folio lrugen;
	unsigned long mmtwin_sizes[4];
	/* What shrinking a list comes to, and what was asked for. */
	unsigned int mmtwin_reclaimed_of_32[4];
	unsigned long mmtwin_calls[4];
	unsigned long mmtwin_scanned[4];
	unsigned long mmtwin_aged;
};

typedef struct pglist_data {
	int node_id;
	/* Promotion to the node's memory. */
	unsigned int nbp_rl_start;
	unsigned long nbp_rl_nr_cand;
	unsigned int nbp_threshold;
	unsigned int nbp_th_start;
	unsigned long nbp_th_nr_cand;
	unsigned long mmtwin_candidates;
} pg_data_t;

struct mem_cgroup {
	int mmtwin_swap;
	int mmtwin_swappiness;
	unsigned long mmtwin_usage;
	unsigned long mmtwin_min;
	unsigned long mmtwin_low;
};

struct scan_control {
	unsigned long nr_to_reclaim;
	struct mem_cgroup *target_mem_cgroup;
	unsigned long anon_cost;
	unsigned long file_cost;
	int *proactive_swappiness;
	unsigned int may_writepage:1;
	unsigned int may_unmap:1;
	unsigned int may_swap:1;
	unsigned int proactive:1;
	unsigned int memcg_low_reclaim:1;
	unsigned int memcg_low_skipped:1;
	unsigned int cache_trim_mode:1;
	unsigned int file_is_tiny:1;
	s8 priority;
	s8 reclaim_idx;
	gfp_t gfp_mask;
	unsigned long nr_reclaimed;
};

struct blk_plug {
	int unused;
};

#define VM_EXEC 0x4
#define VM_LOCKED 0x2000

enum pageflags {
	PG_locked,
	PG_referenced,
	PG_dirty,
	PG_lru,
	PG_active,
	PG_workingset,
	PG_reclaim,
	PG_swapbacked,
	PG_swapcache,
	PG_writeback,
};

/* A folio, and where a decision moves it: 1 to the head of a list, 2 to the tail. */
struct folio {
	struct page page;
	unsigned long flags;
	int mmtwin_mapcount;
	int mmtwin_refs;
	bool mmtwin_young;
	int mmtwin_referenced_ptes;
	unsigned long mmtwin_vm_flags;
	int mmtwin_zone;
	long mmtwin_pages;
};

static __thread int mmtwin_moved_to;
static __thread unsigned long mmtwin_activated;

#define folio_zonenum(folio) ((folio)->mmtwin_zone)
#define folio_nr_pages(folio) ((folio)->mmtwin_pages)
#define folio_test_locked(folio) ((folio)->flags >> PG_locked & 1)
#define folio_test_referenced(folio) ((folio)->flags >> PG_referenced & 1)
#define folio_test_dirty(folio) ((folio)->flags >> PG_dirty & 1)
#define folio_test_workingset(folio) ((folio)->flags >> PG_workingset & 1)
#define folio_test_swapcache(folio) ((folio)->flags >> PG_swapcache & 1)
#define folio_test_writeback(folio) ((folio)->flags >> PG_writeback & 1)
#define folio_clear_referenced(folio) clear_bit(PG_referenced, &(folio)->flags)
#define folio_clear_reclaim(folio) clear_bit(PG_reclaim, &(folio)->flags)
#define folio_test_clear_lru(folio) test_and_clear_bit(PG_lru, &(folio)->flags)
#define folio_set_swapbacked(folio) set_bit(PG_swapbacked, &(folio)->flags)
/* Lazily freed memory (MADV_FREE) is anonymous and no longer backed by swap; there is none. */
#define folio_test_anon(folio) ((folio)->flags >> PG_swapbacked & 1)
#define folio_evictable(folio) ((void)(folio), true)
#define folio_mapped(folio) ((void)(folio), false)
/* Nobody else holds a folio or takes it off its list meanwhile. */
#define folio_try_get(folio) ((void)(folio), true)
#define folio_put(folio) ((void)(folio))
#define lru_gen_del_folio(lruvec, folio, reclaiming) ((void)(lruvec), (void)(folio), true)
#define lru_gen_update_size(lruvec, folio, old_gen, new_gen) ((void)0)
#define lruvec_add_folio_tail(lruvec, folio) ((void)(lruvec), (void)(mmtwin_moved_to = 2))
/* Of a list only the end is noted that a folio is moved to; the generation is in its flags. */
#define list_move(entry, head) ((void)(mmtwin_moved_to = 1))
#define list_move_tail(entry, head) ((void)(mmtwin_moved_to = 2))
/* All that a decision counts so are activations. */
#define __mod_lruvec_state(lruvec, item, count) ((void)(mmtwin_activated += (count)))

/* What page tables say of a folio is known before the decision is asked. */
#define folio_referenced(folio, is_locked, memcg, vm_flags) \
	((void)(is_locked), (void)(memcg), *(vm_flags) = (folio)->mmtwin_vm_flags, (folio)->mmtwin_referenced_ptes)
#define folio_set_referenced(folio) set_bit(PG_referenced, &(folio)->flags)
#define folio_test_clear_referenced(folio) test_and_clear_bit(PG_referenced, &(folio)->flags)
#define folio_is_file_lru(folio) (!((folio)->flags >> PG_swapbacked & 1))

#define lru_gen_from_seq(seq) ((int)((seq) % MAX_NR_GENS))
#define lru_hist_from_seq(seq) ((int)((seq) % NR_HIST_GENS))
#define lruvec_memcg(lruvec) ((void)(lruvec), &mmtwin_memcg)
#define mem_cgroup_online(memcg) ((void)(memcg), true)

static __thread struct mem_cgroup mmtwin_memcg;
static __thread bool mmtwin_memcg_exists;
static __thread struct lruvec *mmtwin_lruvec;
static __thread struct pglist_data mmtwin_node;
static __thread bool mmtwin_lru_gen_enabled;
static __thread bool mmtwin_kswapd;
static __thread bool mmtwin_below_min;
static __thread bool mmtwin_can_age;
static __thread bool mmtwin_can_age_anon;
static __thread unsigned int bucket_order;

#define NODES_SHIFT 10
#define MEM_CGROUP_ID_SHIFT 16
#define BITS_PER_XA_VALUE (BITS_PER_LONG - 1)
#define xa_mk_value(value) ((void *)((unsigned long)(value) << 1 | 1))
#define xa_to_value(entry) ((unsigned long)(entry) >> 1)
#define NODE_DATA(node) (mmtwin_node.node_id = (node), &mmtwin_node)
#define lru_gen_enabled() (mmtwin_lru_gen_enabled)
#define mem_cgroup_disabled() false
#define mem_cgroup_from_id(id) ((void)(id), mmtwin_memcg_exists ? &mmtwin_memcg : NULL)
#define mem_cgroup_tryget(memcg) ((void)(memcg), true)
#define mem_cgroup_put(memcg) ((void)(memcg))
#define mem_cgroup_flush_stats_ratelimited(memcg) ((void)(memcg))
#define mem_cgroup_lruvec(memcg, node) ((void)(memcg), (void)(node), mmtwin_lruvec)
#define mem_cgroup_get_nr_swap_pages(memcg) ((long)(memcg)->mmtwin_swap)
#define mem_cgroup_swappiness(memcg) ((memcg)->mmtwin_swappiness)
#define mem_cgroup_size(memcg) ((memcg)->mmtwin_usage)
#define mem_cgroup_protection(root, memcg, min, low) \
	((void)(root), (void)(*(min) = (memcg)->mmtwin_min), (void)(*(low) = (memcg)->mmtwin_low))
#define mem_cgroup_below_min(...) (mmtwin_below_min)
#define mem_cgroup_below_low(...) false
#define try_to_inc_max_seq(...) (mmtwin_can_age)
#define mem_cgroup_is_root(memcg) ((void)(memcg), false)
#define lruvec_pgdat(lruvec) ((void)(lruvec), &mmtwin_node)
#define lruvec_lru_size(lruvec, lru, zone_idx) ((void)(zone_idx), (lruvec)->mmtwin_sizes[lru])
#define can_reclaim_anon_pages(memcg, nid, sc) ((void)(nid), (void)(sc), (memcg)->mmtwin_swap != 0)
#define can_age_anon_pages(pgdat, sc) ((void)(pgdat), (void)(sc), mmtwin_can_age_anon)
#define memcpy(to, from, length) __builtin_memcpy(to, from, length)
#define current_is_kswapd() (mmtwin_kswapd)
#define cond_resched_tasks_rcu_qs() ((void)0)
#define blk_start_plug(plug) ((void)(plug))
#define blk_finish_plug(plug) ((void)(plug))
/* The multi-gen LRU's own loop is another decision. */
#define lru_gen_shrink_lruvec(lruvec, sc) ((void)(lruvec), (void)(sc))
#define shrink_active_list(nr_to_scan, lruvec, sc, lru) ((void)(sc), (void)(lru), (void)((lruvec)->mmtwin_aged += (nr_to_scan)))

/* Shrinks a list: noted, for the twin to do, and answered as the record says. */
static inline unsigned long shrink_list(enum lru_list lru, unsigned long nr_to_scan, struct lruvec *lruvec, struct scan_control *sc)
{
	(void)sc;
	lruvec->mmtwin_calls[lru]++;
	lruvec->mmtwin_scanned[lru] += nr_to_scan;
	return nr_to_scan * lruvec->mmtwin_reclaimed_of_32[lru] / 32;
}

#define lruvec_page_state(lruvec, item) ((lruvec)->mmtwin_sizes[item])

#endif
