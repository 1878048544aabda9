// Samples which thread of a program uses which page, without counters of the processor.
//
//   malloc, calloc, ... ─► one mapping of a memfd ◄─ every EVERY_MS, MADV_DONTNEED on STEP pages
//   a thread comes to a page that is not mapped ─► userfaultfd ─► page mapped; time, thread, address, write
//
// Pages keep their contents in the memfd, so the program goes on as it would. What is sampled is the first
// use of a page after each time that it was taken away: at most one use of each page in a round, as with hint
// faults of NUMA balancing. System calls that use the program's memory are sampled as well. Stacks, libraries
// and other mappings are not.
//
//   gcc -O2 -shared -fPIC -o samples.so samples.c -pthread
//   SAMPLES=out.csv EVERY_MS=10 STEP=256 LD_PRELOAD=./samples.so COMMAND     as root, Linux 5.14 or newer

#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul
#define SIZE (4ul << 30)
#define LARGE (128ul << 10)
#define MOST 65536

struct use {
	uint64_t time, address;
	uint32_t thread, write;
};

static char *heap;
static atomic_ulong used;
static struct use uses[MOST];
static unsigned long seen;
static int fd = -1;
static unsigned long every, step;

// Memory is handed out in order and only the last allocation can grow; what is freed is not used again.
static void *take(size_t align, size_t size)
{
	unsigned long from, to;

	if (!heap) {
		int memory = syscall(SYS_memfd_create, "heap", 0);

		if (memory < 0 || ftruncate(memory, SIZE))
			abort();
		heap = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory, 0);
		close(memory);
	}
	if (size >= LARGE && align < PAGE)
		align = PAGE;
	if (align < 16)
		align = 16;
	from = atomic_load(&used);
	do {
		to = ((from + 16 + align - 1) & ~(align - 1)) + size;
	} while (!atomic_compare_exchange_weak(&used, &from, to));
	if (to > SIZE)
		abort();
	((size_t *)(heap + to - size))[-1] = size;
	return heap + to - size;
}

void *malloc(size_t size) { return take(16, size); }
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t size) { return take(16, n * size); }
void *memalign(size_t align, size_t size) { return take(align, size); }
void *aligned_alloc(size_t align, size_t size) { return take(align, size); }
int posix_memalign(void **p, size_t align, size_t size) { *p = take(align, size); return 0; }
void *realloc(void *p, size_t size)
{
	size_t before = p ? ((size_t *)p)[-1] : 0;
	void *q;

	if (size <= before)
		return p;
	q = take(16, size);
	if (before)
		memcpy(q, p, before);
	return q;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

// Neither of the two threads below may use the heap.
static void *sample(void *unused)
{
	static struct uffd_msg m;

	while (read(fd, &m, sizeof m) == sizeof m) {
		unsigned long page = m.arg.pagefault.address & ~(PAGE - 1);
		struct uffdio_continue again = { .range = { page, PAGE } };
		struct uffdio_zeropage fresh = { .range = { page, PAGE } };

		if (m.event != UFFD_EVENT_PAGEFAULT)
			continue;
		if (seen < MOST)
			uses[seen] = (struct use){ now(), m.arg.pagefault.address, m.arg.pagefault.feat.ptid,
				!!(m.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WRITE) };
		seen++;
		if (m.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_MINOR)
			ioctl(fd, UFFDIO_CONTINUE, &again);
		else
			ioctl(fd, UFFDIO_ZEROPAGE, &fresh);
		// Another thread may have come to the same page.
		ioctl(fd, UFFDIO_WAKE, &again.range);
	}
	return unused;
}

static void *take_away(void *unused)
{
	unsigned long at = 0;

	for (;;) {
		unsigned long all = atomic_load(&used) / PAGE, pages = step;

		usleep(every * 1000);
		if (at >= all)
			at = 0;
		if (pages > all - at)
			pages = all - at;
		madvise(heap + at * PAGE, pages * PAGE, MADV_DONTNEED);
		at += pages;
	}
	return unused;
}

static const char *setting(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value ? value : otherwise;
}

__attribute__((constructor)) static void begin(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_THREAD_ID | UFFD_FEATURE_MINOR_SHMEM };
	struct uffdio_register all = { .mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR };
	pthread_t thread;

	every = atol(setting("EVERY_MS", "10"));
	step = atol(setting("STEP", "256"));
	take(16, 16);
	all.range = (struct uffdio_range){ (unsigned long)heap, SIZE };
	fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		abort();
	// Both need memory from the heap to start, so they start before it is watched.
	if (pthread_create(&thread, NULL, sample, NULL) || pthread_create(&thread, NULL, take_away, NULL))
		abort();
	if (ioctl(fd, UFFDIO_REGISTER, &all))
		abort();
}

__attribute__((destructor)) static void end(void)
{
	unsigned long count = seen < MOST ? seen : MOST;
	int out = open(setting("SAMPLES", "samples.csv"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
	static char line[128];

	// Not with dprintf, which uses the heap.
	for (unsigned long i = 0; i <= count; i++) {
		const struct use *use = &uses[i - 1];
		int length = !i ? sprintf(line, "time_ns,pid,tid,address,write\n") :
			sprintf(line, "%llu,%d,%u,0x%llx,%u\n", (unsigned long long)(use->time - uses[0].time),
				getpid(), use->thread, (unsigned long long)use->address, use->write);

		if (write(out, line, length) != length)
			abort();
	}
	if (seen > MOST)
		fputs("samples: some are lost, take fewer pages away\n", stderr);
}
