"""Every threshold at once: exact counts, rates and latencies of one track.

The decisions of a channel change only where the threshold crosses one of its scores, so "all thresholds" is a
finite set: the distinct scores, and one value below them all.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .decisions import REFRACTORY_S, check_timing, decide, frame_times_s, refractory_frames, score_trace
from .matching import EARLY_US, Match, charged_us, check_protocol, match, spans_us, times_us, windows_us
from .steps import Steps, place, steps
from .tradeoff import NO_LATENCY, Sweep

GOLD = ("positives", "negative_spans", "excluded_spans")
QUANTILES = (0.1, 0.5, 0.9)


def sweep(
    channels: Iterable[Mapping[str, Any]],
    frame_rate: float,
    *,
    thresholds: str | Sequence[float] = "all",
    protocol: str = "mptb",
    refractory_s: float = REFRACTORY_S,
    lookahead_s: float = 0.0,
) -> Sweep:
    """Score one track at every threshold.

    The result equals deciding and matching anew at each threshold, but each channel is followed from the
    lowest to the highest and only what changes is computed.

    Args:
        channels: mappings with `positives`, `negative_spans`, `excluded_spans` (as for `match`) and
            `scores` (as for `decide`); `conversation_id` and `speaker`, where present, go into messages.
        frame_rate (float, Hz): of all traces.
        thresholds: "all" for every distinct score and one value below them all (none where there are no
            scores), or a grid of distinct finite numbers in any order.
        protocol: "mptb" or "turnbench".
        refractory_s (float, s): as for `decide`.
        lookahead_s (float, s): as for `decide`.

    Raises:
        ValueError: bad gold, scores or arguments; the message names the channel, and the frame or index.
    """
    check_timing(frame_rate, refractory_s, lookahead_s)
    check_protocol(protocol)
    checked = [_checked(channel, i) for i, channel in enumerate(channels)]
    if isinstance(thresholds, str):
        if thresholds != "all":
            raise ValueError(f"thresholds: expected 'all' or a grid of numbers, got {thresholds!r}")
        theta = _every_threshold([trace for *_, trace in checked])
    else:
        theta = _grid(thresholds)
    refractory = refractory_frames(refractory_s, frame_rate)
    followed = []
    for positives, negatives, excluded, trace in checked:
        times_s = frame_times_s(np.arange(len(trace)), frame_rate, lookahead_s)
        channel = place(
            np.rint(times_s * 1e6).astype(np.int64),
            positives,
            windows_us(positives, protocol),
            charged_us(negatives, protocol),
            excluded,
            windows_shield=protocol == "turnbench",
        )
        ranks = np.searchsorted(theta, trace, "left")
        followed.append(steps(channel, ranks, len(theta), refractory))
    n_positives = sum(len(positives) for positives, *_ in checked)
    n_negatives = sum(len(negatives) for _, negatives, *_ in checked)
    return _pooled(followed, theta, n_positives, n_negatives, exact=isinstance(thresholds, str))


def channel_counts(
    channels: Iterable[Mapping[str, Any]],
    frame_rate: float,
    theta: float,
    *,
    protocol: str = "mptb",
    refractory_s: float = REFRACTORY_S,
    lookahead_s: float = 0.0,
) -> list[Match]:
    """Score each channel at one threshold: the sums that intervals and groups are made of.

    Arguments and errors are those of `sweep`; the list is in the order of the channels.
    """
    found = []
    for i, channel in enumerate(channels):
        name = _name(channel, i)
        times_s = decide(
            _get(channel, "scores", name),
            frame_rate,
            theta,
            refractory_s=refractory_s,
            lookahead_s=lookahead_s,
            name=name,
        )
        positives, negatives, excluded = (_get(channel, key, name) for key in GOLD)
        try:
            found.append(match(positives, negatives, excluded, times_s.tolist(), protocol=protocol))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return found


def _checked(channel: Mapping[str, Any], index: int) -> tuple[list[int], list[Any], list[Any], np.ndarray]:
    """Validate a channel: ascending positives, spans and excluded spans in microseconds, and its trace."""
    name = _name(channel, index)
    return (
        sorted(times_us(_get(channel, "positives", name), f"{name}: positives")),
        spans_us(_get(channel, "negative_spans", name), f"{name}: negative_spans"),
        spans_us(
            _get(channel, "excluded_spans", name), f"{name}: excluded_spans", earliest_s=-EARLY_US / 1e6
        ),
        score_trace(_get(channel, "scores", name), f"{name}: scores"),
    )


def _name(channel: Mapping[str, Any], index: int) -> str:
    if not isinstance(channel, Mapping):
        raise ValueError(
            f"channel {index}: expected a mapping with gold and scores, got {type(channel).__name__}"
        )
    ids = " ".join(str(channel[key]) for key in ("conversation_id", "speaker") if key in channel)
    return f"channel {index} ({ids})" if ids else f"channel {index}"


def _get(channel: Mapping[str, Any], key: str, name: str) -> Any:
    if key not in channel:
        raise ValueError(f"{name}: has no {key!r}")
    return channel[key]


def _every_threshold(traces: Sequence[np.ndarray]) -> np.ndarray:
    scores = np.unique(np.concatenate([np.empty(0), *traces]))
    if not len(scores):
        return scores
    below = min(scores[0] - 1.0, np.nextafter(scores[0], -np.inf))  # one less is the same among huge numbers
    return np.concatenate(([below], scores))


def _grid(thresholds: Sequence[float]) -> np.ndarray:
    grid = np.sort(score_trace(thresholds, "thresholds"))
    if not len(grid):
        raise ValueError("thresholds: the grid is empty")
    twice = np.flatnonzero(np.diff(grid) == 0)
    if len(twice):
        raise ValueError(f"thresholds: {float(grid[twice[0]])!r} is there twice")
    return grid


def _pooled(
    followed: Sequence[Steps], theta: np.ndarray, n_positives: int, n_negatives: int, *, exact: bool
) -> Sweep:
    """Add up the channels' steps into counts and latency percentiles at every threshold."""
    at = np.array([k for steps in followed for k in steps.at], np.int64)
    tp, fp = np.zeros((2, len(theta)), np.int64)
    np.add.at(tp, at, np.array([d for steps in followed for d in steps.tp], np.int64))
    np.add.at(fp, at, np.array([d for steps in followed for d in steps.fp], np.int64))
    tp, fp = np.cumsum(tp), np.cumsum(fp)
    moves = [move for steps in followed for move in steps.latencies]
    low, medium, high, median_half_us = _percentiles(at, moves, len(theta))
    return Sweep(
        theta=theta,
        tp=tp,
        fn=n_positives - tp,
        fp=fp,
        tn=n_negatives - fp,
        latency_p10_s=low,
        latency_p50_s=medium,
        latency_p90_s=high,
        median_half_us=median_half_us,
        exact=exact,
    )


def _percentiles(
    at: np.ndarray, moves: Sequence[tuple[list[int], list[int]]], n_thresholds: int
) -> tuple[np.ndarray, ...]:
    """Keep one sorted list of all latencies up to date and read the percentiles where it changes."""
    latencies: list[int] = []
    changed, read = [-1], [_neighbours(latencies)]
    order = np.argsort(at, kind="stable")
    for k, i in zip(at[order].tolist(), order.tolist(), strict=True):
        gone, come = moves[i]
        if gone == come:
            continue  # only a false positive came or went
        for latency in gone:
            del latencies[bisect_left(latencies, latency)]
        for latency in come:
            insort(latencies, latency)
        changed.append(k)  # more than once at one threshold: the last reading counts
        read.append(_neighbours(latencies))
    rows = np.array(read, np.int64)
    spread = np.searchsorted(changed, np.arange(n_thresholds), "right") - 1
    percentiles = [
        _interpolated(rows[:, 0], rows[:, 1 + 2 * i : 3 + 2 * i], q) for i, q in enumerate(QUANTILES)
    ]
    half_us = np.where(rows[:, 0] % 2, 2 * rows[:, 3], rows[:, 3] + rows[:, 4])
    half_us[rows[:, 0] == 0] = NO_LATENCY
    return (*(values[spread] for values in percentiles), half_us[spread])


def _neighbours(latencies: Sequence[int]) -> list[int]:
    """Give the number of sorted latencies and the two that enclose each quantile."""
    n = len(latencies)
    if not n:
        return [0] * (1 + 2 * len(QUANTILES))
    below = [int((n - 1) * q) for q in QUANTILES]
    return [n, *(latencies[min(i + step, n - 1)] for i in below for step in (0, 1))]


def _interpolated(n: np.ndarray, neighbours_us: np.ndarray, quantile: float) -> np.ndarray:
    """Interpolate in seconds exactly as `numpy.percentile` does, to the last bit; nan where n is 0."""
    below, above = neighbours_us.T / 1e6
    position = (n - 1) * quantile
    share = position - np.floor(position)
    gap = above - below
    values = np.where(share >= 0.5, above - gap * (1 - share), below + gap * share)
    return np.where(n > 0, values, np.nan)
