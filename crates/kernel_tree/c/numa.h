/* NUMA balancing: what is known of a task whose memory is scanned. */
#ifndef MMTWIN_NUMA_H
#define MMTWIN_NUMA_H

struct mm_struct {
	unsigned long numa_next_scan;
	unsigned long mmtwin_rss;
};

struct numa_group {
	long refcount;
	unsigned long mmtwin_shared;
	unsigned long mmtwin_private;
};

struct task_struct {
	struct mm_struct *mm;
	unsigned int numa_scan_period;
	unsigned int numa_scan_period_max;
	unsigned long numa_faults_locality[3];
	struct numa_group *mmtwin_group;
};

static __thread unsigned int sysctl_numa_balancing_scan_size;
static __thread unsigned int sysctl_numa_balancing_scan_period_min;
static __thread unsigned int sysctl_numa_balancing_scan_period_max;
static __thread unsigned long jiffies;

#define get_mm_rss(mm) ((mm)->mmtwin_rss)
#define deref_curr_numa_group(task) ((task)->mmtwin_group)
#define group_faults_shared(group) ((group)->mmtwin_shared)
#define group_faults_priv(group) ((group)->mmtwin_private)
#define refcount_read(count) ((int)*(count))
#define msecs_to_jiffies(ms) ((unsigned long)(ms))
#define memset(to, byte, length) __builtin_memset(to, byte, length)

#endif
