#!/usr/bin/env python3
"""Makes recorded mappings, such as data/speedometer.mappings.zst, of what perf recorded of a program and its children;
docs/src/workloads/speedometer.md says how.

    perf script -F pid,tid,time,event,trace | python3 data/mappings.py PROGRAM | zstd -19 > NAME.mappings.zst
"""
import csv
import re
import sys

PAGE = 4096
LINE = re.compile(r"\s*(\d+)/(\d+)\s+([\d.]+):\s+(\S+):\s?(.*)$")
PROGRAM = sys.argv[1]
ADVICE = {4: "dontneed", 14: "hugepage", 15: "nohugepage"}
MAP_SHARED, MAP_ANONYMOUS = 0x01, 0x20


def events(lines):
    found = [match.groups() for match in map(LINE.match, lines) if match]
    found = [(float(time), int(pid), int(tid), event.split(":")[1], rest) for pid, tid, time, event, rest in found]
    return sorted(found, key=lambda event: event[0])


def pages(length):
    return -(-length // PAGE)


class Recording:
    def __init__(self):
        self.rows, self.numbers, self.last_page, self.last_ms = [], {}, {}, 0
        self.pending, self.heap_end = {}, {}

    def number(self, pid, page=0):
        self.last_page.setdefault(pid, page)
        return self.numbers.setdefault(pid, len(self.numbers))

    def add(self, ms, pid, operation, page, count, rights=""):
        number = self.number(pid)
        same = self.rows and self.rows[-1][1:3] == [number, operation]
        if operation in ("load", "store") and same and page == self.last_page[pid] + self.rows[-1][4]:
            self.rows[-1][4] += 1
            return
        self.rows.append([ms - self.last_ms, number, operation, page - self.last_page[pid], count, rights])
        self.last_ms, self.last_page[pid] = ms, page

    def here(self, ms, pid, operation, count=0):
        self.number(pid)
        self.add(ms, pid, operation, self.last_page[pid], count)

    def heap(self, ms, pid, end):
        before = self.heap_end.get(pid)
        if before is not None and end > before:
            self.add(ms, pid, "map-anon", before, end - before, 3)
        elif before is not None and end < before:
            self.add(ms, pid, "unmap", end, before - end)
        self.heap_end[pid] = end

    def event(self, ms, pid, tid, name, rest):
        values = {key: int(value, 16) for key, value in re.findall(r"(\w+): (0x[0-9a-f]+)", rest)}
        if name == "page_fault_user":
            address, error = re.search(r"address=(\w+) .*error_code=(\w+)", rest).groups()
            self.add(ms, pid, "store" if int(error, 16) & 2 else "load", int(address, 16) // PAGE, 1)
        elif name in ("sys_enter_mmap", "sys_enter_brk"):
            self.pending[tid] = values
        elif name == "sys_exit_mmap" and tid in self.pending and int(rest, 16) < 1 << 63:
            asked = self.pending.pop(tid)
            shared, anonymous = asked["flags"] & MAP_SHARED, asked["flags"] & MAP_ANONYMOUS
            kind = "shared" if shared else "anon" if anonymous else "file"
            self.add(ms, pid, "map-" + kind, int(rest, 16) // PAGE, pages(asked["len"]), asked["prot"] & 7)
        elif name == "sys_exit_brk":
            self.heap(ms, pid, pages(int(rest, 16)))
        elif name == "sys_enter_munmap":
            self.add(ms, pid, "unmap", values["addr"] // PAGE, pages(values["len"]))
        elif name == "sys_enter_mprotect":
            self.add(ms, pid, "protect", values["start"] // PAGE, pages(values["len"]), values["prot"] & 7)
        elif name == "sys_enter_madvise" and values["behavior"] in ADVICE:
            self.add(ms, pid, ADVICE[values["behavior"]], values["start"] // PAGE, pages(values["len_in"]))
        elif name == "sched_process_exec":
            self.here(ms, pid, "exec")
        elif name == "sched_process_exit" and tid == pid:
            self.here(ms, pid, "exit")


def main():
    recorded = events(sys.stdin)
    processes = {pid for _, pid, _, _, _ in recorded}
    recording, family, begin = Recording(), set(), None
    for time, pid, tid, name, rest in recorded:
        if begin is None and name == "sched_process_exec" and f"filename={PROGRAM} " in rest + " ":
            family, begin = {pid}, time
        if pid not in family:
            continue
        ms = round(1000 * (time - begin))
        child = int(re.search(r"child_pid=(\d+)", rest)[1]) if name == "sched_process_fork" else None
        if child is None:
            recording.event(ms, pid, tid, name, rest)
        elif child in processes:
            family.add(child)
            recording.number(pid)
            recording.here(ms, pid, "fork", recording.number(child))
            recording.last_page[child] = recording.last_page[pid]
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["ms", "process", "operation", "page", "pages", "rights"])
    out.writerows(recording.rows)


main()
