#!/usr/bin/env python3
"""Writes cachelib-block.oracleGeneral: libCacheSim's own conversion of cachelib-block.csv.

Needs `pip install libcachesim` (0.3.5 was used). Run in this directory.
"""

import libcachesim
from libcachesim import libcachesim_python

columns = libcachesim.ReaderInitParam(
    has_header=True, has_header_set=True, delimiter=",", obj_id_is_num=False, obj_id_is_num_set=True
)
columns.time_field, columns.obj_id_field, columns.obj_size_field = 1, 2, 4
reader = libcachesim.TraceReader("cachelib-block.csv", libcachesim.TraceType.CSV_TRACE, columns)
libcachesim_python.convert_to_oracleGeneral(reader._reader, "cachelib-block.oracleGeneral", False, False)
