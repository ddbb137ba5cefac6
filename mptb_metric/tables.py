"""Reading rows in any of the forms in which users hold them, and joining predictions to references.

A table is a ``datasets.Dataset`` (its transform is not run and no audio is decoded), a pyarrow Table, a
pandas DataFrame (where NaN is what pandas makes of null, it is read as null), a dict of columns, or a list
of dicts. Rows are joined by their ids and never by dropping some: a missing, unknown or repeated id is an
error that lists it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Ids that an error message lists before it only counts the rest.
_MAX_LISTED = 10


def is_table(values: Any) -> bool:
    """Tell a table from a flat sequence of values."""
    if isinstance(values, Mapping) or _has(values, "column_names") or _has(values, "iloc", "columns"):
        return True
    if isinstance(values, Sequence) and not isinstance(values, str):
        return len(values) > 0 and isinstance(values[0], Mapping)
    return False


def read_columns(
    table: Any, required: Sequence[str], *, optional: Sequence[str] = (), name: str
) -> dict[str, list[Any]]:
    """Read some columns of a table; others are not touched.

    Args:
        table: any of the forms above.
        required: columns that must be there.
        optional: columns that are returned where they are there.
        name: what to call the table in messages.

    Returns:
        One list per column, all of the same length, which is at least 1.

    Raises:
        ValueError: not a table, no rows, a required column is missing, or columns differ in length.
    """
    if not is_table(table):
        raise ValueError(
            f"{name}: expected rows (a Dataset, a list of dicts, a dict of lists), got {table!r:.80}"
        )
    try:
        columns = _columns(table, list(dict.fromkeys([*required, *optional])))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    lengths = {column: len(values) for column, values in columns.items()}
    missing = [column for column in required if column not in columns]
    if missing:
        raise ValueError(f"{name}: no column {', '.join(map(repr, missing))} (found: {_listed(columns)})")
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{name}: columns differ in length: {lengths}")
    if not all(lengths.values()):
        raise ValueError(f"{name}: no rows")
    return columns


def align(
    predictions: Any, keys: Sequence[Any] | None, *, key: str, fields: Sequence[str], n_rows: int
) -> tuple[list[Any], str | None]:
    """Put predictions into the order of the references.

    Args:
        predictions: a flat sequence in the order of the references, or a table with the column ``key`` and
            exactly one of ``fields``.
        keys: the references' ids, None where they have none.
        key: name of the column of ids.
        fields: columns that may hold the predicted value.
        n_rows: number of references.

    Returns:
        One value per reference, and the column that it came from (None for a flat sequence).

    Raises:
        ValueError: predictions are missing, unknown, repeated, or not as many as there are references.
    """
    if not is_table(predictions):
        if (
            predictions is None
            or isinstance(predictions, (str, bytes))
            or not isinstance(predictions, Iterable)
        ):
            raise ValueError(
                f"predictions: expected a sequence or rows with {key!r}, got {predictions!r:.80}"
            )
        values = to_list(predictions)
        if len(values) != n_rows:
            raise ValueError(
                f"predictions: expected one per reference ({n_rows}), got {len(values)}; give rows with "
                f"{key!r} to join them by it"
            )
        return values, None
    columns = read_columns(predictions, [key], optional=fields, name="predictions")
    given = [field for field in fields if field in columns]
    if len(given) != 1:
        raise ValueError(f"predictions: expected exactly one of the columns {', '.join(fields)}, got {given}")
    if keys is None:
        raise ValueError(f"references: no column {key!r} to join the predictions by")
    check_same(columns[key], keys, name="predictions", key=key)
    by_key = dict(zip(columns[key], columns[given[0]], strict=True))
    return [by_key[reference] for reference in keys], given[0]


def check_unique(ids: Sequence[Any], *, name: str, key: str) -> None:
    """Raise ValueError unless every id is a string or integer and occurs once; name the rows."""
    for row, value in enumerate(ids):
        if not isinstance(value, (str, int, np.integer)) or value == "":
            raise ValueError(f"{name}: row {row}: expected a {key}, got {value!r}")
    repeated = [value for value, count in Counter(ids).items() if count > 1]
    if repeated:
        rows = [row for row, value in enumerate(ids) if value == repeated[0]]
        raise ValueError(f"{name}: {key} repeated: {_listed(repeated)} (rows {_listed(rows)})")


def check_same(ids: Sequence[Any], expected: Sequence[Any], *, name: str, key: str) -> None:
    """Raise ValueError unless ``ids`` are the ``expected`` ones, in any order; list those that are not."""
    check_unique(ids, name=name, key=key)
    found, wanted = set(ids), set(expected)
    faults = []
    for word, some in (("missing", wanted - found), ("unknown", found - wanted)):
        if some:
            faults.append(f"{len(some)} {word} {key}: {_listed(sorted(some, key=repr))}")
    if faults:
        raise ValueError(f"{name}: {'; '.join(faults)}")


def to_numbers(values: Sequence[Any], *, name: str, row_name: Any, expected: str) -> NDArray[np.float64]:
    """Return finite numbers as float64 [n].

    Args:
        values: what should be numbers (booleans count as 0 and 1).
        name: what to call the values in messages.
        row_name: maps a row to how messages should call it.
        expected: what the message says was expected.

    Raises:
        ValueError: a value is None, NaN, infinite, text or anything else; the message names its row.
    """
    for kind in set(map(type, values)):
        if not issubclass(kind, (Real, np.bool_)):
            row = next(row for row, value in enumerate(values) if type(value) is kind)
            raise ValueError(f"{name}: {row_name(row)}: expected {expected}, got {values[row]!r}")
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError:  # an integer beyond all floats
        numbers = np.array([value if abs(value) < 1e308 else np.inf for value in values], dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(f"{name}: {row_name(row)}: expected {expected}, got {values[row]!r}")
    return numbers


def columns_of(by: str | Sequence[str] | None) -> list[str]:
    """Return the columns to break down by; one name, several or none.

    Raises:
        ValueError: anything else.
    """
    columns = [by] if isinstance(by, str) else by if by is not None else []
    if not isinstance(columns, Iterable) or not all(isinstance(column, str) for column in columns):
        raise ValueError(f"by: expected names of columns, got {by!r}")
    return list(columns)


def group_rows(labels: Sequence[Any], *, name: str, column: str) -> dict[str, NDArray[np.intp]]:
    """Return the rows of each group, by the text of its label, in the labels' order.

    Raises:
        ValueError: a row has no label.
    """
    rows: dict[str, list[int]] = {}
    order: dict[str, tuple[bool, Any]] = {}
    for row, label in enumerate(labels):
        if label is None or label != label or not isinstance(label, (str, Real, np.bool_)):
            raise ValueError(f"{name}: row {row}: expected a {column} to group by, got {label!r}")
        rows.setdefault(str(label), []).append(row)
        order[str(label)] = (isinstance(label, str), label)
    return {label: np.array(rows[label], dtype=np.intp) for label in sorted(rows, key=order.__getitem__)}


def to_list(values: Any) -> list[Any]:
    """Return a sequence as a list of plain Python values where it is an array."""
    return list(values.tolist()) if _has(values, "tolist") else list(values)


def _columns(table: Any, wanted: list[str]) -> dict[str, list[Any]]:
    if isinstance(table, Mapping):
        return {column: _column(table[column], column) for column in wanted if column in table}
    if _has(table, "iloc"):
        present = [column for column in wanted if column in table.columns]
        frame = table[present].astype(object)
        return {column: frame[column].where(frame[column].notna(), None).tolist() for column in present}
    if _has(table, "column_names") and table.column_names is not None:
        present = [column for column in wanted if column in table.column_names]
        if _has(table, "to_pydict"):
            return dict(table.select(present).to_pydict())
        # Without its format a Dataset runs no transform; a stream has no number of rows.
        table = table.with_format(None).select_columns(present)
        if _has(table, "num_rows"):
            return dict(table.to_dict())
    return _columns_of_rows(list(table), wanted)


def _column(values: Any, column: str) -> list[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ValueError(f"column {column!r}: expected a list, one element per row, got {values!r:.80}")
    return to_list(values)


def _columns_of_rows(rows: list[Any], wanted: list[str]) -> dict[str, list[Any]]:
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ValueError(f"row {index}: expected a dict, got {row!r:.80}")
    present = [column for column in wanted if any(column in row for row in rows)]
    return {column: [_plain(row.get(column)) for row in rows] for column in present}


def _plain(value: Any) -> Any:
    """Turn the arrays and tensors that formatted rows of a Dataset hold into plain values."""
    if _has(value, "tolist"):
        listed = value.tolist()
        holds_objects = isinstance(listed, list) and str(getattr(value, "dtype", "")) == "object"
        return _plain(listed) if holds_objects else listed
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list) and value and (_has(value[0], "tolist") or isinstance(value[0], Mapping)):
        return [_plain(part) for part in value]
    return value


def _has(value: Any, *names: str) -> bool:
    return all(hasattr(value, name) for name in names)


def _listed(values: Iterable[Any]) -> str:
    items = list(values)
    shown = ", ".join(map(repr, items[:_MAX_LISTED]))
    return shown if len(items) <= _MAX_LISTED else f"{shown} and {len(items) - _MAX_LISTED} more"
