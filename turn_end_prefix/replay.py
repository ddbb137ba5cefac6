"""A conversation in hops, all channels at once, nothing from the future.

A detector gets a fresh array for every hop, which holds that hop and nothing else.
`turn_end_prefix.hops` says where a frame begins and ends.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .hops import Channels, check_channels, check_hop, count_frames, hops_of

Scores = dict[str, dict[str, NDArray[np.float64]]]
"""``{track: {speaker: scores float64 [n_frames]}}``."""


@runtime_checkable
class Detector(Protocol):
    """What every detector offers: state that is reset per conversation and fed hop by hop.

    Attributes:
        name: shown in tables and records.
        lookahead_s: seconds of audio after a frame's end that its score uses; 0 for a detector that
            answers at once. One that declares more answers later: its answer to a push belongs to the
            frame that ended ``floor(lookahead_s / hop_s)`` hops before.
        sampling_rate: the rate in Hz that it wants to hear, or None for the recording's own.
    """

    name: str
    lookahead_s: float
    sampling_rate: int | None

    def reset(self, speakers: Sequence[str], sampling_rate: int) -> None:
        """Forget the past; the next hops have one row per speaker, in this order, at this rate."""

    def push(self, hop: NDArray[np.float32]) -> Mapping[str, ArrayLike]:
        """Hear the next hop, float32 [n_channels, hop_samples]; answer ``{track: scores [n_channels]}``."""


@dataclass
class ReplayTimer:
    """Where the time of one or more replays went; pass one to `replay` and read it afterwards.

    Attributes:
        audio_s: length of the conversations heard (not multiplied by the number of channels).
        detector_s: time spent inside the detector.
        total_s: time spent in all, the detector's included.
        clock: what tells the time, in seconds; `time.process_time` counts this process's work alone.
    """

    audio_s: float = 0.0
    detector_s: float = 0.0
    total_s: float = 0.0
    clock: Callable[[], float] = time.perf_counter

    @property
    def real_time_factor(self) -> float:
        """Seconds of work per second of conversation; NaN before anything was heard."""
        return self.total_s / self.audio_s if self.audio_s else math.nan

    @property
    def harness_share(self) -> float:
        """Work outside the detector relative to the detector's own; NaN before anything was heard."""
        return (self.total_s - self.detector_s) / self.detector_s if self.detector_s else math.nan


def lookahead_of(detector: object) -> float:
    """Return the lookahead that a detector declares, in seconds; 0 if it declares none.

    Raises:
        ValueError: it is negative or not finite.
    """
    lookahead_s = float(getattr(detector, "lookahead_s", 0.0))
    if not 0 <= lookahead_s < math.inf:
        raise ValueError(f"lookahead_s must be finite and not negative, got {lookahead_s}")
    return lookahead_s


class _Collector:
    """Scores of all frames, [n_channels, n_frames] per track, copied as they come and checked."""

    def __init__(self, speakers: Sequence[str], n_frames: int) -> None:
        self._speakers = speakers
        self._n_frames = n_frames
        self._tracks: dict[str, NDArray[np.float64]] = {}

    def add(self, frame: int, answer: Mapping[str, ArrayLike]) -> None:
        """Take the answer about a frame; answers about frames before the first are only checked."""
        if not isinstance(answer, Mapping) or not answer:
            raise ValueError(
                f"frame {frame}: push must return {{track: scores [n_channels]}}, got {answer!r}"
            )
        if not self._tracks:
            shape = (len(self._speakers), self._n_frames)
            self._tracks = {track: np.empty(shape) for track in answer}
        if answer.keys() != self._tracks.keys():
            raise ValueError(
                f"frame {frame}: tracks {sorted(answer)} differ from those before, {sorted(self._tracks)}"
            )
        for track, values in answer.items():
            try:
                scores = np.asarray(values, dtype=np.float64)
            except (TypeError, ValueError):
                raise ValueError(
                    f"frame {frame}, {track}: scores must be real numbers, got {values!r}"
                ) from None
            if scores.shape != (len(self._speakers),):
                raise ValueError(
                    f"frame {frame}, {track}: expected a score for each of {len(self._speakers)} channels, "
                    f"got shape {scores.shape}"
                )
            if frame >= 0:
                self._tracks[track][:, frame] = scores

    def scores(self) -> Scores:
        """Return what was collected, all of it finite."""
        for track, rows in self._tracks.items():
            finite = np.isfinite(rows)
            if not finite.all():
                frame = int(np.argmin(finite.all(axis=0)))
                speaker = self._speakers[int(np.argmin(finite[:, frame]))]
                raise ValueError(f"frame {frame}, {track}, {speaker}: score is not finite")
        return {track: dict(zip(self._speakers, rows, strict=True)) for track, rows in self._tracks.items()}


def replay(
    channels: Channels, detector: Detector, *, hop_s: float = 0.08, timer: ReplayTimer | None = None
) -> Scores:
    """Let a detector hear a conversation hop by hop, all channels at once, and collect its scores.

    The score of frame ``i`` is the detector's answer after it heard the audio up to the frame's end (plus
    the detector's ``lookahead_s``, rounded down to hops) and nothing later. A detector that wants another
    rate hears the channels resampled on the fly, and late by `hops.resampling_delay_samples`, so that
    this stays true.

    Args:
        channels: ``{speaker: (samples, rate)}``: floats [n], Hz; all channels of one length and rate.
        detector: see `Detector`. It is reset first.
        hop_s (float, s): length of a frame; the frame rate is ``1 / hop_s``.
        timer: collects the time spent, over several replays if it is passed again.

    Returns:
        ``{track: {speaker: scores}}``, float64 [n_frames]; a frame that is begun counts.

    Raises:
        ValueError: faulty channels (see `hops.check_channels`), a hop below one sample, or an answer that
            lacks a channel, changes its tracks or is not finite; the message names the speaker, track and
            frame.
        TypeError: an object without ``reset`` or ``push``.
        ImportError: the detector wants another rate and soxr is not installed.
    """
    timer = timer or ReplayTimer()
    clock = timer.clock
    began = clock()
    if not (hasattr(detector, "reset") and hasattr(detector, "push")):
        raise TypeError(
            f"{type(detector).__name__} is no detector: expected reset(speakers, sampling_rate) and push(hop)"
        )
    recording = check_channels(channels)
    rate = getattr(detector, "sampling_rate", None) or recording.sampling_rate
    check_hop(hop_s, min(rate, recording.sampling_rate))
    n_frames = count_frames(recording.n_samples, hop_s, recording.sampling_rate)
    ahead = math.floor(lookahead_of(detector) / hop_s + 1e-9)
    collector = _Collector(recording.speakers, n_frames)
    entered = clock()
    detector.reset(recording.speakers, rate)
    detector_s = clock() - entered
    for index, hop in enumerate(hops_of(recording, hop_s, n_frames + ahead, rate)):
        entered = clock()
        answer = detector.push(hop)
        detector_s += clock() - entered
        collector.add(index - ahead, answer)
    scores = collector.scores()
    timer.audio_s += recording.duration_s
    timer.detector_s += detector_s
    timer.total_s += clock() - began
    return scores
