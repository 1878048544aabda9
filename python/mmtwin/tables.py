"""Rows as Arrow: a column for each key, of the type that is said of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import nanoarrow

#: Types of columns by those of Python.
TYPES = {str: nanoarrow.string, int: nanoarrow.int64, float: nanoarrow.float64, bool: nanoarrow.bool_}


def stream(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, type]) -> Any:
    """An Arrow stream of one batch, with these columns in this order; what a row lacks is null."""
    rows = list(rows)
    arrays = [_column([row.get(name) for row in rows], of) for name, of in columns.items()]
    schema = nanoarrow.struct({name: TYPES[of]() for name, of in columns.items()})
    batch = nanoarrow.c_array_from_buffers(schema, len(rows), [None], null_count=0, children=arrays)
    return nanoarrow.c_array_stream(batch)


def _column(values: list[Any], of: type) -> Any:
    return nanoarrow.c_array([None if value is None else of(value) for value in values], TYPES[of]())
