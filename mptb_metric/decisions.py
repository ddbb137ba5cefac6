"""From a score trace to decision times: rising edges over a threshold, with a refractory period.

Frame ``i`` of a trace at ``frame_rate`` Hz covers ``[i / frame_rate, (i + 1) / frame_rate)`` and its score
may depend on audio up to its end, so a decision is taken at the frame's end. A frame is above when
``score > theta``, strictly; the frame before the first counts as not above. An edge, a frame that is above
and whose predecessor is not, becomes a decision unless the last decision was fewer than
``max(1, round(refractory_s * frame_rate))`` frames ago: then it is lost, not delayed.
"""

from __future__ import annotations

import math
import reprlib
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

REFRACTORY_S = 2.0  # MPTB card, section 5


def decide(
    scores: Sequence[float],
    frame_rate: float,
    theta: float,
    *,
    refractory_s: float = REFRACTORY_S,
    lookahead_s: float = 0.0,
    name: str = "scores",
) -> np.ndarray:
    """Take the decisions of one channel and one track at one threshold.

    The rules are told at the top of this module. Scores are compared in 64 bits whatever their type, so that
    a threshold means the same for float32 and float64 traces.

    Args:
        scores (array-like, [n_frames]): one score per frame.
        frame_rate (float, Hz, > 0): frames per second.
        theta (float): the threshold; infinite ones never fire or fire once, at the first frame.
        refractory_s (float, s, >= 0): after a decision, edges are lost for this long.
        lookahead_s (float, s, >= 0): audio beyond its end that a frame's score used; it delays decisions.
        name: what the trace is called in messages, such as its channel.

    Returns:
        float64 array, [n_decisions]: decision times in seconds, ascending.

    Raises:
        ValueError: scores that are not a flat sequence of finite numbers (the message names the frame), or
            an argument out of its range.
    """
    trace = score_trace(scores, name)
    check_timing(frame_rate, refractory_s, lookahead_s)
    if not isinstance(theta, int | float | np.integer | np.floating) or math.isnan(theta):
        raise ValueError(f"theta: expected a number, got {theta!r}")
    above = trace > float(theta)
    edges = np.flatnonzero(above & ~np.concatenate(([False], above[:-1])))
    frames = chain(edges.tolist(), refractory_frames(refractory_s, frame_rate))
    return frame_times_s(np.asarray(frames, np.int64), frame_rate, lookahead_s)


def chain(edges: Sequence[int], refractory: int) -> list[int]:
    """Keep of the ascending edges those that come `refractory` frames or more after the last one kept."""
    kept: list[int] = []
    i = 0
    while i < len(edges):
        kept.append(edges[i])
        i = bisect_left(edges, edges[i] + refractory, i + 1)
    return kept


def refractory_frames(refractory_s: float, frame_rate: float) -> int:
    """Give the least distance of two decisions in frames, at least one; halves round to even."""
    return max(1, round(float(refractory_s) * float(frame_rate)))


def frame_times_s(frames: np.ndarray, frame_rate: float, lookahead_s: float) -> np.ndarray:
    """Give the times in seconds at which decisions at these frames are taken."""
    return (frames + 1) / float(frame_rate) + float(lookahead_s)


def score_trace(scores: Any, name: str) -> np.ndarray:
    """Make a flat float64 trace of finite numbers, or say which frame is none."""
    try:
        array = np.asarray(scores)
    except ValueError as error:
        raise ValueError(f"{name}: expected a flat sequence of numbers: {error}") from error
    if array.ndim != 1:
        raise ValueError(f"{name}: expected one score per frame, a flat sequence, got shape {array.shape}")
    if array.dtype.kind not in "iuf" and len(array):
        raise ValueError(f"{name}: expected numbers, got {reprlib.repr(scores)}")
    trace = array.astype(np.float64)
    finite = np.isfinite(trace)
    if not finite.all():
        frame = int(np.argmin(finite))
        raise ValueError(f"{name}: frame {frame}: expected a finite score, got {float(trace[frame])!r}")
    return trace


def check_timing(frame_rate: float, refractory_s: float, lookahead_s: float) -> None:
    """Refuse rates and durations that mean nothing."""
    if not (_is_finite(frame_rate) and frame_rate > 0):
        raise ValueError(f"frame_rate: expected frames per second, more than 0, got {frame_rate!r}")
    for argument, value in (("refractory_s", refractory_s), ("lookahead_s", lookahead_s)):
        if not (_is_finite(value) and value >= 0):
            raise ValueError(f"{argument}: expected seconds, 0 or more, got {value!r}")


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and math.isfinite(value)
