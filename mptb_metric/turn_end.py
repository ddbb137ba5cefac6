"""Turn-end labels: a decision per observation, whether the caller has finished.

A prediction is a label (1: finished, fire; 0: wait), or a score with a threshold: it fires when
``score > theta``. Counts are pooled over observations; intervals resample turns, as the prefixes of one
turn share its audio. Some kinds of decision points are finished by definition and the others are not, so a
kind has one error
rate: finished ones missed, unfinished ones fired at.

References:
    The scoring protocol, "Turn-end labels" and "Operating point"; the dataset card, "Labels" and "kind".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .curves import average_precision, roc_auc, select_theta
from .report import Report, interval_settings, sum_by_unit
from .sums import Ratio, UnitCounts
from .tables import align, check_unique, columns_of, group_rows, is_table, read_columns, to_list, to_numbers

# Label of each kind, by the dataset card.
KIND_LABELS = {
    "payload_cut": 0,
    "trailing_frag": 0,
    "mid_thought_cut": 0,
    "word_cut": 0,
    "chunk_cut": 1,
    "complete": 1,
}

# Groups with fewer observations are marked as indicative only.
MIN_OBSERVATIONS = 50

# The false-positive rate that the operating-point rule allows.
DEFAULT_BUDGET = 0.10

# The default breakdown, left out where the references have no kinds.
BY_KIND = ("kind",)

# Rates over the columns TP, FN, FP, TN.
RATES = {
    "recall": Ratio((0,), (0, 1)),
    "fpr": Ratio((2,), (2, 3)),
    "precision": Ratio((0,), (0, 2)),
    "accuracy": Ratio((0, 3), (0, 1, 2, 3)),
    "f1": Ratio((0, 0), (0, 0, 1, 2)),
    "error_rate": Ratio((1, 2), (0, 1, 2, 3)),
}

# The same and the error rate of each kind, over the columns of ``turn_end_counts``.
COMPARED_RATES = RATES | {
    f"error_rate_{kind}": Ratio((5 + 2 * index,), (4 + 2 * index, 5 + 2 * index))
    for index, kind in enumerate(KIND_LABELS)
}


@dataclass(frozen=True)
class _Observations:
    """Checked references: ids where they have any, labels, and the columns to group by."""

    keys: list[Any] | None
    labels: NDArray[np.bool_]
    columns: dict[str, list[Any]]

    def row_name(self, row: int) -> str:
        return f"row {row}" if self.keys is None else f"row {row} (key {self.keys[row]!r})"


def compute_turn_end(
    predictions: Any,
    references: Any,
    *,
    theta: float | str | None = None,
    budget: float | None = None,
    by: str | Sequence[str] | None = BY_KIND,
    n_resamples: int = 0,
    confidence_level: float = 0.95,
    seed: int = 0,
    method: str = "percentile",
) -> dict[str, Any]:
    """Score the turn-end predictions of one system.

    Args:
        predictions: labels (0, 1 or booleans), or finite scores with ``theta``; a sequence in the order of
            the references, or rows {``key``, ``prediction`` or ``score``} in any order, one per reference.
        references: rows of ``observations``: ``label``, and ``key`` to join by, ``turn_key`` for intervals,
            and the columns of ``by``. ``kind`` is checked against ``label``. Others are not read. Or the
            bare labels, as `evaluate.evaluator` hands them over.
        theta: a threshold (fires when ``score > theta``), or ``"select"`` for the one of the
            operating-point rule on these very observations: the highest recall with FPR <= ``budget``, ties
            by lower FPR, then higher threshold, over every distinct score and one value below them all.
        budget: for ``"select"``; default 0.10.
        by: columns to break down by: ``kind``, ``domain``, ``style`` or any other; None for none. By default
            ``kind``, where the references have it.
        n_resamples: replicates over turns for the intervals, >= 2; 0 for no intervals.
        confidence_level: nominal coverage of the intervals.
        seed: of the random draws.
        method: ``percentile``, ``basic`` or ``bca``.

    Returns:
        Plain Python values: ``n``, ``n_turns`` (where there are turn keys), ``tp``, ``fn``, ``fp``, ``tn``,
        ``recall``, ``fpr``, ``precision``, ``accuracy``, ``f1``, ``error_rate``; for scores ``theta``,
        ``roc_auc`` (ties count half) and ``average_precision`` too; with intervals ``{rate}_low`` and
        ``{rate}_high``, ``n_resamples``, ``confidence_level`` and ``notes``. ``by[column][group]`` holds
        the same counts and rates of each group (its intervals resample the turns that have a row in it) and
        ``indicative``: fewer than 50 observations. NaN where a rate has an empty denominator.

    Raises:
        ValueError: keys that are repeated, missing or unknown; a label that is not 0 or 1 or contradicts
            its kind; predictions that are None, NaN, infinite or text (named by row and key); scores
            without ``theta``; ``"select"`` where no threshold qualifies.

    Examples:
        >>> rows = [
        ...     {"key": "a@1", "turn_key": "a", "label": 0, "kind": "word_cut"},
        ...     {"key": "a@2", "turn_key": "a", "label": 1, "kind": "complete"},
        ... ]
        >>> found = compute_turn_end([0.7, 0.9], rows, theta=0.5)
        >>> found["recall"], found["fpr"], found["by"]["kind"]["word_cut"]["error_rate"]
        (1.0, 1.0, 1.0)
    """
    settings = interval_settings(
        n_resamples=n_resamples, confidence_level=confidence_level, seed=seed, method=method
    )
    fields = columns_of(by)
    named = [] if by is BY_KIND else fields
    observations = _read_observations(references, [*named, "turn_key"] if settings else named)
    fields = [field for field in fields if field in observations.columns]
    scores, fired, used = _decide(predictions, observations, theta, budget)
    counts = _outcomes(fired, observations.labels)
    turns = _turn_numbers(observations)
    report = Report(settings)
    result = _entries(counts, turns, report)
    if scores is not None:
        result |= {
            "theta": used,
            "roc_auc": roc_auc(scores, observations.labels),
            "average_precision": average_precision(scores, observations.labels),
        }
    if fields:
        result["by"] = {}
    for field in fields:
        groups = group_rows(observations.columns[field], name="references", column=field)
        result["by"][field] = {
            group: _entries(
                counts[rows], None if turns is None else turns[rows], report, f"{field} {group}: "
            )
            | {"indicative": len(rows) < MIN_OBSERVATIONS}
            for group, rows in groups.items()
        }
    return result | report.finish(stacklevel=2)


def turn_end_counts(predictions: Any, references: Any, *, theta: float | None = None) -> UnitCounts:
    """Return one system's counts per turn, for ``compare`` with ``COMPARED_RATES``.

    Args:
        predictions: as in ``compute_turn_end``.
        references: as in ``compute_turn_end``; ``turn_key`` and ``kind`` are required.
        theta: the threshold of scores.

    Returns:
        UnitCounts: columns TP, FN, FP, TN, then right and wrong per kind in the order of ``KIND_LABELS``;
        the units are turns, in the order of their keys.
    """
    observations = _read_observations(references, ["turn_key", "kind"])
    _, fired, _ = _decide(predictions, observations, theta, None)
    kinds = np.array([list(KIND_LABELS).index(kind) for kind in observations.columns["kind"]])
    per_kind = np.zeros((len(fired), 2 * len(KIND_LABELS)), dtype=np.int64)
    per_kind[np.arange(len(fired)), 2 * kinds + (fired != observations.labels)] = 1
    counts = np.hstack([_outcomes(fired, observations.labels), per_kind])
    turn_keys = observations.columns["turn_key"]
    units, numbers = np.unique(np.array(turn_keys, dtype=object), return_inverse=True)
    return UnitCounts(tuple(units.tolist()), sum_by_unit(counts, numbers))


def _entries(
    counts: NDArray[np.int64], turns: NDArray[np.intp] | None, report: Report, where: str = ""
) -> dict[str, Any]:
    """Return the counts and rates of some observations, with intervals over their turns."""
    units = counts if turns is None else sum_by_unit(counts, turns)
    entries: dict[str, Any] = {"n": len(counts)}
    if turns is not None:
        entries["n_turns"] = len(units)
    entries |= dict(zip(("tp", "fn", "fp", "tn"), counts.sum(axis=0).tolist(), strict=True))
    return entries | report.rates(units, RATES, where=where)


def _outcomes(fired: NDArray[np.bool_], labels: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return TP, FN, FP and TN of each observation, int64 [n, 4]."""
    return np.column_stack([labels & fired, labels & ~fired, ~labels & fired, ~labels & ~fired]).astype(
        np.int64
    )


def _turn_numbers(observations: _Observations) -> NDArray[np.intp] | None:
    turn_keys = observations.columns.get("turn_key")
    if turn_keys is None:
        return None
    number: dict[Any, int] = {}
    for row, turn_key in enumerate(turn_keys):
        if not isinstance(turn_key, (str, int)) or turn_key == "":
            raise ValueError(
                f"references: {observations.row_name(row)}: expected a turn_key, got {turn_key!r}"
            )
        number.setdefault(turn_key, len(number))
    return np.array([number[turn_key] for turn_key in turn_keys], dtype=np.intp)


def _read_observations(references: Any, required: Sequence[str]) -> _Observations:
    if not is_table(references):
        references = {"label": to_list(references)}
    columns = read_columns(
        references, ["label", *required], optional=["key", "kind", "turn_key"], name="references"
    )
    keys = columns.get("key")
    if keys is not None:
        check_unique(keys, name="references", key="key")
    observations = _Observations(keys, np.zeros(0, dtype=bool), columns)
    labels = to_numbers(
        columns["label"], name="references", row_name=observations.row_name, expected="a label 0 or 1"
    )
    for row in np.flatnonzero((labels != 0) & (labels != 1))[:1]:
        raise ValueError(
            f"references: {observations.row_name(int(row))}: expected a label 0 or 1, "
            f"got {columns['label'][row]!r}"
        )
    observations = _Observations(keys, labels == 1, columns)
    if "kind" in columns:
        _check_kinds(observations)
    return observations


def _check_kinds(observations: _Observations) -> None:
    for row, (kind, label) in enumerate(zip(observations.columns["kind"], observations.labels, strict=True)):
        if kind not in KIND_LABELS:
            raise ValueError(
                f"references: {observations.row_name(row)}: expected a kind among {', '.join(KIND_LABELS)}, "
                f"got {kind!r}"
            )
        if KIND_LABELS[kind] != label:
            raise ValueError(
                f"references: {observations.row_name(row)}: the kind {kind!r} is labelled "
                f"{KIND_LABELS[kind]} by definition, got {int(label)}"
            )


def _decide(
    predictions: Any, observations: _Observations, theta: float | str | None, budget: float | None
) -> tuple[NDArray[np.float64] | None, NDArray[np.bool_], float | None]:
    """Return the scores (None for labels), what fires, and the threshold used."""
    values, column = align(
        predictions,
        observations.keys,
        key="key",
        fields=("prediction", "score"),
        n_rows=len(observations.labels),
    )
    if budget is not None and theta != "select":
        raise ValueError(f'budget: only theta="select" chooses a threshold, got theta={theta!r}')
    if theta is None:
        return None, _labels(values, observations, column), None
    scores = to_numbers(values, name="predictions", row_name=observations.row_name, expected="a finite score")
    if theta == "select":
        theta = select_theta(scores, observations.labels, DEFAULT_BUDGET if budget is None else budget)
    elif isinstance(theta, bool) or not isinstance(theta, Real) or not np.isfinite(float(theta)):
        raise ValueError(f'theta: expected a finite number or "select", got {theta!r}')
    return scores, scores > theta, float(theta)


def _labels(values: list[Any], observations: _Observations, column: str | None) -> NDArray[np.bool_]:
    """Return predicted labels; only whole numbers 0 and 1 are taken for labels."""
    expected = "a label 0 or 1"
    numbers = to_numbers(values, name="predictions", row_name=observations.row_name, expected=expected)
    for row, value in enumerate(values):
        if column == "score" or not isinstance(value, (Integral, np.bool_)):
            raise ValueError(
                f"predictions: {observations.row_name(row)}: {value!r} is a score, not a label: give theta= "
                '(fires when score > theta) or theta="select"'
            )
        if value not in (0, 1):
            raise ValueError(f"predictions: {observations.row_name(row)}: expected {expected}, got {value!r}")
    return numbers == 1
