"""Replays an oracleGeneral trace under policies of libCacheSim, one for each line of input.

Answers with misses and seconds of CPU. Every object is a page: sizes are ignored.
"""

import sys
import time

import libcachesim

trace, memory, accesses = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for line in sys.stdin:
    reader = libcachesim.TraceReader(
        trace=trace,
        trace_type=libcachesim.TraceType.ORACLE_GENERAL_TRACE,
        reader_init_params=libcachesim.ReaderInitParam(ignore_obj_size=True),
    )
    cache = getattr(libcachesim, line.strip())(cache_size=memory)
    began = time.process_time()
    miss_ratio, _ = cache.process_trace(reader)
    print(round(miss_ratio * accesses), time.process_time() - began, flush=True)
