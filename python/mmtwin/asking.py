"""The commands that answer questions. Keywords are options of the command; ``mmtwin COMMAND --help`` says what each means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from . import command
from .answers import Answer, Comparison, Curves, Published, Runs, Verification

Path = str | PathLike[str]
#: Values of settings (``vm.swappiness``) and features (``features.mglru.tiers``) by name.
Settings = Mapping[str, Any]
#: Texts, or one.
Texts = str | Sequence[str]


def run(
    scenario: Path,
    *,
    variants: Texts | None = None,
    machine: Path | None = None,
    set: Settings | None = None,
    write: Texts = (),
    seeds: int | None = None,
    jobs: int | None = None,
    results: Path | None = None,
    store: str | None = None,
    fresh: bool = False,
    progress: bool | None = None,
) -> Runs:
    """Makes the runs of a scenario, or finds them in ``results``, and returns all of their metrics and counters."""
    given = {"variants": variants, "machine": machine, "set": set, "seeds": seeds, "jobs": jobs, "results": results, "store": store, "fresh": fresh}
    return Runs(command.ask(["run", str(scenario), *command.options(given), *command.repeated("--write", write)], progress))


def compare(
    scenario: Path,
    second: Path | None = None,
    *,
    variants: Texts | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    machine: Path | None = None,
    set: Settings | None = None,
    write: Texts = (),
    at_least: float | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    results: Path | None = None,
    store: str | None = None,
    fresh: bool = False,
    progress: bool | None = None,
) -> Comparison:
    """Compares variants of a scenario, values of keys (``vary``), or two documents or results directories (``second``).

    ``at_least`` is the least change that matters, in per cent."""
    given = {
        "variants": variants,
        "vary": vary,
        "machine": machine,
        "set": set,
        "at_least": at_least,
        "seeds": seeds,
        "jobs": jobs,
        "results": results,
        "store": store,
        "fresh": fresh,
    }
    names = [str(name) for name in (scenario, second) if name is not None]
    return Comparison(command.ask(["compare", *names, *command.options(given), *command.repeated("--write", write)], progress))


def explain(
    scenario: Path,
    old: str,
    new: str,
    *,
    by: str | None = None,
    metric: Texts | None = None,
    orders: int | None = None,
    machine: Path | None = None,
    set: Settings | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    results: Path | None = None,
    store: str | None = None,
    progress: bool | None = None,
) -> Answer:
    """Says which of the changes between the kernels ``old`` and ``new`` moved a metric (``--from``, ``--to``)."""
    given = {
        "from": old,
        "to": new,
        "by": by,
        "metric": metric,
        "orders": orders,
        "machine": machine,
        "set": set,
        "seeds": seeds,
        "jobs": jobs,
        "results": results,
        "store": store,
    }
    return Answer(command.ask(["explain", str(scenario), *command.options(given)], progress))


def mrc(
    trace: Path,
    *,
    format: str | None = None,
    policies: Texts | None = None,
    sizes: Sequence[int] | None = None,
    points: int | None = None,
    sample: float | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Curves:
    """Draws the miss-ratio curves of an access trace."""
    given = {"format": format, "policies": policies, "sizes": sizes, "points": points, "sample": sample, "jobs": jobs}
    return Curves(command.ask(["mrc", str(trace), *command.options(given)], progress))


def replay(
    trace: Path,
    *,
    kernel: Texts | None = None,
    copies: int | None = None,
    stagger_us: int | None = None,
    machine: Path | None = None,
    set: Settings | None = None,
    jobs: int | None = None,
    results: Path | None = None,
    store: str | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Replays a trace that ``mmtwin record`` wrote, under one kernel or several."""
    given = {
        "kernel": kernel,
        "copies": copies,
        "stagger_us": stagger_us,
        "machine": machine,
        "set": set,
        "jobs": jobs,
        "results": results,
        "store": store,
    }
    return Comparison(command.ask(["replay", str(trace), *command.options(given)], progress))


def published(
    mechanism: str,
    *,
    table: Texts = (),
    seeds: int | None = None,
    jobs: int | None = None,
    results: Path | None = None,
    store: str | None = None,
    progress: bool | None = None,
) -> Published:
    """Predicts published tables; each cell beside its published value."""
    given = {"seeds": seeds, "jobs": jobs, "results": results, "store": store}
    return Published(command.ask(["published", mechanism, *command.options(given), *command.repeated("--table", table)], progress))


def verify(mechanism: str, *, recorded: bool = False, qemu: bool = False, progress: bool | None = None) -> Verification:
    """Compares the twin with the running kernel (as root), with recordings of kernels, or with kernels in emulation."""
    given = {"recorded": recorded, "qemu": qemu}
    return Verification(command.ask(["verify", mechanism, *command.options(given)], progress))
