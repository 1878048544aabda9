/* Decisions about scanning, between mmtwin's record and the kernel's tasks. */

#define MMTWIN_NUMA_SCAN_DECISION(name, answer_or_nothing) \
	MMTWIN_DECISION(name, mmtwin_numa_scan) \
	{ \
		struct mm_struct mm = { .mmtwin_rss = state->rss }; \
		struct numa_group group = { state->group_refs, state->group_shared, state->group_private }; \
		struct task_struct mmtwin_task = { \
			.mm = &mm, \
			.numa_scan_period = state->scan_period, \
			.numa_scan_period_max = state->scan_period_max, \
			.numa_faults_locality = { state->locality[0], state->locality[1], state->locality[2] }, \
			.numa_group = state->has_group ? &group : NULL, \
		}, *p = &mmtwin_task; \
		unsigned long shared = state->shared, private = state->private; \
		int at; \
		(void)shared, (void)private; \
		mmtwin_page_shift = 12; \
		jiffies = 1000; \
		sysctl_numa_balancing_scan_size = state->scan_size_mb; \
		sysctl_numa_balancing_scan_period_min = state->scan_period_min_ms; \
		sysctl_numa_balancing_scan_period_max = state->scan_period_max_ms; \
		answer_or_nothing MMTWIN_CALL_##name; \
		state->scan_period = p->numa_scan_period; \
		state->puts_off_scan = mm.numa_next_scan != 0; \
		for (at = 0; at < 3; at++) \
			state->locality[at] = p->numa_faults_locality[at]; \
	}

#ifdef MMTWIN_CALL_task_scan_min
MMTWIN_NUMA_SCAN_DECISION(task_scan_min, state->answer =)
#endif
#ifdef MMTWIN_CALL_task_scan_max
MMTWIN_NUMA_SCAN_DECISION(task_scan_max, state->answer =)
#endif
#ifdef MMTWIN_CALL_update_task_scan_period
MMTWIN_NUMA_SCAN_DECISION(update_task_scan_period, )
#endif
#ifdef MMTWIN_CALL_task_scan_start
MMTWIN_NUMA_SCAN_DECISION(task_scan_start, state->answer =)
#endif

#ifdef MMTWIN_CALL_vma_is_accessed
MMTWIN_DECISION(vma_is_accessed, mmtwin_vma_access)
{
	struct mm_struct mmtwin_mm = { .numa_scan_offset = state->scan_offset, .numa_scan_seq = state->scan_seq }, *mm = &mmtwin_mm;
	struct task_struct task = { .mm = mm, .pid = state->pid, .mmtwin_threads = state->nr_threads };
	struct vma_numab_state numab = {
		.pids_active = { state->pids_active[0], state->pids_active[1] },
		.start_scan_seq = state->start_scan_seq,
		.prev_scan_seq = state->prev_scan_seq,
	};
	struct vm_area_struct mmtwin_vma = { .vm_start = state->vm_start, .numab_state = &numab }, *vma = &mmtwin_vma;

	mmtwin_current = &task;
	state->answer = MMTWIN_CALL_vma_is_accessed;
	state->ignores_pid = vma->mmtwin_skipped >> NUMAB_SKIP_IGNORE_PID & 1;
}
#endif

/* p, folio or page, src_nid, dst_cpu, pgdat, rate_limit and ref_th are what the tree's functions may ask for. */
#define MMTWIN_NUMA_MIGRATE_DECISION(name, answer_or_nothing) \
	MMTWIN_DECISION(name, mmtwin_numa_migrate) \
	{ \
		struct pglist_data *pgdat = NODE_DATA(state->destination); \
		struct numa_group group = { 0 }; \
		struct task_struct mmtwin_task = { \
			.pid = state->pid, \
			.numa_scan_seq = state->scan_seq, \
			.numa_preferred_nid = state->preferred_nid, \
			.numa_group = state->has_group ? &group : NULL, \
		}, *p = &mmtwin_task; \
		struct folio mmtwin_folio = { .mmtwin_pages = state->nr_pages }, *folio = &mmtwin_folio; \
		struct page mmtwin_page = { { 0 } }, *page = &mmtwin_page; \
		int src_nid = state->source, dst_cpu = state->destination * 8; \
		unsigned long rate_limit = (unsigned long)state->rate_limit << 8; \
		unsigned int ref_th = state->hot_threshold; \
		(void)folio, (void)page, (void)src_nid, (void)dst_cpu, (void)rate_limit, (void)ref_th; \
		*pgdat = (struct pglist_data){ \
			.node_id = state->destination, \
			.nbp_rl_start = state->rate_start, \
			.nbp_rl_nr_cand = state->rate_candidates, \
			.nbp_threshold = state->threshold, \
			.nbp_th_start = state->threshold_start, \
			.nbp_th_nr_cand = state->threshold_candidates, \
			.mmtwin_candidates = state->candidates, \
		}; \
		group.mmtwin_cpu[state->source] = state->cpu_faults[0]; \
		group.mmtwin_cpu[state->destination] = state->cpu_faults[1]; \
		group.mmtwin_memory[state->source] = state->memory_faults[0]; \
		group.mmtwin_memory[state->destination] = state->memory_faults[1]; \
		mmtwin_current = p; \
		mmtwin_page_shift = 12; \
		jiffies = state->now; \
		mmtwin_last_cpupid = state->last_cpupid; \
		mmtwin_fault_pages = state->nr_pages; \
		mmtwin_is_toptier = !state->from_slow_memory; \
		mmtwin_free_space_enough = state->free_space_enough; \
		sysctl_numa_balancing_mode = NUMA_BALANCING_NORMAL | (state->tiering ? NUMA_BALANCING_MEMORY_TIERING : 0); \
		sysctl_numa_balancing_hot_threshold = state->hot_threshold; \
		sysctl_numa_balancing_promote_rate_limit = state->rate_limit; \
		sysctl_numa_balancing_scan_period_max = state->scan_period_max; \
		answer_or_nothing MMTWIN_CALL_##name; \
		state->threshold = pgdat->nbp_threshold; \
		state->threshold_start = pgdat->nbp_th_start; \
		state->threshold_candidates = pgdat->nbp_th_nr_cand; \
		state->rate_start = pgdat->nbp_rl_start; \
		state->rate_candidates = pgdat->nbp_rl_nr_cand; \
		state->candidates = pgdat->mmtwin_candidates; \
	}

#ifdef MMTWIN_CALL_should_numa_migrate_memory
MMTWIN_NUMA_MIGRATE_DECISION(should_numa_migrate_memory, state->answer =)
#endif
#ifdef MMTWIN_CALL_numa_promotion_adjust_threshold
MMTWIN_NUMA_MIGRATE_DECISION(numa_promotion_adjust_threshold, )
#endif

#ifdef MMTWIN_CALL_preferred_group_nid
MMTWIN_DECISION(preferred_group_nid, mmtwin_group_nodes)
{
	struct numa_group group = { 0 };
	struct task_struct mmtwin_task = { .numa_group = &group }, *p = &mmtwin_task;
	int nid = state->nid, node;

	for (node = 0; node < state->nodes; node++) {
		group.mmtwin_memory[node] = state->faults[node];
		group.total_faults += state->faults[node];
	}
	sched_numa_topology_type = state->topology;
	sched_max_numa_distance = state->max_distance;
	node_states[N_CPU].bits[0] = state->with_cpus;
	mmtwin_online_nodes = BIT(state->nodes) - 1;
	mmtwin_distances = state->distances;
	mmtwin_levels = state->levels;
	state->answer = MMTWIN_CALL_preferred_group_nid;
}
#endif

#ifdef MMTWIN_CALL_task_numa_work
#define MMTWIN_MOST_VMAS ((int)ARRAY_SIZE(((struct mmtwin_scan_pass *)NULL)->vm_start))

static inline void mmtwin_enter_vmas(const struct mmtwin_scan_pass *state, struct mm_struct *mm, struct vma_numab_state *known)
{
	int at;

	for (at = 0; at < mm->mmtwin_nr_vmas; at++) {
		known[at] = (struct vma_numab_state){
			.next_scan = state->state_next_scan[at],
			.pids_active_reset = state->pids_active_reset[at],
			.pids_active = { state->pids_before[at], state->pids_now[at] },
			.start_scan_seq = state->start_scan_seq[at],
			.prev_scan_seq = state->prev_scan_seq[at],
		};
		mm->mmtwin_vmas[at] = (struct vm_area_struct){
			.vm_start = state->vm_start[at],
			.vm_end = state->vm_end[at],
			.vm_flags = state->vm_flags[at],
			.vm_mm = state->special[at] ? NULL : mm,
			.vm_file = state->file[at] ? (struct file *)mm : NULL,
			.numab_state = state->has_state[at] ? &known[at] : NULL,
			.mmtwin_migratable = state->migratable[at],
			.mmtwin_migrates_on_fault = state->migrates_on_fault[at],
			.mmtwin_populated_to = state->populated_to[at],
		};
	}
}

static inline void mmtwin_leave_vmas(struct mmtwin_scan_pass *state, const struct mm_struct *mm)
{
	int at;

	for (at = 0; at < mm->mmtwin_nr_vmas; at++) {
		const struct vm_area_struct *vma = &mm->mmtwin_vmas[at];
		const struct vma_numab_state *known = vma->numab_state;

		state->skipped[at] = vma->mmtwin_skipped;
		state->ranges[at] = vma->mmtwin_ranges;
		state->scanned[at] = vma->mmtwin_scanned;
		state->has_state[at] = known != NULL;
		if (!known)
			continue;
		state->state_next_scan[at] = known->next_scan;
		state->pids_active_reset[at] = known->pids_active_reset;
		state->pids_before[at] = known->pids_active[0];
		state->pids_now[at] = known->pids_active[1];
		state->start_scan_seq[at] = known->start_scan_seq;
		state->prev_scan_seq[at] = known->prev_scan_seq;
	}
}

MMTWIN_DECISION(task_numa_work, mmtwin_scan_pass)
{
	struct vm_area_struct vmas[MMTWIN_MOST_VMAS];
	struct vma_numab_state known[MMTWIN_MOST_VMAS], made[MMTWIN_MOST_VMAS];
	struct mm_struct mm = {
		.numa_next_scan = state->next_scan,
		.numa_scan_offset = state->scan_offset,
		.numa_scan_seq = state->scan_seq,
		.mmtwin_rss = state->rss,
		.mmtwin_vmas = vmas,
		.mmtwin_nr_vmas = state->vmas,
	};
	struct task_struct task = {
		.mm = &mm,
		.pid = state->pid,
		.mmtwin_threads = state->nr_threads,
		.numa_scan_period = state->scan_period,
		.numa_scan_period_max = state->scan_period_max,
	};
	struct callback_head *work = &task.numa_work;

	mmtwin_enter_vmas(state, &mm, known);
	__builtin_memset(made, 0, sizeof(made));
	mmtwin_new_states = made;
	mmtwin_failing_requests = state->failing_requests;
	mmtwin_current = &task;
	mmtwin_page_shift = 12;
	jiffies = state->now;
	sysctl_numa_balancing_scan_delay = state->scan_delay_ms;
	sysctl_numa_balancing_scan_size = state->scan_size_mb;
	sysctl_numa_balancing_scan_period_min = state->scan_period_min_ms;
	sysctl_numa_balancing_scan_period_max = state->scan_period_max_ms;
	MMTWIN_CALL_task_numa_work;
	mmtwin_leave_vmas(state, &mm);
	state->next_scan = mm.numa_next_scan;
	state->scan_offset = mm.numa_scan_offset;
	state->scan_seq = mm.numa_scan_seq;
	state->scan_period = task.numa_scan_period;
	state->scan_period_max = task.numa_scan_period_max;
	state->node_stamp = task.node_stamp;
}
#endif
