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
}
#endif
