"""Sweeps, on one machine or on many.

    local   one command, all of its CPUs
    ray     shards as Ray tasks that share a results directory ──► the same command ends in the answer

A shard is a part of the runs (``mmtwin sweep --shard 17/200``), and every run is kept as soon as it has ended. So a worker that is lost
costs its unfinished runs: Ray starts its shard again, which finds the others. The answer is made from the results directory by the
command that a user would give, so it is the same to the last bit wherever runs were made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import command
from .answers import Sweep
from .asking import Path, Settings, Texts


#: More stages than a sweep has: halving takes a quarter of at most 100,000 points each time.
MOST_STAGES = 16


def sweep(
    what: Path,
    *,
    over: Mapping[str, Any] | None = None,
    method: str | None = None,
    points: int | None = None,
    samples: int | None = None,
    minimize: Texts | None = None,
    maximize: Texts | None = None,
    subject_to: Texts = (),
    held_out: int | None = None,
    at_least: float | None = None,
    variants: Texts | None = None,
    machine: Path | None = None,
    set: Settings | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    results: Path | None = None,
    store: str | None = None,
    engine: str = "local",
    shards: int | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Says which values of settings to choose for a scenario or a sweep file, what they gain for certain, and what they cost.

    ``over`` has the values of each key: a list, or a text such as ``"0..200"`` or ``"0,8..512"``, which ``points`` splits (5 by default).
    ``method`` is ``grid``, ``zip``, ``random`` or ``halving``; the last two draw ``samples`` points. ``minimize`` and ``maximize`` name
    metrics (by default the scenario's own), ``subject_to`` what has to hold (``"transaction_p99 <= 2 ms"``). Seeds 1 to ``seeds`` choose,
    ``held_out`` seeds after those tell the gain, and ``at_least`` percent of it matter. ``variants``, ``machine`` and ``set`` change the
    scenario, ``jobs`` runs are made at a time and kept in ``results``. The answer's ``chosen`` is what to set.

    With ``engine="ray"`` the runs are made by Ray tasks of one core each, ``shards`` of them (by default one for each core of the
    cluster); ``results`` has to be a directory that all nodes share, unless they share an object store (``store="s3://bucket/prefix"``).
    """
    given = {
        "over": over,
        "method": method,
        "points": points,
        "samples": samples,
        "minimize": minimize,
        "maximize": maximize,
        "held_out": held_out,
        "at_least": at_least,
        "variants": variants,
        "machine": machine,
        "set": set,
        "seeds": seeds,
        "results": results,
        "store": store,
    }
    asked = ["sweep", str(what), *command.options(given), *command.repeated("--subject-to", subject_to)]
    if engine == "ray":
        if results is None and store is None:
            raise command.UsageError("engine = ray: give results, a directory that all nodes share, or store, an object store")
        _on_ray(asked, shards)
    elif engine != "local":
        raise command.UsageError(f"engine = {engine}: it takes local or ray")
    elif shards is not None:
        raise command.UsageError("shards: engine = local makes all runs in one command; give engine=\"ray\"")
    return Sweep(command.ask([*asked, *command.options({"jobs": jobs})], progress))


def _on_ray(asked: Sequence[str], shards: int | None) -> None:
    """Makes the runs in Ray tasks, each a shard, and waits for all; stage by stage, as later ones take what earlier ones have found."""
    try:
        import ray
    except ImportError as error:
        raise command.UsageError("engine = ray: Ray is not installed; pip install 'mmtwin[ray]'") from error
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    parts = shards or max(1, int(ray.cluster_resources().get("CPU", 1)))
    # A task whose worker is lost starts again, as often as that happens.
    make = ray.remote(num_cpus=1, max_retries=-1)(make_shard)
    for _ in range(MOST_STAGES):
        try:
            answered = ray.get([make.remote(list(asked), part, parts) for part in range(1, parts + 1)])
        except ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None
        if any(answered):
            return
    raise command.UsageError("engine = ray: no node sees the runs of the others; results has to be a directory that all of them share")


def make_shard(asked: Sequence[str], part: int, parts: int) -> bool:
    """Makes the runs of a shard that can be made now, on one core. Returns whether all runs are there, so that it came to the answer."""
    return bool(command.call([*asked, "--shard", f"{part}/{parts}", "--jobs", "1"], progress=False).strip())
