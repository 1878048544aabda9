/* Free blocks of a zone, and what compaction makes of them. */
#ifndef MMTWIN_FRAGMENTATION_H
#define MMTWIN_FRAGMENTATION_H

static __thread unsigned int sysctl_compaction_proactiveness;

#endif
