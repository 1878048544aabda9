"""Draws a part of a timeline as Perfetto shows it: docs/timeline.py FILE.pftrace --cpus 3 --lock 'zone->lock, node 1 Normal' > FILE.svg

    process group   pcp-base, seed 1
      CPU row         slices, one above the other where they are nested; a colour for each name
      lock row        how many CPUs wait, as an area

Reads no more of Perfetto's format than `mmtwin -o FILE.pftrace` writes (crates/report/src/timeline/messages.rs), and needs nothing but Python.
"""

import argparse
import struct
import sys
from collections import defaultdict
from html import escape

WIDTH, LEFT, SLICE, AREA, GAP, LETTER = 860, 190, 15, 36, 5, 6.0
# Of Okabe and Ito, as in crates/report/src/chart/palette.rs.
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999"]
BEGIN, END, COUNTER = 1, 2, 4


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """The fields of a message: number and value, which is a number or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            value, at = data[at : at + 8], at + 8
        elif key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"field {key >> 3} has a type that no timeline has")
        yield key >> 3, value


def double(data):
    return struct.unpack("<d", data)[0]


class Trace:
    """Tracks by number: name, parent, slices (depth, name, from, until in nanoseconds), values (time, value)."""

    def __init__(self, data):
        self.names, self.parents, self.texts = {}, {}, {}
        self.slices, self.values = defaultdict(list), defaultdict(list)
        self.open = defaultdict(list)
        for number, packet in fields(data):
            if number == 1:
                self.packet(packet)

    def packet(self, packet):
        parts = dict(fields(packet))
        time = parts.get(8, 0)
        if 12 in parts:
            for number, name in fields(parts[12]):
                if number == 2:
                    name = dict(fields(name))
                    self.texts[name[1]] = name[2].decode()
        if 60 in parts:
            track = dict(fields(parts[60]))
            process = dict(fields(track[3])) if 3 in track else {}
            self.names[track[1]] = process.get(6, track.get(2, b"")).decode()
            self.parents[track[1]] = track.get(5)
        if 11 in parts:
            event = dict(fields(parts[11]))
            track = event.get(11, 0)
            if event.get(9) == BEGIN:
                self.open[track].append((self.texts[event[10]], time))
            elif event.get(9) == END:
                name, begun = self.open[track].pop()
                self.slices[track].append((len(self.open[track]), name, begun, time))
            elif event.get(9) == COUNTER:
                self.values[track].append((time, double(event[44])))

    def below(self, parent, name=None):
        return [track for track, of in self.parents.items() if of == parent and name in (None, self.names[track])]


class Picture:
    def __init__(self, start, end):
        self.start, self.end, self.y, self.marks, self.colours = start, end, 26, [], {}

    def x(self, time):
        return LEFT + (WIDTH - LEFT) * (time - self.start) / (self.end - self.start)

    def colour(self, name):
        return self.colours.setdefault(name, COLOURS[min(len(self.colours), len(COLOURS) - 1)])

    def text(self, x, y, text, more=""):
        self.marks.append(f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(text)}</text>')

    def title(self, text):
        self.y += 22
        self.text(0, self.y, text, 'font-weight="bold"')
        self.y += 8

    def slices(self, name, slices):
        self.text(12, self.y + 11, name)
        for depth, what, begun, ended in sorted(slices):
            left, right = max(self.x(begun), LEFT), min(self.x(ended), WIDTH)
            if right - left < 0.25:
                continue
            # What is put together is called by its largest part.
            what = what.removesuffix(" and others").removeprefix("mostly idle, ")
            y = self.y + depth * (SLICE + 1)
            self.marks.append(
                f'<rect x="{left:.1f}" y="{y}" width="{right - left:.1f}" height="{SLICE}" fill="{self.colour(what)}"/>'
            )
            if right - left > LETTER * len(what) + 4:
                self.text(left + 3, y + 11, what, 'fill="white" font-size="10"')
        self.y += (1 + max(depth for depth, *_ in slices)) * (SLICE + 1) + GAP

    def area(self, name, values, most):
        self.text(12, self.y + 11, name)
        self.text(LEFT - 6, self.y + 10, f"{most:.0f}", 'text-anchor="end" font-size="10"')
        foot = self.y + AREA
        points, value = [f"{LEFT},{foot}"], 0.0
        for time, following in values:
            x = min(max(self.x(time), LEFT), WIDTH)
            points += [f"{x:.1f},{foot - AREA * value / most:.1f}", f"{x:.1f},{foot - AREA * following / most:.1f}"]
            value = following
        points += [f"{WIDTH},{foot - AREA * value / most:.1f}", f"{WIDTH},{foot}"]
        self.marks.append(f'<polygon points="{" ".join(points)}" fill="#d55e00"/>')
        self.y += AREA + GAP

    def legend(self):
        self.y, x = self.y + 12, LEFT
        for name, colour in self.colours.items():
            self.marks.append(f'<rect x="{x}" y="{self.y}" width="11" height="11" fill="{colour}"/>')
            self.text(x + 15, self.y + 10, name)
            x += 30 + int(1.1 * LETTER * len(name))
        self.y += 16

    def svg(self, foot):
        for at in range(6):
            time = self.start + (self.end - self.start) * at / 5
            anchor = ["start", "end"][at == 5] if at in (0, 5) else "middle"
            self.text(self.x(time), 14, f"{time / 1e6:.1f} ms", f'text-anchor="{anchor}"')
            self.marks.append(
                f'<path d="M{self.x(time):.1f} 20V{foot}" stroke="currentColor" stroke-opacity="0.2"/>'
            )
        body = "\n".join(self.marks)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.y + 4}" width="{WIDTH}" fill="currentColor" '
            f'font-family="DejaVu Sans, Verdana, sans-serif" font-size="11">\n<rect width="{WIDTH}" height="{self.y + 4}" fill="white"/>\n{body}\n</svg>'
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("file")
    parser.add_argument("--cpus", type=int, default=3, help="rows of CPUs in each process group: those that do most")
    parser.add_argument("--lock", required=True, help="the lock whose waiters are drawn")
    arguments = parser.parse_args()
    with open(arguments.file, "rb") as file:
        trace = Trace(file.read())
    groups = [track for track, parent in trace.parents.items() if parent is None]
    cpus_of = lambda group: [
        cpu for cpus in trace.below(group, "CPUs") for cpu in trace.below(cpus) if trace.slices[cpu]
    ]
    shown = [of for group in groups for cpu in cpus_of(group) for of in trace.slices[cpu]]
    picture = Picture(min(of[2] for of in shown), max(of[3] for of in shown))
    waiting = lambda group: [
        track
        for locks in trace.below(group, "Locks")
        for lock in trace.below(locks, arguments.lock)
        for track in trace.below(lock, "CPUs that wait")
    ]
    of_all = [value for group in groups for track in waiting(group) for _, value in trace.values[track]]
    most = max(of_all, default=1.0) or 1.0
    for group in groups:
        picture.title(trace.names[group])
        busy = lambda track: sum(ended - begun for depth, _, begun, ended in trace.slices[track] if depth == 0)
        largest = sorted(cpus_of(group), key=busy, reverse=True)[: arguments.cpus]
        for cpu in sorted(largest):
            picture.slices(trace.names[cpu], trace.slices[cpu])
        for track in waiting(group):
            picture.area("CPUs that wait", trace.values[track], most)
    foot = picture.y
    picture.legend()
    print(picture.svg(foot))


if __name__ == "__main__":
    sys.exit(main())
