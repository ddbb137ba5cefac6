"""Scores against binary labels: the operating point, ROC AUC and average precision, all exact with ties."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def select_theta(scores: NDArray[np.float64], labels: NDArray[np.bool_], budget: float) -> float:
    """Return the threshold of the operating-point rule.

    The highest recall among the thresholds with FPR <= ``budget``; ties by lower FPR, then by higher
    threshold. Every distinct score is tried and one value below them all (a score fires when it is strictly
    above).

    Args:
        scores: finite, float64 [n].
        labels: whether firing is right, bool [n].
        budget: the highest false-positive rate allowed, in [0, 1].

    Raises:
        ValueError: a budget out of range; no threshold qualifies, as without positives there is no recall and
            without negatives no FPR.

    References:
        The scoring protocol, "Operating point".
    """
    if isinstance(budget, (bool, str)) or not 0 <= budget <= 1:
        raise ValueError(f"budget: expected a false-positive rate in [0, 1], got {budget!r}")
    positives, negatives = np.sort(scores[labels]), np.sort(scores[~labels])
    if not len(positives) or not len(negatives):
        kind, rate = ("positives", "recall") if not len(positives) else ("negatives", "FPR")
        raise ValueError(f'theta="select": no operating point: without {kind} there is no {rate}')
    distinct = np.unique(scores)
    lowest = distinct[0]
    # One less is the same number among huge ones.
    below_all = min(lowest - 1.0, np.nextafter(lowest, -np.inf))
    thresholds = np.concatenate([[below_all], distinct])
    tp = len(positives) - np.searchsorted(positives, thresholds, side="right")
    fp = len(negatives) - np.searchsorted(negatives, thresholds, side="right")
    # The highest score as threshold fires nowhere, so at least one qualifies.
    allowed = np.flatnonzero(fp / len(negatives) <= budget)
    best = allowed[np.lexsort((-thresholds[allowed], fp[allowed], -tp[allowed]))[0]]
    return float(thresholds[best])


def roc_auc(scores: NDArray[np.float64], labels: NDArray[np.bool_]) -> float:
    """Return the share of (positive, negative) pairs that the scores put in order, ties counting half.

    NaN where one of the classes is empty.

    Args:
        scores: finite, float64 [n].
        labels: bool [n].
    """
    positives, negatives = scores[labels], np.sort(scores[~labels])
    n_pairs = len(positives) * len(negatives)
    if not n_pairs:
        return float("nan")
    below = np.searchsorted(negatives, positives, side="left").sum()
    not_above = np.searchsorted(negatives, positives, side="right").sum()
    return float((below + not_above) / (2 * n_pairs))


def average_precision(scores: NDArray[np.float64], labels: NDArray[np.bool_]) -> float:
    """Return the mean precision over the positives, in order of falling score.

    ``sum((R_i - R_{i-1}) * P_i)`` over the distinct scores, each taken as the lowest that fires:
    scikit-learn's definition, without interpolation. NaN without positives.

    Args:
        scores: finite, float64 [n].
        labels: bool [n].
    """
    if not labels.any():
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    last_of_score = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    tp = np.cumsum(labels[order])[last_of_score]
    precision = tp / (last_of_score + 1)
    return float((np.diff(tp, prepend=0) * precision).sum() / tp[-1])
