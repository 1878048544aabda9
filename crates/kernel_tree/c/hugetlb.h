/* Pools of huge pages: nodes that take turns. */
#ifndef MMTWIN_HUGETLB_H
#define MMTWIN_HUGETLB_H

struct hstate {
	int next_nid_to_alloc;
	int next_nid_to_free;
};

#endif
