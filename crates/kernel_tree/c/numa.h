/* NUMA balancing: what is known of a task whose memory is scanned. */
#ifndef MMTWIN_NUMA_H
#define MMTWIN_NUMA_H

struct mm_struct {
	unsigned long numa_next_scan;
	unsigned long numa_scan_offset;
	int numa_scan_seq;
	unsigned long mmtwin_rss;
};

struct numa_group {
	long refcount;
	unsigned long mmtwin_shared;
	unsigned long mmtwin_private;
};

struct vma_numab_state {
	unsigned long pids_active[2];
	int start_scan_seq;
	int prev_scan_seq;
};

struct task_struct {
	struct mm_struct *mm;
	int pid;
	int mmtwin_threads;
	unsigned int numa_scan_period;
	unsigned int numa_scan_period_max;
	unsigned long numa_faults_locality[3];
	struct numa_group *numa_group;
};

static __thread unsigned int sysctl_numa_balancing_scan_size;
static __thread unsigned int sysctl_numa_balancing_scan_period_min;
static __thread unsigned int sysctl_numa_balancing_scan_period_max;
static __thread unsigned long jiffies;

#define get_mm_rss(mm) ((mm)->mmtwin_rss)
static __thread struct task_struct *mmtwin_current;

#define current (mmtwin_current)
#define get_nr_threads(task) ((task)->mmtwin_threads)
#define hash_32(value, bits) ((u32)(value) * 0x61C88647U >> (32 - (bits)))
#define trace_sched_skip_vma_numa(mm, vma, reason) ((void)0)
#define rcu_dereference(pointer) (pointer)
#define deref_curr_numa_group(task) ((task)->numa_group)
#define group_faults_shared(group) ((group)->mmtwin_shared)
#define group_faults_priv(group) ((group)->mmtwin_private)
#define refcount_read(count) ((int)*(count))
#define msecs_to_jiffies(ms) ((unsigned long)(ms))
#define memset(to, byte, length) __builtin_memset(to, byte, length)

#endif
