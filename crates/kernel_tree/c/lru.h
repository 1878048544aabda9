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
#define DEF_PRIORITY 12

enum { LRU_GEN_ANON, LRU_GEN_FILE };
enum node_stat_item { NR_INACTIVE_ANON, NR_ACTIVE_ANON, NR_INACTIVE_FILE, NR_ACTIVE_FILE };

/* In the order of their counters. */
enum lru_list { LRU_INACTIVE_ANON, LRU_ACTIVE_ANON, LRU_INACTIVE_FILE, LRU_ACTIVE_FILE };
#define LRU_ACTIVE 1
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
};

typedef struct pglist_data {
	int node_id;
} pg_data_t;

struct mem_cgroup {
	int mmtwin_swap;
};

struct scan_control {
	int priority;
	struct mem_cgroup *target_mem_cgroup;
};

#define VM_EXEC 0x4
#define VM_LOCKED 0x2000

struct folio {
	int mmtwin_referenced_ptes;
	unsigned long mmtwin_vm_flags;
	bool mmtwin_referenced;
	bool mmtwin_swapbacked;
};

/* What page tables say of a folio is known before the decision is asked. */
#define folio_referenced(folio, is_locked, memcg, vm_flags) \
	((void)(is_locked), (void)(memcg), *(vm_flags) = (folio)->mmtwin_vm_flags, (folio)->mmtwin_referenced_ptes)
#define folio_set_referenced(folio) ((void)((folio)->mmtwin_referenced = true))
#define folio_is_file_lru(folio) (!(folio)->mmtwin_swapbacked)

static inline bool folio_test_clear_referenced(struct folio *folio)
{
	bool was = folio->mmtwin_referenced;

	folio->mmtwin_referenced = false;
	return was;
}

#define lru_gen_from_seq(seq) ((int)((seq) % MAX_NR_GENS))
#define lru_hist_from_seq(seq) ((int)((seq) % NR_HIST_GENS))
#define lruvec_memcg(lruvec) ((void)(lruvec), &mmtwin_memcg)
#define mem_cgroup_online(memcg) ((void)(memcg), true)

static __thread struct mem_cgroup mmtwin_memcg;
static __thread bool mmtwin_memcg_exists;
static __thread struct lruvec *mmtwin_lruvec;
static __thread struct pglist_data mmtwin_node;
static __thread bool mmtwin_lru_gen_enabled;
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
#define lruvec_page_state(lruvec, item) ((lruvec)->mmtwin_sizes[item])

#endif
