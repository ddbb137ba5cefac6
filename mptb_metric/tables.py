"""Rows out of whatever holds them: a `datasets.Dataset`, pandas, Arrow, a batch of columns, a list of dicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def rows_of(table: Any, columns: Sequence[str], name: str = "table") -> list[dict[str, Any]]:
    """Read some columns of a table as plain rows; nothing else is touched, so no audio is decoded.

    Args:
        table: a `Dataset` or `IterableDataset` (any format or transform on it is set aside), a pandas
            `DataFrame`, an Arrow `Table`, a mapping of equally long columns, or an iterable of mappings.
        columns: what to read; one that the table lacks is absent from the rows.
        name: what the table is called in messages.

    Raises:
        ValueError: the table is none of these, or its columns differ in length.
    """
    if hasattr(table, "select_columns"):  # datasets
        return _dataset_rows(table, columns)
    if hasattr(table, "to_pylist") and hasattr(table, "column_names"):  # pyarrow
        rows: Iterable[Any] = table.select([c for c in columns if c in table.column_names]).to_pylist()
    elif hasattr(table, "to_dict") and hasattr(table, "columns"):  # pandas
        rows = table[[c for c in columns if c in table.columns]].to_dict("records")
    elif isinstance(table, Mapping):
        rows = _transposed({c: table[c] for c in columns if c in table}, name)
    else:
        rows = table
    if isinstance(rows, str | bytes) or not hasattr(rows, "__iter__"):
        raise ValueError(f"{name}: expected rows (a Dataset, a list of dicts), got {type(rows).__name__}")
    return [_row(row, columns, f"{name}[{i}]") for i, row in enumerate(rows)]


def _dataset_rows(table: Any, columns: Sequence[str]) -> list[dict[str, Any]]:
    table = table.with_format(None)
    if table.column_names is not None:
        table = table.select_columns([c for c in columns if c in table.column_names])
    rows = table.to_list() if hasattr(table, "to_list") else table  # a stream has none
    return [_row(row, columns, "row") for row in rows]


def _row(row: Any, columns: Sequence[str], where: str) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise ValueError(f"{where}: expected a row, a mapping of column to value, got {type(row).__name__}")
    return {c: row[c] for c in columns if c in row}


def _transposed(columns: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    lengths = {}
    for column, values in columns.items():
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise ValueError(f"{name}: column {column!r}: expected a list, one element per row, got {values!r}")
        lengths[column] = len(values)
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{name}: the columns differ in length: {lengths}")
    n_rows = next(iter(lengths.values()), 0)
    return [{column: values[i] for column, values in columns.items()} for i in range(n_rows)]
