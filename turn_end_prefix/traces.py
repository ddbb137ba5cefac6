"""What a detector had said by when, and what of it changed between two runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .hops import ROUNDING_SLACK_SAMPLES, hop_boundary

SHORTER_ROUNDING = 1e-6
"""Change, relative to the largest score, that a shorter recording may make: kernels round by array length."""

EARLIEST_PROBE = 20
"""No probe falls into the first 1/20 of a recording, so that one that is cut there is still long enough."""


@dataclass(frozen=True)
class Trace:
    """Answers of one channel and track, in the order in which they were given.

    Attributes:
        heard_samples: samples heard before each answer.
        times_s: when each was given.
        scores: what each was; None for decisions, which are their times.
    """

    heard_samples: NDArray[np.int64]
    times_s: NDArray[np.float64]
    scores: NDArray[np.float64] | None

    def until(self, n_samples: int) -> Trace:
        """Return the answers that had been given by sample ``n_samples``."""
        kept = self.heard_samples <= n_samples
        scores = None if self.scores is None else self.scores[kept]
        return Trace(self.heard_samples[kept], self.times_s[kept], scores)

    def moves(self) -> NDArray[np.float64]:
        """Return how much each answer moved: 1 for a decision, else the step from the score before."""
        if self.scores is None:
            return np.ones(len(self.times_s))
        return np.abs(np.diff(self.scores, prepend=self.scores[:1]))


Traces = dict[tuple[str, str], Trace]
"""``{(track, speaker): Trace}``."""


@dataclass(frozen=True)
class Change:
    """What changed in the past of one channel and track.

    Attributes:
        track: ``eot`` or ``int``.
        speaker: the channel.
        time_s: when the earliest answer that changed had been given.
        amount: largest absolute change of a score, infinite if scores are missing; for decisions, how many
            came or went.
    """

    track: str
    speaker: str
    time_s: float
    amount: float


def read_answers(
    answers: Any,
    speakers: Collection[str],
    sampling_rate: int,
    *,
    decisions: bool,
    lookahead_s: float,
    hop_s: float = 0.08,
) -> Traces:
    """Turn ``{track: {speaker: scores or times}}`` into traces.

    Args:
        answers: scores [n_frames], or decision times in seconds.
        speakers: the channels that they are about.
        sampling_rate: Hz of these channels.
        decisions: which of the two.
        lookahead_s (float, s): audio after a frame's end, or a decision's time, that it may use.
        hop_s (float, s): length of a frame; decisions have none.

    Raises:
        ValueError: another shape, a channel that is missing or unknown, or a value that is not finite.
    """
    if not isinstance(answers, Mapping) or not answers:
        raise ValueError(f"expected {{track: {{speaker: values}}}}, got {type(answers).__name__}")
    ahead = math.floor(lookahead_s * sampling_rate + ROUNDING_SLACK_SAMPLES)
    traces = {}
    for track, channels in answers.items():
        if not isinstance(channels, Mapping) or set(channels) != set(speakers):
            raise ValueError(f"{track}: expected values for each of {', '.join(speakers)}")
        for speaker, values in channels.items():
            array = np.array(values, dtype=np.float64)
            if array.ndim != 1 or not np.isfinite(array).all():
                raise ValueError(f"{track}, {speaker}: expected finite numbers [n], got shape {array.shape}")
            if decisions:
                array.sort()
                heard = np.floor(array * sampling_rate + ROUNDING_SLACK_SAMPLES).astype(np.int64) + ahead
                traces[track, speaker] = Trace(heard, array, None)
            else:
                ends = (hop_boundary(i + 1, hop_s, sampling_rate) + ahead for i in range(len(array)))
                heard = np.fromiter(ends, dtype=np.int64, count=len(array))
                times_s = np.arange(1.0, len(array) + 1) * np.float64(hop_s) + lookahead_s
                traces[track, speaker] = Trace(heard, times_s, array)
    return traces


def check_frame_counts(traces: Traces, n_frames: int, hop_s: float) -> None:
    """Raise ValueError for a trace of more scores than ``n_frames``, or of fewer than half of them."""
    for (track, speaker), trace in traces.items():
        if not n_frames / 2 <= len(trace.times_s) <= n_frames + 1:
            raise ValueError(
                f"{track}, {speaker}: {len(trace.times_s)} scores for {n_frames} frames of {hop_s:g} s: "
                "is hop_s the detector's, or does it return decisions?"
            )


def draw_probes(traces: Traces, n_samples: int, probes: int, rng: np.random.Generator) -> list[int]:
    """Draw the samples from which on the audio is replaced.

    Every third one is spread over the conversation (for scores, at a frame's end); the others fall where an
    answer was just given: at a decision, or at a score, drawn in proportion to how much it moved there.

    Args:
        traces: the answers on the audio as it is.
        n_samples: length of the audio.
        probes: how many to draw.
        rng: draws them.
    """
    heard = np.concatenate([trace.heard_samples for trace in traces.values()])
    moves = np.concatenate([trace.moves() for trace in traces.values()])
    decided = np.concatenate([np.full(len(t.times_s), t.scores is None) for t in traces.values()])
    first = max(1, min(n_samples - 1, n_samples // EARLIEST_PROBE + 1))
    inside = (heard >= first) & (heard < n_samples)
    heard, moves, decided = heard[inside], moves[inside], decided[inside]
    edges = np.linspace(first, n_samples, probes + 1).astype(np.int64).tolist()
    drawn = []
    for index, (low, high) in enumerate(pairwise(edges)):
        within = heard[(heard >= low) & (heard < high) & ~decided]
        if index % 3 and moves.sum() > 0:
            drawn.append(int(rng.choice(heard, p=moves / moves.sum())))
        elif within.size:
            drawn.append(int(rng.choice(within)))
        else:
            drawn.append(int(rng.integers(low, max(high, low + 1))))
    return drawn


def compare(
    before: Traces, after: Traces, *, n_kept: int, tolerance: float, shorter: bool, n_unfinished: int = 0
) -> Iterator[Change]:
    """Yield what changed among the answers that had been given by sample ``n_kept``.

    Args:
        before: answers on the audio as it is.
        after: answers on the altered audio.
        n_kept: samples that both runs had in common.
        tolerance: largest change of a score that counts as none; decisions compare as whole microseconds.
        shorter: the altered audio ends at ``n_kept``; rounding and the frame that it ends in are let pass.
        n_unfinished: of a shorter recording, samples before its end for which answers may be missing: who
            works in blocks says less there. None may be new or other than before: that tells the end.

    Raises:
        ValueError: a track or channel that one of the runs lacks.
    """
    if set(before) != set(after):
        odd = "; ".join(sorted(", ".join(key) for key in set(before) ^ set(after)))
        raise ValueError(f"two runs differ in their tracks or channels: {odd}")
    for (track, speaker), trace in before.items():
        old, new = trace.until(n_kept), after[track, speaker].until(n_kept)
        if n_unfinished:
            settled = int(np.searchsorted(old.heard_samples, n_kept - n_unfinished, "right"))
            old = _without_missing(old, new, settled)
        found = (
            _moved_decisions(old, new) if old.scores is None else _moved_scores(old, new, tolerance, shorter)
        )
        if found is not None:
            yield Change(track, speaker, *found)


def _without_missing(old: Trace, new: Trace, settled: int) -> Trace:
    """Drop the answers after the first ``settled`` ones that the other run did not give."""
    kept = np.ones(len(old.times_s), dtype=bool)
    if old.scores is not None:
        kept[max(settled, len(new.times_s)) :] = False
    else:
        given = set(np.round(new.times_s * 1e6).tolist())
        kept[settled:] = [round(time_s * 1e6) in given for time_s in old.times_s[settled:].tolist()]
    return Trace(old.heard_samples[kept], old.times_s[kept], None if old.scores is None else old.scores[kept])


def _moved_decisions(before: Trace, after: Trace) -> tuple[float, float] | None:
    """Return the earliest decision that came or went, in seconds, and how many did."""
    moved = set(np.round(before.times_s * 1e6).tolist()) ^ set(np.round(after.times_s * 1e6).tolist())
    return (min(moved) / 1e6, float(len(moved))) if moved else None


def _moved_scores(before: Trace, after: Trace, tolerance: float, shorter: bool) -> tuple[float, float] | None:
    """Return when the first changed score was given, in seconds, and the largest change."""
    old, new = before.scores, after.scores
    if old is None or new is None:
        raise ValueError("scores can only be compared with scores")
    n_frames = len(old)
    if shorter:
        tolerance = max(tolerance, SHORTER_ROUNDING * float(np.max(np.abs(old), initial=1.0)))
        if len(new) == n_frames - 1:
            n_frames -= 1
    if len(new) < n_frames:
        return float(before.times_s[len(new)]), math.inf
    change = np.abs(new[:n_frames] - old[:n_frames])
    changed = np.flatnonzero(change > tolerance)
    return (float(before.times_s[changed[0]]), float(change.max())) if changed.size else None
