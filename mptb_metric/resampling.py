"""Draw units with replacement, without ever listing the units that were drawn.

A statistic of sums sees a draw only through how often each *distinct* row was drawn. So ``n`` draws with
replacement from ``n`` units are one multinomial draw over the distinct rows, with probabilities
``multiplicity / n``: exactly the same distribution, for a fraction of the work.

A binomial draw costs as much as drawing some sixteen single units. So rows shared by few units are not given
a binomial each: one binomial says how many draws fall on all of them together, and these are then drawn one
by one. That too is exact, and keeps the worst case (no two units alike) as cheap as plain resampling.

The rows are sorted first, and every block of replicates and each of the two kinds of draws has its own random
stream. So the replicates depend on the seed and on which rows there are, and not on the order of the units,
on the memory that a batch may take or on the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Rows shared by at most this many units are drawn one by one: measured, a binomial draw takes about 80 ns,
# a single unit 6 ns.
_RARE = 16

# Replicates per random stream. Changing it changes every replicate.
_BLOCK = 2500

# Cells of 8 bytes that the weights of one batch may take: 2.4 MB stay in a processor's cache.
_BATCH_CELLS = 300_000

# Each thread holds a batch of its own, so their number bounds the memory too.
_MAX_THREADS = 4


@dataclass(frozen=True)
class DistinctUnits:
    """The distinct rows of some units, stratum by stratum.

    Attributes:
        rows: distinct rows, float64 [n_distinct, n_columns]; within a stratum the most frequent come first,
            equally frequent ones in lexicographic order.
        multiplicity: units that share each row, int64 [n_distinct].
        strata: one slice of ``rows`` per stratum.
    """

    rows: NDArray[np.float64]
    multiplicity: NDArray[np.int64]
    strata: tuple[slice, ...]

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.multiplicity.sum())

    @property
    def varies(self) -> bool:
        """Whether any stratum has two units or more, so that draws can differ from the sample."""
        return any(self.multiplicity[part].sum() > 1 for part in self.strata)


def distinct_units(rows: NDArray[Any], strata: Sequence[object] | None = None) -> DistinctUnits:
    """Collapse units with equal rows (and equal stratum) into one row and a multiplicity.

    Args:
        rows: one row per unit, finite, int64 or float64 [n_units >= 1, n_columns].
        strata: a label per unit; None puts all units into one stratum.

    Raises:
        ValueError: as many labels as units were expected, or a label is missing (None or NaN).
    """
    columns = list(np.ascontiguousarray(rows.T))
    codes = _stratum_codes(strata, len(rows))
    values, multiplicity = _count_rows([codes, *columns])
    order = np.lexsort((-multiplicity, values[:, 0]))
    values, multiplicity = values[order], multiplicity[order]
    edges = np.searchsorted(values[:, 0], np.arange(codes.max() + 2))
    parts = tuple(slice(int(a), int(b)) for a, b in pairwise(edges))
    return DistinctUnits(np.ascontiguousarray(values[:, 1:]), multiplicity, parts)


def resample(
    units: DistinctUnits,
    reduce: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    *,
    n_resamples: int,
    seed: int,
) -> NDArray[np.float64]:
    """Draw replicates and reduce each to a few numbers.

    Every replicate draws, within each stratum, as many units as the stratum has, with replacement.

    Args:
        units: what is drawn.
        reduce: maps weights, float64 [n_batch, n_distinct] (how often each distinct row was drawn), to
            [n_batch, ...]; called from several threads.
        n_resamples: number of replicates.
        seed: of the random streams, >= 0.

    Returns:
        The reduced replicates, float64 [n_resamples, ...].
    """
    sizes = [min(_BLOCK, n_resamples - start) for start in range(0, n_resamples, _BLOCK)]
    seeds = np.random.SeedSequence(seed).spawn(len(sizes))

    def block(size: int, block_seed: np.random.SeedSequence) -> NDArray[np.float64]:
        return np.concatenate([reduce(weights) for weights in _draw_block(units, size, block_seed)])

    n_threads = min(_MAX_THREADS, len(sizes), os.cpu_count() or 1)
    with ThreadPoolExecutor(n_threads) as pool:
        return np.concatenate(list(pool.map(block, sizes, seeds)))


def _draw_block(
    units: DistinctUnits, size: int, seed: np.random.SeedSequence
) -> Iterator[NDArray[np.float64]]:
    """Yield the weights of ``size`` replicates, float64 [n_batch, n_distinct], in bounded batches."""
    streams = [np.random.default_rng(child) for child in seed.spawn(2 * len(units.strata))]
    samplers = [
        _Stratum(units.multiplicity[part], common_rng=common, rare_rng=rare)
        for part, common, rare in zip(units.strata, streams[::2], streams[1::2], strict=True)
    ]
    # A unit that is drawn one by one takes three cells more while its batch is made.
    cells = len(units.rows) + 3 * sum(sampler.n_rare for sampler in samplers)
    n_batch = max(1, _BATCH_CELLS // cells)
    for start in range(0, size, n_batch):
        weights = np.empty((min(n_batch, size - start), len(units.rows)))
        for part, sampler in zip(units.strata, samplers, strict=True):
            sampler.draw(weights[:, part])
        yield weights


class _Stratum:
    """Draws one stratum, whose rows come most frequent first."""

    def __init__(
        self,
        multiplicity: NDArray[np.int64],
        *,
        common_rng: np.random.Generator,
        rare_rng: np.random.Generator,
    ) -> None:
        self._n_common = int((multiplicity > _RARE).sum())
        self._n_units = int(multiplicity.sum())
        rare = multiplicity[self._n_common :]
        self.n_rare = int(rare.sum())
        # The row of each unit that is drawn one by one, as if these units stood in a list.
        self._row_of_unit = np.repeat(np.arange(len(rare)), rare)
        groups = [*multiplicity[: self._n_common], self.n_rare] if self.n_rare else multiplicity
        self._probabilities = np.asarray(groups) / self._n_units
        self._common_rng = common_rng
        self._rare_rng = rare_rng

    def draw(self, out: NDArray[np.float64]) -> None:
        """Fill ``out`` [n_replicates, n_rows] with the number of times that each row was drawn."""
        drawn = self._common_rng.multinomial(self._n_units, self._probabilities, size=len(out))
        out[:, : self._n_common] = drawn[:, : self._n_common]
        if not self.n_rare:
            return
        n_rows = out.shape[1] - self._n_common
        n_draws = drawn[:, -1]
        units = self._rare_rng.integers(0, self.n_rare, size=int(n_draws.sum()))
        cells = np.repeat(np.arange(len(out)) * n_rows, n_draws)
        cells += self._row_of_unit[units]
        out[:, self._n_common :] = np.bincount(cells, minlength=len(out) * n_rows).reshape(len(out), n_rows)


def _stratum_codes(strata: Sequence[object] | None, n_units: int) -> NDArray[np.int64]:
    """Give each unit the rank of its stratum's label, int64 [n_units]."""
    if strata is None:
        return np.zeros(n_units, dtype=np.int64)
    labels = list(strata)
    if len(labels) != n_units:
        raise ValueError(f"strata: expected one label per unit ({n_units}), got {len(labels)}")
    for index, label in enumerate(labels):
        if label is None or label != label:
            raise ValueError(f"strata: unit {index} has no label ({label!r})")
    # Labels may be of any type, so they are put in order by what they look like.
    rank = {label: code for code, label in enumerate(sorted(set(labels), key=repr))}
    return np.array([rank[label] for label in labels], dtype=np.int64)


def _count_rows(columns: list[NDArray[Any]]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct rows in lexicographic order, float64 [n_distinct, n_columns], and their counts."""
    firsts = [int(np.floor(column.min())) for column in columns]
    spans = [int(column.max()) - first + 1 for column, first in zip(columns, firsts, strict=True)]
    n_keys = 1
    for span in spans:
        n_keys *= span
    if n_keys >= 2**62 or not all(_is_whole(column) for column in columns):
        values, multiplicity = np.unique(np.column_stack(columns), axis=0, return_counts=True)
        return values.astype(np.float64), multiplicity
    # Whole numbers pack into one integer per row, which sorts a hundred times faster than rows do.
    keys = np.zeros(len(columns[0]), dtype=np.int64)
    for column, first, span in zip(columns, firsts, spans, strict=True):
        if span > 1:
            keys *= span
            keys += column.astype(np.int64, copy=False) - first
    keys, multiplicity = np.unique(keys, return_counts=True)
    values = np.empty((len(keys), len(columns)))
    for index in reversed(range(len(columns))):
        keys, digits = np.divmod(keys, spans[index])
        values[:, index] = digits + firsts[index]
    return values, multiplicity


def _is_whole(column: NDArray[Any]) -> bool:
    return column.dtype.kind != "f" or bool(np.array_equal(column, np.rint(column)))
