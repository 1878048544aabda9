#!/usr/bin/env python3
"""Turns the kernel's block tracepoints into blktrace's binary files, for blkparse to print.

For machines on which blktrace itself may not open debugfs. Reads the text of a trace instance with
block:block_bio_queue, block_rq_issue and block_rq_complete of one device (7,0); writes bt.blktrace.CPU:

    python3 blktrace.py < trace.txt && blkparse -i bt > blkparse.txt
"""

import collections
import re
import struct
import sys

EVENTS = {"block_bio_queue": (1, 4), "block_rq_issue": (7, 6), "block_rq_complete": (8, 7)}
KINDS = {"R": 1 << 0, "W": 1 << 1, "D": 1 << 1 | 1 << 13, "F": 1 << 1 | 1 << 2, "N": 0}
FLAGS = {"S": 1 << 3, "A": 1 << 11, "M": 1 << 12}
LINE = re.compile(r"\s*(.+)-(\d+)\s+\[(\d+)\]\s+\S+\s+(\d+)\.(\d+): (\w+): 7,0 (\w+) .*?(\d+) \+ (\d+) ")

files, sequence, named, origin = collections.defaultdict(bytes), collections.Counter(), set(), None


def record(cpu, time, sector, sectors, action, pid, data=b""):
    sequence[cpu] += 1
    head = (0x65617407, sequence[cpu], time, sector, sectors * 512, action, pid, 7 << 20, cpu, 0, len(data))
    files[cpu] += struct.pack("<IIQQIIIIIHH", *head) + data


for line in sys.stdin:
    match = LINE.match(line)
    if not match:
        continue
    name, pid, cpu, second, microsecond, event, rwbs, sector, sectors = match.groups()
    cpu, pid, time = int(cpu), int(pid), int(second) * 10**9 + int(microsecond) * 1000
    origin = time if origin is None else origin
    if pid not in named:
        named.add(pid)
        record(cpu, time - origin, 0, 0, 1 << 26, pid, name.encode()[:15] + b"\0")
    number, category = EVENTS[event]
    category = 1 << category
    if rwbs[0] == "F" and rwbs[1] in "RWDF":
        category, rwbs = category | 1 << 2, rwbs[1:]
    category |= KINDS[rwbs[0]] | sum(FLAGS.get(flag, 0) for flag in set(rwbs[1:]))
    record(cpu, time - origin, int(sector), int(sectors), number | category << 16, pid)

for cpu, records in files.items():
    open(f"bt.blktrace.{cpu}", "wb").write(records)
