/* Readahead: what an open file remembers. */
#ifndef MMTWIN_READAHEAD_H
#define MMTWIN_READAHEAD_H

struct file_ra_state {
	unsigned int size;
};

#endif
