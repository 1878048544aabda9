/* Pools of huge pages: nodes that take turns. */
#ifndef MMTWIN_HUGETLB_H
#define MMTWIN_HUGETLB_H

#define MAX_NUMNODES 64

typedef struct { unsigned long bits[1]; } nodemask_t;

struct hstate {
	int next_nid_to_alloc;
	int next_nid_to_free;
};

#define node_isset(node, mask) ((mask).bits[0] >> (node) & 1)
#define next_node_in(node, mask) mmtwin_next_node_in(node, (mask).bits[0])

/* The first node of a mask above one, or the first of all. */
static inline int mmtwin_next_node_in(int node, unsigned long mask)
{
	unsigned long above = node >= MAX_NUMNODES - 1 ? 0 : mask & (~0UL << (node + 1));

	return above ? (int)__ffs(above) : mask ? (int)__ffs(mask) : MAX_NUMNODES;
}

#endif
