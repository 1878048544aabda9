/* Nodes that take turns, between mmtwin's record and the kernel's pool; since 6.9 a function may be handed the node alone. */

#define MMTWIN_NEXT_NODE_DECISION(name, field) \
	MMTWIN_DECISION(name, mmtwin_next_node) \
	{ \
		struct hstate mmtwin_pool = { .field = state->next_node }, *h = &mmtwin_pool; \
		int *next_node = &h->field; \
		nodemask_t mmtwin_nodes = { { state->nodes_allowed } }, *nodes_allowed = &mmtwin_nodes; \
		state->answer = MMTWIN_CALL_##name; \
		state->next_node = *next_node; \
	}

#ifdef MMTWIN_CALL_hstate_next_node_to_alloc
MMTWIN_NEXT_NODE_DECISION(hstate_next_node_to_alloc, next_nid_to_alloc)
#endif
#ifdef MMTWIN_CALL_hstate_next_node_to_free
MMTWIN_NEXT_NODE_DECISION(hstate_next_node_to_free, next_nid_to_free)
#endif
