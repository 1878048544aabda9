#!/usr/bin/env python3
"""Miss counts of libCacheSim, to hold the rulers of `mmtwin mrc` against.

    pip install libcachesim==0.3.5
    python3 data/rulers/count_misses.py > data/rulers/libcachesim.json

The accesses come from whole numbers alone, so that the test (crates/lab/src/rulers/tests/peers.rs) makes the same.
With the path of an oracleGeneral trace and sizes as arguments (`trace.oracleGeneral.bin 100,1000`) that trace is used
instead; compare with `mmtwin mrc TRACE --json`. Objects count as a page each, whatever their size.
"""

import json
import struct
import sys
import tempfile

import libcachesim

ACCESSES = 300_000
PAGES = 20_000
SIZES = [100, 300, 1000, 3000, 10000]
MASK = (1 << 64) - 1


def mix(number):
    """splitmix64."""
    z = (number + 1) * 0x9E3779B97F4A7C15 & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def pages():
    """A skewed set that moves every 100,000 accesses; 2,000 of every 20,000 accesses are a scan."""
    for i in range(ACCESSES):
        if i % 20_000 >= 18_000:
            yield PAGES + (i // 20_000 % 3) * 2_000 + i % 20_000 - 18_000
            continue
        skewed = PAGES
        for part in range(4):
            skewed = skewed * (mix(4 * i + part) >> 32) >> 32
        yield (skewed * 7919 + i // 100_000 * 50) % PAGES


def oracle_general(path):
    with open(path, "wb") as file:
        for time, page in enumerate(pages()):
            file.write(struct.pack("<IQIq", time, page + 1, 1, -1))


def main():
    with tempfile.TemporaryDirectory() as directory:
        path, sizes = directory + "/trace.oracleGeneral.bin", SIZES
        if len(sys.argv) > 1:
            path, sizes = sys.argv[1], [int(size) for size in sys.argv[2].split(",")]
        else:
            oracle_general(path)
        misses = {}
        for name, make in {
            "lru": libcachesim.LRU,
            "clock": libcachesim.Clock,
            "arc": libcachesim.ARC,
            "lirs": libcachesim.LIRS,
            "s3-fifo": libcachesim.S3FIFO,
            "w-tiny-lfu": libcachesim.WTinyLFU,
        }.items():
            misses[name] = []
            for size in sizes:
                params = libcachesim.ReaderInitParam(ignore_obj_size=True)
                reader = libcachesim.TraceReader(path, libcachesim.TraceType.ORACLE_GENERAL_TRACE, params)
                ratio, _ = make(size).process_trace(reader)
                misses[name].append(round(ratio * reader.get_num_of_req()))
        print(json.dumps({"sizes": sizes, "misses": misses}, indent=1))


if __name__ == "__main__":
    main()
