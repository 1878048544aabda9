"""What the command answers: the document that it printed, and its rows as an Arrow stream.

    answer.document           what ``--json`` prints, as in ``schemas/``; its keys are attributes
    answer.rows()             flat rows of it, one for each thing that was asked about
    polars.DataFrame(answer)  the same rows, through ``__arrow_c_stream__``
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from . import tables

Row = dict[str, Any]


class Answer:
    """A document that the command has printed; its keys are attributes."""

    #: Columns of the rows, in order, with their types.
    columns: ClassVar[dict[str, type]] = {"key": str, "value": str}

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["document"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no {name}: {', '.join(self.__dict__.get('document', {}))}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.document]

    def rows(self) -> Iterator[Row]:
        """Flat rows of the document."""
        for key, value in self.document.items():
            yield {"key": key, "value": value}

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return tables.stream(self.rows(), self.columns).__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        members = [member["name"] for member in self.document.get("fleet", [])]
        named = [self.document[key] for key in ("scenario", "mechanism", "trace") if key in self.document] + members
        return f"<mmtwin {type(self).__name__} {' '.join(map(str, named))}: {sum(1 for _ in self.rows())} rows>"


class Runs(Answer):
    """Runs of a scenario: all metrics, counters and causes of CPU time of each."""

    columns = {"variant": str, "seed": int, "kind": str, "name": str, "value": float}

    def rows(self) -> Iterator[Row]:
        for run in self.document["runs"]:
            for kind in ("metrics", "counters", "cpu_seconds"):
                for name, value in run.get(kind, {}).items():
                    yield {"variant": run["variant"], "seed": run["seed"], "kind": kind, "name": name, "value": value}


class Comparison(Answer):
    """Variants side by side: mean, interval and change against the first one, of every metric."""

    columns = {
        "variant": str,
        "metric": str,
        "mean": float,
        "low": float,
        "high": float,
        "ratio": float,
        "ratio_low": float,
        "ratio_high": float,
        "difference": float,
        "p_value": float,
    }

    def rows(self) -> Iterator[Row]:
        for variant in self.document["variants"]:
            for name, metric in variant["metrics"].items():
                interval, change = metric.get("interval") or {}, metric.get("change") or {}
                ratios = change.get("ratio_interval") or {}
                yield {
                    "variant": variant["name"],
                    "metric": name,
                    "mean": metric["mean"],
                    "low": interval.get("low"),
                    "high": interval.get("high"),
                    "ratio": change.get("ratio"),
                    "ratio_low": ratios.get("low"),
                    "ratio_high": ratios.get("high"),
                    "difference": change.get("difference"),
                    "p_value": change.get("p_value"),
                }


class Sweep(Answer):
    """Points of a sweep with what each gains, and the recommendation (``answer.recommendation``)."""

    @property
    def columns(self) -> dict[str, type]:  # type: ignore[override]
        values = dict.fromkeys(self.document["keys"], str)
        gains = {f"gain of {goal}": float for goal in self.document["goals"]}
        return {**values, **gains, "seeds": int, "shortened": bool, "allowed": bool, "on_front": bool}

    def rows(self) -> Iterator[Row]:
        for point in self.document["points"]:
            gains = point["gains"] or []
            named = {f"gain of {goal}": gain for goal, gain in zip(self.document["goals"], gains)}
            rest = {key: point[key] for key in ("seeds", "shortened", "allowed", "on_front")}
            yield {**point["values"], **named, **rest}

    @property
    def chosen(self) -> dict[str, str]:
        """What to set, by setting; empty if the default is to stay."""
        recommendation = self.document["recommendation"]
        if recommendation["verdict"] != "set":
            return {}
        return {one["key"]: one["value"] for one in recommendation["chosen"]}


class Curves(Answer):
    """Miss-ratio curves: the miss ratio of each policy at each memory size."""

    columns = {
        "policy": str,
        "size_pages": int,
        "misses": float,
        "miss_ratio": float,
        "miss_ratio_low": float,
        "miss_ratio_high": float,
    }

    def rows(self) -> Iterator[Row]:
        yield from self.document["points"]


class Published(Answer):
    """Cells of published tables beside their predictions."""

    columns = {
        "table": str,
        "row": str,
        "metric": str,
        "unit": str,
        "published": str,
        "predicted": float,
        "error": float,
        "error_points": float,
    }

    def rows(self) -> Iterator[Row]:
        for table in self.document["tables"]:
            yield from table["cells"]


class Verification(Answer):
    """Counters of the twin beside those of a kernel."""

    columns = {"case": str, "counter": str, "kernel": float, "twin": float, "error": float}

    def rows(self) -> Iterator[Row]:
        yield from self.document["entries"]
