"""A model of turns behind a voice activity detector: asked when a channel that held the floor falls silent.

The model is a function of a prefix: float32 samples of one channel up to now, at its rate, to a score in
0..1. It hears the current turn, from half a second before its speech, at most its last few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..hops import check_rate
from .floor import Array, FloorTracker, VoiceActivity, score_of

Model = Callable[[NDArray[np.float32], int], float]
"""``f(samples float32 [n], sampling rate in Hz)``: how surely the turn has ended by the last sample."""


@dataclass(frozen=True)
class TurnSettings:
    """When a `TurnModelDetector` asks its model, and about which audio; in seconds.

    Attributes:
        silence_s: silence of the channel after which the model is asked.
        again_s: asked again after each so much more silence, until ``stop_s``; None: once per silence.
        stop_s: silence after which the turn is over, whatever the model says.
        before_s: audio before the turn's speech that the model hears too.
        window_s: most audio that it hears.
        complete: score above which the turn counts as over: later speech begins a new one.
    """

    silence_s: float = 0.2
    again_s: float | None = None
    stop_s: float = 3.0
    before_s: float = 0.5
    window_s: float = 8.0
    complete: float = 0.5


class History:
    """The last samples of all channels, float32 [n_channels, at most n_kept]."""

    def __init__(self, n_channels: int, n_kept: int) -> None:
        self.n_heard = 0
        self._n_kept = n_kept
        self._buffer = np.zeros((n_channels, 2 * n_kept), dtype=np.float32)
        self._end = 0

    def append(self, hop: NDArray[np.float32]) -> None:
        """Add the newest samples; more than the history keeps are cut to the last ones."""
        self.n_heard += hop.shape[1]
        hop = hop[:, -self._n_kept :]
        if self._end + hop.shape[1] > self._buffer.shape[1]:
            kept = min(self._end, self._n_kept)
            self._buffer[:, :kept] = self._buffer[:, self._end - kept : self._end]
            self._end = kept
        self._buffer[:, self._end : self._end + hop.shape[1]] = hop
        self._end += hop.shape[1]

    def since(self, channel: int, start: int) -> NDArray[np.float32]:
        """Return a copy of a channel from sample ``start`` of the recording on, as far back as is kept."""
        length = min(self.n_heard - start, self._n_kept, self._end)
        return self._buffer[channel, self._end - length : self._end].copy()


class TurnModelDetector:
    """``eot`` from a model that is asked in silences; ``int`` from voice activity and floor tracking.

    The ``eot`` score of a channel that held the floor is the model's latest answer while its silence lasts,
    and 0 while it speaks or before the model was asked.

    Args:
        model: see `Model`.
        voice: tells speech from everything else.
        name: shown in tables and records.
        sampling_rate: Hz that the model and ``voice`` hear.
        settings: when to ask.
    """

    lookahead_s = 0.0

    def __init__(
        self,
        model: Model,
        voice: VoiceActivity,
        *,
        name: str,
        sampling_rate: int = 16000,
        settings: TurnSettings | None = None,
    ) -> None:
        self.name = name
        self.sampling_rate: int | None = sampling_rate
        self.settings = settings or TurnSettings()
        self._model = model
        self._voice = voice
        self._rate = sampling_rate

    def reset(self, speakers: Sequence[str], sampling_rate: int) -> None:
        """Forget the past and expect one row per speaker at the model's rate.

        Raises:
            ValueError: another rate than the model's.
        """
        check_rate(self.name, self._rate, sampling_rate)
        n = len(speakers)
        self._voice.reset(n, sampling_rate)
        self._floor = FloorTracker(n)
        self._history = History(n, round(self.settings.window_s * sampling_rate))
        self._turn_start = np.zeros(n, dtype=np.int64)
        self._turn_over = np.ones(n, dtype=bool)
        self._ask_at_s: Array = np.full(n, self.settings.silence_s)
        self._answer: Array = np.zeros(n)

    def push(self, hop: NDArray[np.float32]) -> dict[str, Array]:
        """Hear a hop, float32 [n_channels, hop_samples]; return ``eot`` and ``int`` scores in [0, 1]."""
        speaking, presence = self._voice.hear(hop)
        floor = self._floor
        floor.update(speaking, presence, hop.shape[1] / self._rate)
        before = round(self.settings.before_s * self._rate)
        opens = floor.begins & (self._turn_over | (np.arange(len(speaking)) != floor.holder))
        self._turn_start[opens] = max(0, self._history.n_heard - before)
        self._turn_over[opens] = False
        self._history.append(hop)
        self._ask_at_s[speaking] = self.settings.silence_s
        self._answer[speaking] = 0.0
        asking = floor.held & (floor.silence_s >= self._ask_at_s) & (floor.silence_s < self.settings.stop_s)
        for channel in np.flatnonzero(asking):
            self._ask(int(channel))
        waited = np.minimum(floor.silence_s / self.settings.stop_s, 1.0)
        eot = np.where(floor.held & ~speaking, np.maximum(self._answer, waited), 0.0)
        return {"eot": eot, "int": score_of(floor.int_evidence_s())}

    def _ask(self, channel: int) -> None:
        samples = self._history.since(channel, int(self._turn_start[channel]))
        self._answer[channel] = self._model(samples, self._rate)
        self._turn_over[channel] |= self._answer[channel] > self.settings.complete
        again_s = self.settings.again_s
        self._ask_at_s[channel] = np.inf if again_s is None else self._ask_at_s[channel] + again_s

    def score_prefix(self, samples: NDArray[np.float32], sampling_rate: int) -> float:
        """Return the model's score of a prefix at its rate, as if it had just been asked.

        Raises:
            ValueError: another rate than the model's.
        """
        check_rate(self.name, self._rate, sampling_rate)
        return float(self._model(samples[-round(self.settings.window_s * sampling_rate) :], sampling_rate))
