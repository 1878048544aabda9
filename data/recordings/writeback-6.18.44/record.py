#!/usr/bin/env python3
"""Records how a kernel holds back those who write files: needs root, tracefs, FUSE, a free loop device and zstd.

    record.py CASE...      writes CASE.trace.zst into the directory that it is in

A file of a FUSE file system that takes a fixed number of bytes a second is the disk; ext4 without a journal is on it, through
a loop device. Writers overwrite files of their own, a MiB at a time, for a while. vm.dirty_* are set for that long and
restored.
"""

import ctypes
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
DISK = 1 << 30

# name: MiB a second of the disk, seconds, MiB of each writer's file, writers, [(second, vm.dirty_bytes in MiB)]
CASES = {
    "one-writer": (40, 12, 400, 1, [(0, 64)]),
    "two-writers": (40, 15, 400, 2, [(0, 64)]),
    "eight-writers": (20, 15, 80, 8, [(0, 96)]),
    "limit-changes": (60, 20, 300, 2, [(0, 200), (7, 64), (13, 160)]),
    "fast-disk": (1500, 8, 300, 2, [(0, 128)]),
}
EVENTS = [
    "balance_dirty_pages", "bdi_dirty_ratelimit", "global_dirty_state", "writeback_start", "writeback_written",
    "writeback_single_inode", "writeback_queue_io",
]


def attributes(inode):
    """struct fuse_attr of the root (inode 1) or of the file "disk"."""
    size, mode = (0, 0o40755) if inode == 1 else (DISK, 0o100600)
    return struct.pack("<QQQQQQIIIIIIIIII", inode, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def serve(fuse, bytes_a_second):
    """Answers the kernel's FUSE requests: one file, whose writes take their time."""
    data, free = bytearray(DISK), time.monotonic()

    def reply(unique, body=b"", error=0):
        os.write(fuse, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    while True:
        try:
            request = os.read(fuse, 2 * MIB)
        except OSError:
            return
        length, opcode, unique, inode = struct.unpack_from("<IIQQ", request)
        body = request[40:length]
        if opcode == 26:  # INIT: big writes, writes up to 1 MiB
            flags = 1 << 0 | 1 << 5 | 1 << 22
            reply(unique, struct.pack("<IIIIHHIIHH", 7, 31, 131072, flags, 64, 48, MIB, 1, 256, 0) + bytes(32))
        elif opcode == 1:  # LOOKUP
            if body == b"disk\0":
                reply(unique, struct.pack("<QQQQII", 2, 0, 3600, 3600, 0, 0) + attributes(2))
            else:
                reply(unique, error=2)
        elif opcode == 3:  # GETATTR
            reply(unique, struct.pack("<QII", 3600, 0, 0) + attributes(inode))
        elif opcode in (14, 27):  # OPEN, OPENDIR
            reply(unique, struct.pack("<QII", 0, 0, 0))
        elif opcode == 15:  # READ
            _, offset, size = struct.unpack_from("<QQI", body)
            reply(unique, bytes(data[offset:offset + size]))
        elif opcode == 16:  # WRITE
            _, offset, size = struct.unpack_from("<QQI", body)
            data[offset:offset + size] = body[40:40 + size]
            free = max(free, time.monotonic()) + size / bytes_a_second
            time.sleep(max(0, free - time.monotonic()))
            reply(unique, struct.pack("<II", size, 0))
        elif opcode in (2, 42):  # FORGET, BATCH_FORGET: no reply
            pass
        elif opcode in (18, 20, 25, 29, 30):  # RELEASE, FSYNC, FLUSH, RELEASEDIR, FSYNCDIR
            reply(unique)
        else:
            reply(unique, error=38)


def write(path, value):
    with open(path, "w") as file:
        file.write(str(value))


def write_for(path, mib, seconds):
    """What a writer does."""
    buffer, end = os.urandom(MIB), time.monotonic() + seconds
    file, turn = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), 0
    while time.monotonic() < end:
        os.pwrite(file, buffer, turn % mib * MIB)
        turn += 1
    os._exit(0)


def set_limit(mib):
    write("/proc/sys/vm/dirty_bytes", mib * MIB)
    write("/proc/sys/vm/dirty_background_bytes", mib * MIB // 2)


def record(name, output):
    speed, seconds, mib, writers, limits = CASES[name]
    trace = "/sys/kernel/tracing/instances/mmtwin-writeback"
    slow, disk = tempfile.mkdtemp(), tempfile.mkdtemp()
    fuse = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0,allow_other,max_read=131072"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"slow", slow.encode(), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "mount")
    threading.Thread(target=serve, args=(fuse, speed * MIB), daemon=True).start()
    loop = subprocess.check_output(["losetup", "--find", "--show", "--direct-io=on", f"{slow}/disk"], text=True).strip()
    try:
        subprocess.check_call(
            ["mkfs.ext4", "-q", "-E", "lazy_itable_init=1,nodiscard", "-O", "^has_journal", "-m0", loop])
        subprocess.check_call(["mount", loop, disk])
        os.makedirs(trace, exist_ok=True)
        write(f"{trace}/tracing_on", 0)
        write(f"{trace}/buffer_size_kb", 65536)
        for event in EVENTS:
            write(f"{trace}/events/writeback/{event}/enable", 1)
        set_limit(limits[0][1])
        write(f"{trace}/tracing_on", 1)
        children = []
        for writer in range(writers):
            child = os.fork()
            if child == 0:
                write_for(f"{disk}/{writer}", mib, seconds)
            children.append(child)
        begin = time.monotonic()
        for second, limit in limits[1:]:
            time.sleep(max(0, begin + second - time.monotonic()))
            set_limit(limit)
        for child in children:
            os.waitpid(child, 0)
        write(f"{trace}/tracing_on", 0)
        device = os.stat(loop).st_rdev
        own = f"bdi {os.major(device)}:{os.minor(device)}:"
        with open(f"{trace}/trace") as file, open(output, "w") as lines:
            print(f"# {os.uname().release}, {os.cpu_count()} CPUs; {name}: {speed} MiB/s, {writers} writers", file=lines)
            for line in file:
                event = re.match(r".*-(\d+)\s+\[(\d+)\] \S+\s+([\d.]+): (\w+): (.*)", line)
                if event and (own in line or event[4] == "global_dirty_state"):
                    pid, cpu, second, kind, fields = event.groups()
                    print(pid, cpu, second, kind, fields.replace(own + " ", ""), file=lines)
    finally:
        write("/proc/sys/vm/dirty_background_ratio", 10)
        write("/proc/sys/vm/dirty_ratio", 20)
        for event in EVENTS:
            write(f"{trace}/events/writeback/{event}/enable", 0)
        os.rmdir(trace)
        subprocess.call(["umount", disk])
        subprocess.call(["losetup", "--detach", loop])
        subprocess.call(["umount", slow])
    subprocess.check_call(["zstd", "-q", "-19", "--rm", "-f", output, "-o", f"{output}.zst"])


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    for case in sys.argv[1:] or CASES:
        print(case, flush=True)
        record(case, os.path.join(here, f"{case}.trace"))
