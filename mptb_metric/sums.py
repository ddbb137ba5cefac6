"""Statistics of sums: what a pooled rate is computed from.

Counts come first and rates last: per unit a vector of counts is all that is kept, and every rate, group,
interval and comparison is arithmetic on sums of these vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .resampling import DistinctUnits

Statistic = Callable[[NDArray[np.float64]], Any]


@dataclass(frozen=True)
class Ratio:
    """A pooled rate: one sum of columns over another, NaN where the denominator is 0.

    To ``bootstrap`` units are the same where both sums are, which leaves very few distinct ones: a rate of
    53,140 turns is resampled in milliseconds.

    Attributes:
        numerator: columns of the count matrix that are added up above the line.
        denominator: columns that are added up below the line.

    Examples:
        >>> recall = Ratio((0,), (0, 1))
        >>> recall(np.array([[3.0, 1.0, 9.0], [0.0, 0.0, 9.0]]))
        array([0.75,  nan])
    """

    numerator: tuple[int, ...]
    denominator: tuple[int, ...]

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that the ratio reads, ascending."""
        return tuple(sorted({*self.numerator, *self.denominator}))

    def __call__(self, sums: NDArray[Any]) -> NDArray[np.float64]:
        """Map sums, [..., k], to rates, float64 [...]."""
        top, bottom = self.terms(sums)
        return np.divide(top, bottom, out=np.full(np.shape(bottom), np.nan), where=bottom != 0)

    def terms(self, sums: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return what stands above and below the line, each [...]."""
        top = sum(sums[..., column] for column in self.numerator)
        bottom = sum(sums[..., column] for column in self.denominator)
        return np.asarray(top), np.asarray(bottom)


@dataclass(frozen=True)
class UnitCounts:
    """What one system did on each unit; all that comparisons need.

    Attributes:
        units: ids of the units, each once.
        counts: int64 [n_units, k].
        latencies_s: by name, per unit the latencies in seconds.
    """

    units: tuple[Any, ...]
    counts: NDArray[np.int64]
    latencies_s: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)

    def subset(self, rows: NDArray[np.intp]) -> UnitCounts:
        """Return some of the units, in the order of ``rows``, int [n]."""
        return UnitCounts(
            tuple(self.units[row] for row in rows),
            self.counts[rows],
            {name: [values[row] for row in rows] for name, values in self.latencies_s.items()},
        )


class Sums:
    """Turns weights over distinct rows into a statistic of their sums."""

    def __init__(
        self, units: DistinctUnits, statistic: Statistic, *, n_columns: int, columns: Sequence[int]
    ) -> None:
        self._rows = units.rows
        self._totals = units.multiplicity @ units.rows
        self._statistic = statistic
        self._n_columns = n_columns
        self._columns = list(columns)
        self.is_scalar = True

    def reduce(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map weights, [n, n_distinct], to sums of the columns that are read, float64 [n, n_read]."""
        return weights @ self._rows

    def finish(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map sums, [n, n_read], to statistics, float64 [n, m], NaN where not finite."""
        # What the statistic said it does not read is NaN, so that a wrong promise shows.
        full = np.full((len(sums), self._n_columns), np.nan)
        full[:, self._columns] = sums
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.asarray(self._statistic(full), dtype=np.float64)
        if values.ndim not in (1, 2) or len(values) != len(full):
            raise ValueError(
                f"statistic: must map sums [..., k] to [...] or [..., m]; given the shape {full.shape} it "
                f"returned {values.shape} (does it index rows instead of columns? write sums[..., 0])"
            )
        self.is_scalar = values.ndim == 1
        return np.where(np.isfinite(values), values, np.nan).reshape(len(full), -1)

    def sample(self) -> NDArray[np.float64]:
        """Return the statistics of the sample itself, float64 [m]."""
        return self.finish(self._totals[None])[0]

    def without_one(self, part: slice) -> NDArray[np.float64]:
        """Return the statistics without one unit of each distinct row in ``part``, float64 [n_rows, m]."""
        return self.finish(self._totals - self._rows[part])


def check_counts(counts: ArrayLike, name: str = "counts") -> NDArray[Any]:
    """Return counts as int64 or float64 [n_units, k].

    Raises:
        ValueError: not a matrix, no units, no columns, or a count that is not a number, not finite, or a
            negative integer; the message names unit and column.
    """
    matrix = np.asarray(counts)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"{name}: expected a matrix [n_units, k] with at least one unit, got {matrix.shape}")
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected numbers, got {matrix.dtype}")
    if matrix.dtype.kind != "f":
        matrix = matrix.astype(np.int64, copy=False)
        wrong = matrix < 0
    else:
        # Adding 0 turns -0.0 into 0.0: one value, one row.
        matrix = matrix.astype(np.float64) + 0.0
        wrong = ~np.isfinite(matrix)
    if wrong.any():
        unit, column = (int(index) for index in np.argwhere(wrong)[0])
        value = matrix[unit, column].item()
        raise ValueError(f"{name}: unit {unit}, column {column}: expected a finite count >= 0, got {value}")
    return matrix


def read_counts(
    counts: ArrayLike, statistic: Statistic, columns: Sequence[int] | None, name: str = "counts"
) -> tuple[NDArray[Any], Statistic, list[int]]:
    """Check counts and reduce them to what the statistic needs.

    Returns:
        The count matrix, the statistic of its sums, and the columns of the matrix that are read.
    """
    matrix = check_counts(counts, name)
    read = columns_read(statistic, columns, matrix.shape[1])
    if isinstance(statistic, Ratio):
        return np.column_stack(statistic.terms(matrix)), Ratio((0,), (1,)), [0, 1]
    return matrix, statistic, read


def columns_read(statistic: Statistic, columns: Sequence[int] | None, n_columns: int) -> list[int]:
    """Return the columns that a statistic reads: those asked for, else those it names, else all."""
    named = columns if columns is not None else getattr(statistic, "columns", None)
    if named is None:
        return list(range(n_columns))
    read = sorted({int(column) for column in named})
    if not read or read[0] < 0 or read[-1] >= n_columns:
        raise ValueError(f"columns: expected indices of the {n_columns} columns of counts, got {list(named)}")
    return read
