"""Systems side by side on the same units: figures, every pair's difference, p-values that count the pairs.

Units are conversations for MPTB, turns for turn-end predictions and endpoints. Systems must cover the same
units: dropping those that one of them lacks would let a system choose what it is judged on. With ``m``
pairs the chance that some p-value is small by luck grows with ``m``; Holm's step-down adjustment keeps it
at the nominal level, for each figure (and each group) by itself.

References:
    S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6
    (1979).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from .report import Report, interval_settings
from .sums import Ratio, UnitCounts
from .tables import check_same, check_unique, group_rows


def compare(
    systems: Mapping[str, UnitCounts],
    rates: Mapping[str, Ratio],
    *,
    by: Mapping[str, Mapping[Hashable, Any]] | None = None,
    strata: Mapping[Hashable, Any] | None = None,
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    seed: int = 0,
    method: str = "percentile",
) -> dict[str, Any]:
    """Compare systems pairwise on the same units.

    Args:
        systems: two or more, by name: per unit the counts, and the latencies by name (``eot_latency`` gives
            ``eot_latency_p50_s`` and so on). Units may come in any order. Tracks are columns of the counts,
            and rates are named by them (``eot_recall``).
        rates: the rates by name, over the columns of the counts.
        by: per grouping (``num_speakers``) the label of each unit: everything is repeated within each group.
        strata: a label per unit: units are drawn within each label, as in ``bootstrap``.
        n_resamples: replicates, >= 2; 0 for the bare figures.
        confidence_level: nominal coverage of the intervals.
        seed: of the random draws.
        method: ``percentile``, ``basic`` or ``bca``.

    Returns:
        Plain Python values: ``n_units``; ``systems[name]`` with every figure, its ``_low`` and ``_high``;
        ``pairs``, a list with an entry per pair (in the systems' order): ``a``, ``b`` and per figure
        ``{figure}_difference`` (a minus b), its ``_low`` and ``_high``, ``{figure}_p_value`` and
        ``{figure}_p_value_holm``; ``by[grouping][label]`` with the same three entries; ``n_resamples``,
        ``confidence_level`` and ``notes``.

    Raises:
        ValueError: fewer than two systems; a unit that is repeated or that some system lacks (all are
            listed per system); counts or latencies that do not fit the units or each other; a unit without
            a label.

    Examples:
        >>> import numpy as np
        >>> units = ("c1", "c2", "c3")
        >>> a = UnitCounts(units, np.array([[3, 1], [4, 0], [4, 0]]))
        >>> b = UnitCounts(units, np.array([[2, 2], [3, 1], [4, 0]]))
        >>> found = compare({"A": a, "B": b}, {"recall": Ratio((0,), (0, 1))}, n_resamples=0)
        >>> round(found["pairs"][0]["recall_difference"], 3)
        0.167
    """
    settings = interval_settings(
        n_resamples=n_resamples, confidence_level=confidence_level, seed=seed, method=method
    )
    aligned = _align(systems)
    units = next(iter(aligned.values())).units
    labels = None if strata is None else _labels(strata, units, "strata")
    report = Report(settings)
    result = _table(aligned, rates, labels, report)
    if by:
        result["by"] = {}
    for grouping, label_of in (by or {}).items():
        groups = group_rows(_labels(label_of, units, grouping), name="units", column=grouping)
        result["by"][grouping] = {}
        for group, rows in groups.items():
            part = {name: system.subset(rows) for name, system in aligned.items()}
            own = None if labels is None else [labels[row] for row in rows]
            result["by"][grouping][group] = _table(part, rates, own, report, f"{grouping} {group}: ")
    return result | report.finish(stacklevel=2)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number, by Holm's step-down method.

    The smallest of ``m`` is multiplied by ``m``, the next by ``m - 1`` and so on; none becomes smaller than
    the one before it, nor larger than 1. NaN stays NaN, and still counts in ``m``: the comparison was asked
    for.

    Examples:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: (p_values[i] != p_values[i], p_values[i]))
    adjusted = list(p_values)
    highest = 0.0
    for rank, i in enumerate(order):
        if p_values[i] == p_values[i]:
            highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
            adjusted[i] = highest
    return adjusted


def _table(
    systems: Mapping[str, UnitCounts],
    rates: Mapping[str, Ratio],
    strata: Sequence[Any] | None,
    report: Report,
    where: str = "",
) -> dict[str, Any]:
    figures = {
        name: report.figures(system, rates, strata=strata, where=f"{where}{name}: ")
        for name, system in systems.items()
    }
    pairs: list[dict[str, Any]] = []
    for a, b in combinations(systems, 2):
        entries = report.differences(
            systems[a], systems[b], rates, strata=strata, where=f"{where}{a} - {b}: "
        )
        pairs.append({"a": a, "b": b, **entries})
    for key in [key for key in pairs[0] if key.endswith("_p_value")]:
        for pair, adjusted in zip(pairs, holm([pair[key] for pair in pairs]), strict=True):
            pair[f"{key}_holm"] = adjusted
    n_units = len(next(iter(systems.values())).units)
    return {"n_units": n_units, "systems": figures, "pairs": pairs}


def _align(systems: Mapping[str, UnitCounts]) -> dict[str, UnitCounts]:
    """Put every system's units into the first one's order."""
    if len(systems) < 2:
        raise ValueError(f"systems: expected two or more to compare, got {len(systems)}")
    first_name, first = next(iter(systems.items()))
    check_unique(first.units, name=f"system {first_name!r}", key="unit")
    aligned = {}
    for name, system in systems.items():
        _check_system(name, system, first)
        # A fault is told from both sides, so the first system needs no look of its own.
        check_same(system.units, first.units, name=f"system {name!r} against {first_name!r}", key="unit")
        place = {unit: row for row, unit in enumerate(system.units)}
        aligned[name] = system.subset(np.array([place[unit] for unit in first.units], dtype=np.intp))
    return aligned


def _check_system(name: str, system: UnitCounts, first: UnitCounts) -> None:
    lengths = {"counts": len(system.counts)}
    lengths |= {key: len(values) for key, values in system.latencies_s.items()}
    for key, length in lengths.items():
        if length != len(system.units):
            raise ValueError(f"system {name!r}: {len(system.units)} units, but {length} rows of {key}")
    if system.counts.shape[1:] != first.counts.shape[1:] or set(system.latencies_s) != set(first.latencies_s):
        raise ValueError(f"system {name!r}: its counts or latencies are not those of the first system")


def _labels(label_of: Mapping[Hashable, Any], units: Sequence[Any], name: str) -> list[Any]:
    missing = [unit for unit in units if unit not in label_of]
    if missing:
        raise ValueError(f"{name}: no label for {len(missing)} units, the first is {missing[0]!r}")
    return [label_of[unit] for unit in units]
