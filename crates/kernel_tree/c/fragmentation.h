/* Free blocks of a zone, and what compaction makes of them. */
#ifndef MMTWIN_FRAGMENTATION_H
#define MMTWIN_FRAGMENTATION_H

#define trace_mm_compaction_defer_compaction(zone, order) ((void)0)
#define trace_mm_compaction_deferred(zone, order) ((void)0)
#define trace_mm_compaction_defer_reset(zone, order) ((void)0)

#define trace_mm_compaction_suitable(zone, order, result) ((void)(result))
#define zone_page_state(zone, item) ((zone)->mmtwin_free_pages)

static __thread unsigned int sysctl_compaction_proactiveness;
static __thread int sysctl_extfrag_threshold;

#endif
