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
	unsigned long total_faults;
	/* By node. */
	unsigned long mmtwin_memory[8];
	unsigned long mmtwin_cpu[8];
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
	int numa_scan_seq;
	int numa_preferred_nid;
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
/* Where a decision is asked, the only event is that a VMA is scanned whoever used it (NUMAB_SKIP_IGNORE_PID). */
#define trace_sched_skip_vma_numa(mm, vma, reason) ((void)(mmtwin_ignores_pid = true))
static __thread bool mmtwin_ignores_pid;
#define rcu_dereference(pointer) (pointer)
#define deref_curr_numa_group(task) ((task)->numa_group)
#define group_faults_shared(group) ((group)->mmtwin_shared)
#define group_faults_priv(group) ((group)->mmtwin_private)
#define refcount_read(count) ((int)*(count))
#define deref_task_numa_group(task) ((task)->numa_group)
#define group_faults(task, nid) ((task)->numa_group ? (task)->numa_group->mmtwin_memory[nid] : 0)
#define group_faults_cpu(group, nid) ((group)->mmtwin_cpu[nid])
#define task_faults(task, nid) ((void)(task), (void)(nid), 0UL)
#define msecs_to_jiffies(ms) ((unsigned long)(ms))
#define jiffies_to_msecs(jiffies) ((unsigned int)(jiffies))
#define MSEC_PER_SEC 1000L

/* A cpupid has eight bits of a PID and thirteen of a CPU; each node has eight CPUs. */
#define LAST__PID_SHIFT 8
#define LAST__PID_MASK 0xff
#define LAST__CPU_SHIFT 13
#define LAST__CPU_MASK 0x1fff
#define LAST_CPUPID_SHIFT 21
#define LAST_CPUPID_MASK 0x1fffff
#define PAGE_ACCESS_TIME_BUCKETS 0
#define cpu_to_node(cpu) ((cpu) / 8)
#define nr_cpu_ids 64
typedef int pid_t;

/* What a page says about its last fault is the state's, whatever the page. */
#define folio_xchg_last_cpupid(folio, cpupid) ((void)(folio), mmtwin_exchange(&mmtwin_last_cpupid, cpupid))
#define page_cpupid_xchg_last(page, cpupid) ((void)(page), mmtwin_exchange(&mmtwin_last_cpupid, cpupid))
#define folio_use_access_time(folio) \
	((void)(folio), (sysctl_numa_balancing_mode & NUMA_BALANCING_MEMORY_TIERING) && !mmtwin_is_toptier)
#define thp_nr_pages(page) ((void)(page), mmtwin_fault_pages)
#define node_is_toptier(nid) ((void)(nid), mmtwin_is_toptier)
#define node_state(nid, state) ((void)(nid), true)
#define pgdat_free_space_enough(pgdat) ((void)(pgdat), mmtwin_free_space_enough)
#define node_page_state(pgdat, item) ((pgdat)->mmtwin_candidates)
#define mod_node_page_state(pgdat, item, count) ((void)((pgdat)->mmtwin_candidates += (count)))
#define NUMA_BALANCING_NORMAL 0x1
#define NUMA_BALANCING_MEMORY_TIERING 0x2

static __thread int mmtwin_last_cpupid;
static __thread int mmtwin_fault_pages;
static __thread bool mmtwin_is_toptier;
static __thread bool mmtwin_free_space_enough;
static __thread int sysctl_numa_balancing_mode;
static __thread unsigned int sysctl_numa_balancing_hot_threshold;
static __thread unsigned int sysctl_numa_balancing_promote_rate_limit;

static inline int mmtwin_exchange(int *word, int value)
{
	int was = *word;

	*word = value;
	return was;
}

enum numa_topology_type { NUMA_DIRECT, NUMA_GLUELESS_MESH, NUMA_BACKPLANE };
enum node_states { N_CPU, NR_NODE_STATES };

static __thread enum numa_topology_type sched_numa_topology_type;
static __thread int sched_max_numa_distance;
static __thread nodemask_t node_states[NR_NODE_STATES];
static __thread unsigned long mmtwin_online_nodes;
static __thread const unsigned int *mmtwin_distances;
static __thread const unsigned long long *mmtwin_levels;

#define LOCAL_DISTANCE 10
#define node_distance(a, b) ((int)mmtwin_distances[(a) * 8 + (b)])
#define find_numa_distance(distance) (mmtwin_levels[(distance) / 64] >> ((distance) % 64) & 1)
#define for_each_node_state(node, state) for_each_node_mask(node, node_states[state])
#define for_each_online_node(node) for_each_node_mask(node, (nodemask_t){ { mmtwin_online_nodes } })
#define memset(to, byte, length) __builtin_memset(to, byte, length)

#endif
