"""Ask mmtwin from Python.

    call ──► arguments of the command ──► mmtwin ... --json ──► an answer: attributes, rows, Arrow

Every function is a command of the same name, and what it prints with ``--json`` is what the answer holds, so results are the same to the
last bit, kept in the same directory, and documented in ``schemas/``. Keywords are the command's options with underscores::

    import mmtwin

    answer = mmtwin.compare("page_fault1", variants=["6.6", "6.18"], seeds=5)
    answer.verdict["best"]               # any key of what --json prints
    polars.DataFrame(answer)             # or pandas, pyarrow, DuckDB: every answer is an Arrow stream

The simulation is a process of its own: other threads of Python go on meanwhile, and an interrupt keeps what has been made.
"""

from .answers import Answer, Comparison, Curves, Published, Runs, Sweep, Verification
from .asking import compare, explain, mrc, published, replay, run, verify
from .command import CommandError, CommandMissing, UsageError
from .settings import Setting, settings
from .sweeping import sweep

__all__ = [
    "Answer",
    "CommandError",
    "CommandMissing",
    "Comparison",
    "Curves",
    "Published",
    "Runs",
    "Setting",
    "Sweep",
    "UsageError",
    "Verification",
    "compare",
    "explain",
    "mrc",
    "published",
    "replay",
    "run",
    "settings",
    "sweep",
    "verify",
]
