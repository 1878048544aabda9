"""Measures how long a run of each built-in scenario takes, and writes seconds.toml beside this file: seconds.py MMTWIN

    mmtwin run SCENARIO, first and last variant, one job ─► CPU seconds of the process, by getrusage ─► mean, two digits

CPU time instead of wall time, so that what else the machine does matters little. Of what takes long the first variant is enough.
"""

import json
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

LONG = 20


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(mmtwin, scenario):
    first, last = scenario["variants"][0], scenario["variants"][-1]
    seconds = seconds_of(mmtwin, scenario["name"], first)
    if first == last or seconds > LONG:
        return seconds
    return (seconds + seconds_of(mmtwin, scenario["name"], last)) / 2


def seconds_of(mmtwin, scenario, variant):
    with tempfile.TemporaryDirectory() as results:
        command = [mmtwin, "run", scenario, "--variants", variant, "--jobs", "1", "--results", results]
        before = cpu_seconds()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return cpu_seconds() - before


def main():
    mmtwin = sys.argv[1]
    listed = subprocess.run([mmtwin, "list", "scenarios", "--json"], check=True, capture_output=True)
    lines = []
    for scenario in json.loads(listed.stdout)["scenarios"]:
        seconds = float(f"{measure(mmtwin, scenario):.2g}")
        print(f"{scenario['name']}: {seconds:g} s", file=sys.stderr)
        lines.append(f"{scenario['name']} = {seconds:g}")
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    head = (
        "# CPU seconds that a run of each built-in scenario takes, rounded to two digits: the mean of its first and its last variant, of what\n"
        f"# takes more than {LONG} s its first alone.\n"
        f"# Measured by seconds.py (`make run-times`) on {cpu}; `mmtwin list scenarios` shows them.\n"
    )
    Path(__file__).with_suffix(".toml").write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
