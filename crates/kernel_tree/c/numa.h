/* NUMA balancing: what is known of a task whose memory is scanned. */
#ifndef MMTWIN_NUMA_H
#define MMTWIN_NUMA_H

struct mm_struct {
	unsigned long flags;
	unsigned long numa_next_scan;
	unsigned long numa_scan_offset;
	int numa_scan_seq;
	unsigned long mmtwin_rss;
	/* In the order of addresses. */
	struct vm_area_struct *mmtwin_vmas;
	int mmtwin_nr_vmas;
	int mm_mt;
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
	unsigned long next_scan;
	unsigned long pids_active_reset;
	unsigned long pids_active[2];
	int start_scan_seq;
	int prev_scan_seq;
};

struct callback_head {
	struct callback_head *next;
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct task_struct {
	struct mm_struct *mm;
	struct sched_entity se;
	unsigned int flags;
	u64 node_stamp;
	struct callback_head numa_work;
	int pid;
	int mmtwin_threads;
	int numa_scan_seq;
	int numa_preferred_nid;
	unsigned int numa_scan_period;
	unsigned int numa_scan_period_max;
	unsigned long numa_faults_locality[3];
	struct numa_group *numa_group;
};

static __thread unsigned int sysctl_numa_balancing_scan_delay;
static __thread unsigned int sysctl_numa_balancing_scan_size;
static __thread unsigned int sysctl_numa_balancing_scan_period_min;
static __thread unsigned int sysctl_numa_balancing_scan_period_max;
static __thread unsigned long jiffies;

#define get_mm_rss(mm) ((mm)->mmtwin_rss)
static __thread struct task_struct *mmtwin_current;

#define current (mmtwin_current)
#define get_nr_threads(task) ((task)->mmtwin_threads)
#define hash_32(value, bits) ((u32)(value) * 0x61C88647U >> (32 - (bits)))
enum numa_vmaskip_reason {
	NUMAB_SKIP_UNSUITABLE,
	NUMAB_SKIP_SHARED_RO,
	NUMAB_SKIP_INACCESSIBLE,
	NUMAB_SKIP_SCAN_DELAY,
	NUMAB_SKIP_PID_INACTIVE,
	NUMAB_SKIP_IGNORE_PID,
	NUMAB_SKIP_SEQ_COMPLETED,
};
#define trace_sched_skip_vma_numa(mm, vma, reason) ((void)((vma)->mmtwin_skipped |= BIT(reason)))
#define rcu_dereference(pointer) (pointer)
#define deref_curr_numa_group(task) ((task)->numa_group)
#define group_faults_shared(group) ((group)->mmtwin_shared)
#define group_faults_priv(group) ((group)->mmtwin_private)
#define refcount_read(count) ((int)*(count))
#define deref_task_numa_group(task) ((task)->numa_group)
#define group_faults(task, nid) ((task)->numa_group ? (task)->numa_group->mmtwin_memory[nid] : 0)
#define group_faults_cpu(group, nid) ((group)->mmtwin_cpu[nid])
#define task_faults(task, nid) ((void)(task), (void)(nid), 0UL)
/* Jiffies of 4 ms, as the twin's. What asks for milliseconds is told the time in them. */
#define TICK_NSEC 4000000
#define msecs_to_jiffies(ms) (((unsigned long)(ms) + 3) / 4)
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

#define SCHED_WARN_ON(condition) (!!(condition))
#define PF_EXITING 0x4
#define HPAGE_SIZE 0x200000UL
#define time_before(a, b) ((long)((a) - (b)) < 0)
#define time_after(a, b) time_before(b, a)
#define mmap_read_trylock(mm) ((void)(mm), true)
#define mmap_read_unlock(mm) ((void)(mm))

#define VM_READ 0x1
#define VM_WRITE 0x2
#define VM_HUGETLB 0x400000
#define VM_MIXEDMAP 0x10000000
#define vma_migratable(vma) ((vma)->mmtwin_migratable)
#define vma_policy_mof(vma) ((vma)->mmtwin_migrates_on_fault)
#define is_vm_hugetlb_page(vma) (((vma)->vm_flags & VM_HUGETLB) != 0)
#define vma_is_accessible(vma) (((vma)->vm_flags & (VM_READ | VM_WRITE | VM_EXEC)) != 0)

/* The states that a pass makes for VMAs, and which of its requests for one fail. */
static __thread struct vma_numab_state *mmtwin_new_states;
static __thread unsigned int mmtwin_failing_requests;

#define GFP_KERNEL 0xcc0U
#define kzalloc(size, flags) ((void)(size), mmtwin_new_state())
#define kfree(pointer) ((void)(pointer))

static inline struct vma_numab_state *mmtwin_new_state(void)
{
	bool fails = mmtwin_failing_requests & 1;

	mmtwin_failing_requests >>= 1;
	return fails ? NULL : mmtwin_new_states++;
}

/* A walk through VMAs, which 6.1 makes in the maple tree itself. */
struct vma_iterator {
	struct mm_struct *mmtwin_mm;
	unsigned long mmtwin_at;
};
#define vma_iter_init(iterator, mm, address) ((void)(*(iterator) = (struct vma_iterator){ mm, address }))
#define vma_iter_set(iterator, address) ((void)((iterator)->mmtwin_at = (address)))
#define ma_state vma_iterator
#define MA_STATE(name, tree, first, last) struct ma_state name = { container_of(tree, struct mm_struct, mm_mt), first }
#define mas_set(mas, address) vma_iter_set(mas, address)
#define mas_find(mas, last) vma_next(mas)

static inline struct vm_area_struct *vma_next(struct vma_iterator *iterator)
{
	struct mm_struct *mm = iterator->mmtwin_mm;
	int at;

	for (at = 0; at < mm->mmtwin_nr_vmas; at++)
		if (mm->mmtwin_vmas[at].vm_end > iterator->mmtwin_at) {
			iterator->mmtwin_at = mm->mmtwin_vmas[at].vm_end;
			return &mm->mmtwin_vmas[at];
		}
	return NULL;
}

/* Noted instead of done; what changes is the state's. */
static inline unsigned long change_prot_numa(struct vm_area_struct *vma, unsigned long start, unsigned long end)
{
	vma->mmtwin_ranges++;
	vma->mmtwin_scanned += end - start;
	return start < vma->mmtwin_populated_to;
}

#endif
