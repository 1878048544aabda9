/* Per-CPU pagesets: what decisions about them read, and what of them is only noted. */
#ifndef MMTWIN_PCP_H
#define MMTWIN_PCP_H

enum zone_flags { ZONE_BOOSTED_WATERMARK, ZONE_RECLAIM_ACTIVE, ZONE_BELOW_HIGH };
enum zone_type { ZONE_DMA, ZONE_DMA32, ZONE_NORMAL, ZONE_MOVABLE };
enum zone_watermarks { WMARK_MIN, WMARK_LOW, WMARK_HIGH, WMARK_PROMO, NR_WMARK };

#define PCPF_PREV_FREE_HIGH_ORDER BIT(0)
#define PCPF_FREE_HIGH_BATCH BIT(1)

struct per_cpu_pages {
	spinlock_t lock;
	int count;
	int high;
	int high_min;
	int high_max;
	int batch;
	u8 flags;
	u8 alloc_factor;
	short free_factor;
	short free_count;
	struct list_head lists[1];
	int mmtwin_drains;
	int mmtwin_drained;
	int mmtwin_first_drain;
};

/* Up to 4 MiB of 4 KiB pages; the largest order has two names. */
#define MAX_PAGE_ORDER 10
#define MAX_ORDER 11
#define NR_PAGE_ORDERS 11

struct free_area {
	unsigned long nr_free;
	/* Of which migrate types it has a block, a bit each. */
	unsigned int mmtwin_types;
};

#define free_area_empty(area, type) (!((area)->mmtwin_types & 1U << (type)))
#define page_group_by_mobility_disabled 0
/* Pages of 4 KiB, huge pages of 2 MiB. */
#define HPAGE_PMD_ORDER 9
#define pageblock_order 9
#define pageblock_nr_pages (1UL << pageblock_order)

struct zone {
	spinlock_t lock;
	unsigned long flags;
	unsigned long _watermark[NR_WMARK];
	unsigned long watermark_boost;
	struct free_area free_area[NR_PAGE_ORDERS];
	long lowmem_reserve[1];
	/* One of both, before and since 6.13 and its backports. */
	unsigned long nr_reserved_highatomic;
	unsigned long nr_free_highatomic;
	unsigned int compact_considered;
	unsigned int compact_defer_shift;
	int compact_order_failed;
	unsigned long mmtwin_managed;
	unsigned long mmtwin_free_pages;
	enum zone_type mmtwin_type;
};

struct page {
	struct list_head pcp_list;
};

struct cpumask {
	unsigned int mmtwin_weight;
};

static __thread struct cpumask mmtwin_local_cpus;
static __thread unsigned int mmtwin_online_cpus;
static __thread int percpu_pagelist_high_fraction;

#define zone_managed_pages(zone) ((zone)->mmtwin_managed)
#define wmark_pages(zone, mark) ((zone)->_watermark[mark] + (zone)->watermark_boost)
#define min_wmark_pages(zone) wmark_pages(zone, WMARK_MIN)
#define low_wmark_pages(zone) wmark_pages(zone, WMARK_LOW)
#define high_wmark_pages(zone) wmark_pages(zone, WMARK_HIGH)
#define zone_idx(zone) ((zone)->mmtwin_type)
#define is_highmem(zone) ((void)(zone), 0)
#define zone_to_nid(zone) ((void)(zone), 0)
#define cpumask_of_node(node) ((void)(node), &mmtwin_local_cpus)
#define cpumask_weight(mask) ((mask)->mmtwin_weight)
#define num_online_cpus() (mmtwin_online_cpus)

/* Statistics and lists are the twin's. */
#define __count_vm_events(event, count) ((void)0)
#define order_to_pindex(type, order) ((void)(type), 0)
#define pcp_spin_lock_maybe_irqsave(pcp, flags) ((void)0)
#define pcp_spin_unlock_maybe_irqrestore(pcp, flags) ((void)0)
/* Whether the zone has enough again is tested by the twin afterwards; whether it has before it is compacted, before. */
#define zone_watermark_ok(zone, order, mark, highest, flags) ((void)(zone), false)

/* Gives back at least so many pages, as far as there are any: noted, for the twin to do. With no page at all the zone is locked too. */
static inline void free_pcppages_bulk(struct zone *zone, int count, struct per_cpu_pages *pcp, int pindex)
{
	(void)zone;
	(void)pindex;
	count = min(pcp->count, count);
	if (count < 0)
		count = 0;
	if (!pcp->mmtwin_drains)
		pcp->mmtwin_first_drain = count;
	pcp->mmtwin_drains++;
	pcp->mmtwin_drained += count;
	pcp->count -= count;
}

#endif
