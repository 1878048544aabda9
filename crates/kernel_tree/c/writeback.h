/* Dirty pages: what a flusher knows of its device. */
#ifndef MMTWIN_WRITEBACK_H
#define MMTWIN_WRITEBACK_H

#define HZ 250

struct bdi_writeback {
	unsigned long avg_write_bandwidth;
	unsigned long dirty_ratelimit;
};

#endif
