/* Decisions about dirty pages, between mmtwin's record and the kernel's flusher. */

#define MMTWIN_WRITEBACK_DECISION(name) \
	MMTWIN_DECISION(name, mmtwin_writeback) \
	{ \
		struct bdi_writeback mmtwin_wb = { state->avg_write_bandwidth, state->dirty_ratelimit }, *wb = &mmtwin_wb; \
		unsigned long dirty = state->dirty, thresh = state->thresh, bg_thresh = state->bg_thresh; \
		unsigned long setpoint = state->setpoint, limit = state->limit, wb_dirty = state->wb_dirty; \
		unsigned long task_ratelimit = state->task_ratelimit, dirty_ratelimit = state->dirty_ratelimit; \
		long max_pause = state->max_pause; \
		int *nr_dirtied_pause = &state->nr_dirtied_pause; \
		(void)wb, (void)dirty, (void)thresh, (void)bg_thresh, (void)setpoint, (void)limit, (void)wb_dirty; \
		(void)task_ratelimit, (void)dirty_ratelimit, (void)max_pause, (void)nr_dirtied_pause; \
		mmtwin_page_shift = state->page_shift; \
		state->answer = MMTWIN_CALL_##name; \
	}

#ifdef MMTWIN_CALL_dirty_poll_interval
MMTWIN_WRITEBACK_DECISION(dirty_poll_interval)
#endif
#ifdef MMTWIN_CALL_dirty_freerun_ceiling
MMTWIN_WRITEBACK_DECISION(dirty_freerun_ceiling)
#endif
#ifdef MMTWIN_CALL_pos_ratio_polynom
MMTWIN_WRITEBACK_DECISION(pos_ratio_polynom)
#endif
#ifdef MMTWIN_CALL_wb_max_pause
MMTWIN_WRITEBACK_DECISION(wb_max_pause)
#endif
#ifdef MMTWIN_CALL_wb_min_pause
MMTWIN_WRITEBACK_DECISION(wb_min_pause)
#endif
