/*
 * What decision functions of a kernel tree find instead of the kernel's headers: its primitives as plain C.
 *
 * A name that is here is never taken from the tree, so what a decision does outside itself (locks, lists, statistics) is
 * nothing here, and what it calls that moves pages is written down by the header of its mechanism. State that the kernel has
 * in variables is thread-local, as several runs decide at once.
 */
#ifndef MMTWIN_H
#define MMTWIN_H

typedef unsigned char u8, __u8;
typedef unsigned short u16, __u16;
typedef unsigned int u32, __u32;
typedef unsigned long long u64, __u64;
typedef signed char s8, __s8;
typedef short s16, __s16;
typedef int s32, __s32;
typedef long long s64, __s64;
typedef _Bool bool;
typedef unsigned long size_t;
typedef long ssize_t;
typedef unsigned int gfp_t;
typedef long long loff_t;
typedef unsigned long pgoff_t;

#define true 1
#define false 0
#define NULL ((void *)0)

/* Annotations, which say nothing to a compiler of programs. */
#define __init
#define __meminit
#define __ref
#define __sched
#define __cold
#define __user
#define __force
#define __bitwise
#define __read_mostly
#define __ro_after_init
#define __must_check
#define __maybe_unused __attribute__((unused))
#define __always_unused __attribute__((unused))
#define __always_inline inline
#define __inline inline
#define noinline
#define noinline_for_stack
#define fallthrough __attribute__((fallthrough))

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define READ_ONCE(variable) (*(const volatile __typeof__(variable) *)&(variable))
#define WRITE_ONCE(variable, value) (*(volatile __typeof__(variable) *)&(variable) = (value))
#define data_race(expression) (expression)
#define barrier() __atomic_signal_fence(__ATOMIC_SEQ_CST)

#define VM_BUG_ON(condition) ((void)(condition))
#define BUG_ON(condition) ((void)(condition))
#define BUG() __builtin_trap()
#define BUILD_BUG_ON(condition) ((void)0)
#define VM_WARN_ON(condition) ((void)(condition))
#define VM_WARN_ON_ONCE(condition) (!!(condition))
#define VM_WARN_ON_ONCE_FOLIO(condition, folio) (!!(condition))
#define WARN_ON(condition) (!!(condition))
#define WARN_ON_ONCE(condition) (!!(condition))
#define lockdep_assert_held(lock) ((void)0)

/* Nobody else is there while a decision is made. */
#define spin_lock(lock) ((void)0)
#define spin_unlock(lock) ((void)0)
#define spin_lock_irqsave(lock, flags) ((void)0)
#define spin_unlock_irqrestore(lock, flags) ((void)0)
#define spin_lock_irq(lock) ((void)0)
#define spin_unlock_irq(lock) ((void)0)
#define rcu_read_lock() ((void)0)
#define rcu_read_unlock() ((void)0)
#define cond_resched() ((void)0)

/* What a decision prints while somebody looks for a mistake is nothing here. */
#define printk(...) ((void)0)
#define printk_once(...) ((void)0)
#define printk_ratelimited(...) ((void)0)
#define trace_printk(...) ((void)0)
#define pr_err(...) ((void)0)
#define pr_warn(...) ((void)0)
#define pr_notice(...) ((void)0)
#define pr_info(...) ((void)0)
#define pr_debug(...) ((void)0)
#define pr_warn_once(...) ((void)0)
#define pr_info_once(...) ((void)0)
#define pr_warn_ratelimited(...) ((void)0)
#define pr_info_ratelimited(...) ((void)0)
#define dump_stack() ((void)0)

/* Comparisons as of 6.10 and of the stable releases since; where bounds cross, the upper one is asked first. */
#define min(x, y) ({ __typeof__(x) mmtwin_x = (x); __typeof__(y) mmtwin_y = (y); mmtwin_x < mmtwin_y ? mmtwin_x : mmtwin_y; })
#define max(x, y) ({ __typeof__(x) mmtwin_x = (x); __typeof__(y) mmtwin_y = (y); mmtwin_x > mmtwin_y ? mmtwin_x : mmtwin_y; })
#define min_t(type, x, y) ({ type mmtwin_tx = (x); type mmtwin_ty = (y); mmtwin_tx < mmtwin_ty ? mmtwin_tx : mmtwin_ty; })
#define max_t(type, x, y) ({ type mmtwin_tx = (x); type mmtwin_ty = (y); mmtwin_tx > mmtwin_ty ? mmtwin_tx : mmtwin_ty; })
#define min3(x, y, z) ({ __auto_type mmtwin_xy = min(x, y); __typeof__(z) mmtwin_z = (z); mmtwin_xy < mmtwin_z ? mmtwin_xy : mmtwin_z; })
#define max3(x, y, z) ({ __auto_type mmtwin_xy = max(x, y); __typeof__(z) mmtwin_z = (z); mmtwin_xy > mmtwin_z ? mmtwin_xy : mmtwin_z; })
#define clamp(value, low, high) ({ __typeof__(value) mmtwin_v = (value); __typeof__(low) mmtwin_l = (low); \
	__typeof__(high) mmtwin_h = (high); mmtwin_v >= mmtwin_h ? mmtwin_h : mmtwin_v <= mmtwin_l ? mmtwin_l : mmtwin_v; })
#define clamp_t(type, value, low, high) ({ type mmtwin_v = (value); type mmtwin_l = (low); type mmtwin_h = (high); \
	mmtwin_v >= mmtwin_h ? mmtwin_h : mmtwin_v <= mmtwin_l ? mmtwin_l : mmtwin_v; })
#define clamp_val(value, low, high) clamp_t(__typeof__(value), value, low, high)
#define swap(a, b) do { __typeof__(a) mmtwin_a = (a); (a) = (b); (b) = mmtwin_a; } while (0)
#define abs(x) ({ __typeof__(x) mmtwin_x = (x); mmtwin_x < 0 ? -mmtwin_x : mmtwin_x; })

#define BITS_PER_LONG 64
#define BIT(number) (1UL << (number))
#define BIT_ULL(number) (1ULL << (number))
#define GENMASK(most, least) ((~0UL >> (BITS_PER_LONG - 1 - (most))) & (~0UL << (least)))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define offsetof(type, member) __builtin_offsetof(type, member)
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))
#define DIV_ROUND_UP(a, b) (((a) + (b) - 1) / (b))
#define DIV_ROUND_CLOSEST(a, b) (((a) + (b) / 2) / (b))
#define round_up(a, b) ((((a) - 1) | ((__typeof__(a))((b) - 1))) + 1)
#define round_down(a, b) ((a) & ~((__typeof__(a))((b) - 1)))
#define ALIGN(a, b) round_up(a, (__typeof__(a))(b))
#define ALIGN_DOWN(a, b) round_down(a, b)

#define INT_MAX 0x7fffffff
#define UINT_MAX (~0U)
#define LONG_MAX ((long)(~0UL >> 1))
#define ULONG_MAX (~0UL)
#define U64_MAX (~0ULL)
#define SZ_1M 0x100000

static inline bool test_bit(long number, const unsigned long *words)
{
	return words[number / BITS_PER_LONG] >> (number % BITS_PER_LONG) & 1;
}

static inline void set_bit(long number, unsigned long *words)
{
	words[number / BITS_PER_LONG] |= BIT(number % BITS_PER_LONG);
}

static inline void clear_bit(long number, unsigned long *words)
{
	words[number / BITS_PER_LONG] &= ~BIT(number % BITS_PER_LONG);
}

static inline bool test_and_set_bit(long number, unsigned long *words)
{
	bool was = test_bit(number, words);

	set_bit(number, words);
	return was;
}

static inline bool test_and_clear_bit(long number, unsigned long *words)
{
	bool was = test_bit(number, words);

	clear_bit(number, words);
	return was;
}

#define __set_bit(number, words) set_bit(number, words)
#define __clear_bit(number, words) clear_bit(number, words)

static inline int fls(unsigned int bits)
{
	return bits ? 32 - __builtin_clz(bits) : 0;
}

static inline int fls64(u64 bits)
{
	return bits ? 64 - __builtin_clzll(bits) : 0;
}

#define fls_long(bits) fls64(bits)
#define __fls(bits) ((unsigned long)(63 - __builtin_clzl(bits)))
#define __ffs(bits) ((unsigned long)__builtin_ctzl(bits))
#define ilog2(bits) (fls64(bits) - 1)
#define order_base_2(number) ((number) > 1 ? fls64((u64)(number) - 1) : 0)
#define rounddown_pow_of_two(number) (1UL << ilog2((unsigned long)(number)))
#define roundup_pow_of_two(number) ((number) == 1 ? 1UL : 1UL << fls64((unsigned long)(number) - 1))
#define is_power_of_2(number) ((number) != 0 && ((number) & ((number) - 1)) == 0)
#define hweight_long(bits) ((unsigned int)__builtin_popcountl(bits))
#define hweight32(bits) ((unsigned int)__builtin_popcount(bits))

static inline unsigned long int_sqrt(unsigned long number)
{
	unsigned long root = 0, bit;

	for (bit = 1UL << 31; bit; bit >>= 1)
		if ((root | bit) * (root | bit) <= number)
			root |= bit;
	return root;
}

#define div64_s64(a, b) ((s64)(a) / (s64)(b))
#define div_u64(a, b) ((u64)(a) / (u32)(b))
#define div64_u64(a, b) ((u64)(a) / (u64)(b))
#define DIV64_U64_ROUND_UP(a, b) ({ u64 mmtwin_d = (b); ((u64)(a) + mmtwin_d - 1) / mmtwin_d; })
#define div64_ul(a, b) ((u64)(a) / (unsigned long)(b))
#define do_div(a, b) ({ u32 mmtwin_b = (b); u32 mmtwin_rest = (a) % mmtwin_b; (a) /= mmtwin_b; mmtwin_rest; })
#define mult_frac(number, times, parts) ({ __typeof__(parts) mmtwin_p = (parts); __typeof__(times) mmtwin_t = (times); \
	__typeof__(number) mmtwin_n = (number); mmtwin_n / mmtwin_p * mmtwin_t + mmtwin_n % mmtwin_p * mmtwin_t / mmtwin_p; })

typedef struct { int counter; } atomic_t;
typedef struct { long counter; } atomic_long_t;
typedef struct { int unused; } spinlock_t;
#define atomic_read(atomic) READ_ONCE((atomic)->counter)
#define atomic_long_read(atomic) READ_ONCE((atomic)->counter)
#define atomic_long_set(atomic, value) WRITE_ONCE((atomic)->counter, value)
#define atomic_long_add(value, atomic) ((void)((atomic)->counter += (value)))
#define atomic_long_inc(atomic) ((void)((atomic)->counter++))
#define atomic_long_inc_return(atomic) (++(atomic)->counter)

#define cmpxchg(word, old, new) ({ __typeof__(word) mmtwin_w = (word); __typeof__(*mmtwin_w) mmtwin_was = *mmtwin_w; \
	if (mmtwin_was == (old)) *mmtwin_w = (new); mmtwin_was; })
#define try_cmpxchg(word, old, new) ({ __typeof__(old) mmtwin_o = (old); __typeof__(*mmtwin_o) mmtwin_old = *mmtwin_o; \
	*mmtwin_o = cmpxchg(word, mmtwin_old, new); *mmtwin_o == mmtwin_old; })
#define set_mask_bits(word, mask, bits) ({ __typeof__(word) mmtwin_m = (word); __typeof__(*mmtwin_m) mmtwin_before = *mmtwin_m; \
	*mmtwin_m = (mmtwin_before & ~(mask)) | (bits); mmtwin_before; })

struct list_head {
	struct list_head *next, *prev;
};

#define list_add(entry, head) ((void)0)
#define list_add_tail(entry, head) ((void)0)
#define list_del(entry) ((void)0)

/* Up to 64 nodes. */
#define MAX_NUMNODES 64

typedef struct { unsigned long bits[1]; } nodemask_t;

#define NUMA_NO_NODE (-1)
#define NODE_MASK_NONE ((nodemask_t){ { 0 } })
#define nodes_clear(mask) ((void)((mask).bits[0] = 0))
#define node_set(node, mask) ((void)((mask).bits[0] |= BIT(node)))
#define node_clear(node, mask) ((void)((mask).bits[0] &= ~BIT(node)))
#define for_each_node_mask(node, mask) \
	for ((node) = mmtwin_next_node(-1, (mask).bits[0]); (node) < MAX_NUMNODES; (node) = mmtwin_next_node(node, (mask).bits[0]))
#define node_isset(node, mask) ((mask).bits[0] >> (node) & 1)
#define next_node_in(node, mask) mmtwin_next_node_in(node, (mask).bits[0])

/* The first node of a mask above one. */
static inline int mmtwin_next_node(int node, unsigned long mask)
{
	unsigned long above = node >= MAX_NUMNODES - 1 ? 0 : mask & (~0UL << (node + 1));

	return above ? (int)__ffs(above) : MAX_NUMNODES;
}

/* The first node of a mask above one, or the first of all. */
static inline int mmtwin_next_node_in(int node, unsigned long mask)
{
	int next = mmtwin_next_node(node, mask);

	return next < MAX_NUMNODES ? next : mmtwin_next_node(-1, mask);
}

/* An option of the configuration that is y is defined as 1, and only then does the probe have a second part. */
#define MMTWIN_PROBE_1 0, 1
#define MMTWIN_SECOND(first, second, ...) second
#define MMTWIN_ASK(probe) MMTWIN_SECOND(probe, 0, 0)
#define MMTWIN_PASTE(value) MMTWIN_ASK(MMTWIN_PROBE_##value)
#define IS_ENABLED(option) MMTWIN_PASTE(option)
#define IS_BUILTIN(option) MMTWIN_PASTE(option)

/* How large a page is, is the simulated machine's. */
static __thread int mmtwin_page_shift;
#define PAGE_SHIFT (mmtwin_page_shift)
#define PAGE_SIZE (1UL << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))

#define PAGE_ALLOC_COSTLY_ORDER 3
#define __GFP_IO 0x40U
#define SWAP_CLUSTER_MAX 32UL

#define MMTWIN_EXPORT __attribute__((visibility("default")))
/* A decision as mmtwin calls it, and how large the record is that goes through it. */
#define MMTWIN_DECISION(name, record) \
	MMTWIN_EXPORT const unsigned long mmtwin_size_of_##name = sizeof(struct record); \
	static void mmtwin_make_##name(struct record *state); \
	MMTWIN_EXPORT void mmtwin_decide_##name(struct record *state); \
	void mmtwin_decide_##name(struct record *state) \
	{ \
		struct mmtwin_note *note = mmtwin_note; \
		if (note) { \
			note->number = MMTWIN_NUMBER_##name; \
			note->asked[MMTWIN_NUMBER_##name]++; \
			*(struct record *)note->state = *state; \
			*(volatile unsigned long *)&note->sequence += 1; \
		} \
		mmtwin_make_##name(state); \
		if (note) \
			*(volatile unsigned long *)&note->sequence += 1; \
	} \
	static void mmtwin_make_##name(struct record *state)

/*
 * What was asked last, in memory that another process shares: it tells what a decision that crashed or does not end was asked. While
 * one is being made, sequence is odd. How often each was asked is counted. Nobody watches while the pointer is null.
 */
struct mmtwin_note {
	unsigned long sequence;
	unsigned long number;
	unsigned long asked[MMTWIN_NOTE_DECISIONS];
	unsigned long long state[MMTWIN_NOTE_WORDS];
};
MMTWIN_EXPORT struct mmtwin_note *mmtwin_note;
MMTWIN_EXPORT const unsigned long mmtwin_size_of_note = sizeof(struct mmtwin_note);

#endif
