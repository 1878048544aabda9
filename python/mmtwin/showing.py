"""How far a command is, where somebody looks: a line of the terminal that is written over, or in a notebook a bar that goes away.

A notebook keeps what its cells print, and with it every state of a line that is written over. So progress is one display there, which is
changed in place and has nothing in it when the command has ended.
"""

from __future__ import annotations

import html
import re
import sys
from typing import Any

#: Lines that say how far a command is, such as ``3/15 runs  kbuild, 6.18, seed 1 ... left 12 s``.
LINE = re.compile(r"(\d+)/(\d+) \w+ ")

#: Columns of a terminal that a line takes.
WIDTH = 78


class Terminal:
    """A line of standard error."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, line: str) -> None:
        """Writes the line over the one before."""
        self._shown = True
        print("\r" + line[:WIDTH].ljust(WIDTH), end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Makes the line blank."""
        if self._shown:
            print("\r" + " " * WIDTH + "\r", end="", file=sys.stderr, flush=True)


class Notebook:
    """A bar and the line beside it, below the cell that runs."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, line: str) -> None:
        """Shows the line in the place of the one before."""
        done, of = LINE.match(line).groups()
        self._put({"text/plain": line, "text/html": f'<progress value="{done}" max="{of}"></progress> {html.escape(line)}'})

    def clear(self) -> None:
        """Leaves nothing to be seen."""
        if self._handle is not None:
            self._put({})

    def _put(self, data: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def display(wanted: bool | None) -> Terminal | Notebook | None:
    """Where progress is shown, by default only where somebody looks."""
    if wanted is False or (wanted is None and not in_notebook() and not sys.stderr.isatty()):
        return None
    return Notebook() if in_notebook() else Terminal()


def in_notebook() -> bool:
    """Whether a kernel of Jupyter runs this."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")
