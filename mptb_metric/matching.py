"""One channel and one track: gold times, spans and predictions to counts and latencies.

The rules (`protocol="mptb"`, MPTB card, section 5):

1. A prediction inside an excluded span is dropped.
2. Positives are taken in ascending time. The one at ``t`` claims the earliest unclaimed remaining
   prediction in ``[t - 0.25, t + 3.0]``: a true positive with latency ``t_pred - t``; none there: a
   false negative. The choice is greedy, not the closest pair: 10.0 takes a prediction at 12.8 that
   would also have been 0.1 s from a positive at 12.9.
3. A negative span is one false positive if an unclaimed remaining prediction lies in ``[start, end]``,
   else one true negative. One prediction makes every span that it lies in a false positive.
4. Predictions elsewhere count nowhere.

`protocol="turnbench"` differs in three places: a positive's window also ends at the next strictly later
positive; a span is charged over ``[start - 0.25, end]``; a prediction in the window of any positive,
claimed or not, is never a false positive.

Times are compared as whole microseconds, ``round(t * 1e6)`` half to even, and every interval is closed, so
a hit on an edge is a hit wherever on the clock it happens.
"""

from __future__ import annotations

import reprlib
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

EARLY_US = 250_000  # a decision may come this long before its positive (card, section 5)
LATE_US = 3_000_000  # and this long after it
PROTOCOLS = ("mptb", "turnbench")
LATEST_S = 1e9  # 32 years: no channel is that long, and microseconds are exact well beyond it

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Counts:
    """Pooled counts of any number of channels of one track; `a + b` pools two.

    Attributes:
        tp: positives that were found.
        fn: positives that were not.
        fp: negative spans with a decision in them.
        tn: negative spans without.
        latencies_s: `t_pred - t_gold` of every true positive, seconds; negative = early.
    """

    tp: int = 0
    fn: int = 0
    fp: int = 0
    tn: int = 0
    latencies_s: tuple[float, ...] = ()

    def __add__(self, other: object) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        return Counts(
            self.tp + other.tp,
            self.fn + other.fn,
            self.fp + other.fp,
            self.tn + other.tn,
            self.latencies_s + other.latencies_s,
        )

    def __radd__(self, other: object) -> Counts:
        return Counts() + self if other == 0 else NotImplemented  # the 0 that sum() starts with

    @property
    def recall(self) -> float:
        """`tp / (tp + fn)`; nan where there is no positive."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else float("nan")

    @property
    def fpr(self) -> float:
        """`fp / (fp + tn)`; nan where there is no negative span."""
        return self.fp / (self.fp + self.tn) if self.fp + self.tn else float("nan")

    def latency_percentile_s(self, percent: float) -> float:
        """Interpolate linearly between the ordered latencies; nan where nothing was found."""
        return float(np.percentile(self.latencies_s, percent)) if self.latencies_s else float("nan")

    @property
    def latency_p10_s(self) -> float:
        """The 10th percentile of the latencies, seconds."""
        return self.latency_percentile_s(10)

    @property
    def latency_p50_s(self) -> float:
        """The median latency, seconds."""
        return self.latency_percentile_s(50)

    @property
    def latency_p90_s(self) -> float:
        """The 90th percentile of the latencies, seconds."""
        return self.latency_percentile_s(90)


@dataclass(frozen=True)
class Match(Counts):
    """The counts of one channel and track, and what was matched with what.

    Indices refer to the arguments of `match` in the order in which they were given.

    Attributes:
        hits: (positive, prediction) index pairs, in ascending time of the positive, as `latencies_s`.
        false_alarms: (negative span, prediction) index pairs: the first decision that charged the span.
        dropped: indices of predictions inside an excluded span.
    """

    hits: Pairs = ()
    false_alarms: Pairs = ()
    dropped: tuple[int, ...] = ()


def match(
    positives: Sequence[float],
    negative_spans: Sequence[Any],
    excluded_spans: Sequence[Any],
    predictions: Sequence[float],
    *,
    protocol: str = "mptb",
) -> Match:
    """Match the decisions of one channel and one track to its gold.

    The rules are told at the top of this module. The order of every argument is free.

    Args:
        positives (array-like, [n], s): gold times.
        negative_spans (array-like, [n] of (start, end) or {"start", "end"}, s): where firing is wrong.
        excluded_spans (array-like, as above): where predictions are ignored. A span may begin as early
            as -0.25 s, the margin that the card puts around a cut-off turn.
        predictions (array-like, [n], s): decision times.
        protocol: "mptb" or "turnbench".

    Returns:
        The counts, the signed latencies in the order of their positives, and the index pairs. Empty
        arguments give zero counts.

    Raises:
        ValueError: a time that is not a finite number, negative, or beyond 1e9 s; a span that ends before
            it starts; a wrong shape; an unknown protocol. The message names the argument and the index.
    """
    positive_us = times_us(positives, "positives")
    negative_us = spans_us(negative_spans, "negative_spans")
    excluded_us = spans_us(excluded_spans, "excluded_spans", earliest_s=-EARLY_US / 1e6)
    prediction_us = times_us(predictions, "predictions")
    check_protocol(protocol)

    order = sorted(range(len(prediction_us)), key=prediction_us.__getitem__)
    excluded = covered([prediction_us[p] for p in order], excluded_us)
    kept = [p for p, is_excluded in zip(order, excluded, strict=True) if not is_excluded]
    kept_us = [prediction_us[p] for p in kept]

    by_time = sorted(range(len(positive_us)), key=positive_us.__getitem__)
    windows = windows_us([positive_us[g] for g in by_time], protocol)
    claims = claim(windows, kept_us)
    hits = tuple((g, kept[p]) for g, p in zip(by_time, claims, strict=True) if p is not None)

    free = sorted(set(range(len(kept))).difference(p for p in claims if p is not None))
    if protocol == "turnbench":
        in_window = covered(kept_us, windows)
        free = [p for p in free if not in_window[p]]
    charges = first_inside(charged_us(negative_us, protocol), [kept_us[p] for p in free])
    false_alarms = tuple((span, kept[free[p]]) for span, p in enumerate(charges) if p is not None)
    return Match(
        tp=len(hits),
        fn=len(positive_us) - len(hits),
        fp=len(false_alarms),
        tn=len(negative_us) - len(false_alarms),
        latencies_s=tuple((prediction_us[p] - positive_us[g]) / 1e6 for g, p in hits),
        hits=hits,
        false_alarms=false_alarms,
        dropped=tuple(sorted(set(order).difference(kept))),
    )


def windows_us(positives_us: Sequence[int], protocol: str) -> list[tuple[int, int]]:
    """Give each of the ascending positives its closed window, microseconds; starts and ends ascend too."""
    ends = [t + LATE_US for t in positives_us]
    if protocol == "turnbench":
        for i, t in enumerate(positives_us):
            later = bisect_right(positives_us, t)
            if later < len(positives_us):
                ends[i] = min(ends[i], positives_us[later])
    return [(t - EARLY_US, end) for t, end in zip(positives_us, ends, strict=True)]


def charged_us(negative_us: Sequence[tuple[int, int]], protocol: str) -> list[tuple[int, int]]:
    """Give each negative span the closed interval over which it is charged, microseconds."""
    early = EARLY_US if protocol == "turnbench" else 0
    return [(start - early, end) for start, end in negative_us]


def claim(windows: Sequence[tuple[int, int]], points: Sequence[int]) -> list[int | None]:
    """Let each window in turn claim the earliest free point in it; both are ascending.

    Starts ascend, so a point that lies before one window is of no use to a later one: one pass is enough.
    """
    claims: list[int | None] = []
    free = 0
    for start, end in windows:
        free = bisect_left(points, start, free)
        if free < len(points) and points[free] <= end:
            claims.append(free)
            free += 1
        else:
            claims.append(None)
    return claims


def first_inside(spans: Sequence[tuple[int, int]], points: Sequence[int]) -> list[int | None]:
    """Find for each closed span the first of the ascending points inside it."""
    firsts = []
    for start, end in spans:
        i = bisect_left(points, start)
        firsts.append(i if i < len(points) and points[i] <= end else None)
    return firsts


def covered(points: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[bool]:
    """Tell for each point whether any of the closed spans, in any order, contains it."""
    if not spans:
        return [False] * len(points)
    starts, ends = zip(*sorted(spans), strict=True)
    furthest = list(accumulate(ends, max))  # the latest end among the spans that began so far
    began = [bisect_right(starts, p) for p in points]
    return [k > 0 and p <= furthest[k - 1] for p, k in zip(points, began, strict=True)]


def check_protocol(protocol: str) -> None:
    """Refuse a protocol that does not exist."""
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol {protocol!r} is unknown; expected one of {', '.join(PROTOCOLS)}")


def times_us(times_s: Sequence[float], name: str) -> list[int]:
    """Turn seconds into whole microseconds, refusing what is not a time; `name` is for the message."""
    return [_microseconds(t, name, i) for i, t in enumerate(_items(times_s, name, "seconds"))]


def spans_us(spans_s: Sequence[Any], name: str, *, earliest_s: float = 0.0) -> list[tuple[int, int]]:
    """Turn spans in seconds into pairs of whole microseconds, refusing what is not a span."""
    spans = []
    for i, span in enumerate(_items(spans_s, name, "(start, end) or {'start', 'end'}")):
        start_s, end_s = _pair(span, name, i)
        start = _microseconds(start_s, name, i, earliest_s)
        end = _microseconds(end_s, name, i, earliest_s)
        if end < start:
            raise ValueError(f"{name}[{i}]: ends before it starts: {start_s!r} to {end_s!r}")
        spans.append((start, end))
    return spans


def _items(values: Any, name: str, expected: str) -> Sequence[Any]:
    if hasattr(values, "tolist"):  # NumPy and its relatives; their own scalars would be slow to loop over
        values = values.tolist()
    if isinstance(values, str | bytes | Mapping | set) or not hasattr(values, "__iter__"):
        raise ValueError(f"{name}: expected a sequence of {expected}, got {reprlib.repr(values)}")
    return values


def _pair(span: Any, name: str, index: int) -> tuple[Any, Any]:
    if isinstance(span, Mapping) and set(span) == {"start", "end"}:
        return span["start"], span["end"]
    if isinstance(span, str | bytes | Mapping | set) or not hasattr(span, "__len__") or len(span) != 2:
        raise ValueError(
            f"{name}[{index}]: expected (start, end) or {{'start', 'end'}}, got {reprlib.repr(span)}"
        )
    start, end = span
    return start, end


def _microseconds(time_s: Any, name: str, index: int, earliest_s: float = 0.0) -> int:
    is_number = isinstance(time_s, int | float | np.integer | np.floating) and not isinstance(time_s, bool)
    if not is_number or not earliest_s <= time_s <= LATEST_S:  # NaN compares false
        raise ValueError(
            f"{name}[{index}]: expected a finite time in seconds, from {earliest_s:g} to {LATEST_S:g}, "
            f"got {reprlib.repr(time_s)}"
        )
    return round(float(time_s) * 1e6)
