"""What every table shows beside the others: timing alone, chance, and gold itself.

`OracleDetector` answers from gold, so its scores bound what a detector can reach under the scoring rules:
recall 1 and FPR 0, wherever the refractory period leaves room for all positives.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .energy import EnergyVoice
from .floor import Array, Flags, VoiceActivity, largest_other

TRACKS = ("eot", "int")

REFRACTORY_S = 2.0
"""Decisions of one channel and track closer than this are lost; the protocol's own value."""

LATE_S = 3.0
"""A decision this long after a positive still finds it; the protocol's own value."""


class SilenceDetector:
    """Timing alone: speech, then silence, whoever speaks next; nothing about the floor, nothing about words.

    ``eot`` is ``silence / (silence + hold_s)`` after a channel's own speech, so that the threshold 0.5 is a
    fixed hold of ``hold_s`` and every other threshold another hold. ``int`` is ``speech / (speech +
    hold_s)`` while a channel speaks and so does another one.

    Args:
        hold_s: silence after which the score passes 0.5, in seconds.
        least_speech_s: speech that a silence must follow, in seconds.
        voice: tells speech from everything else; by default by energy.

    Raises:
        ValueError: a time that is not above 0.
    """

    name = "silence"
    lookahead_s = 0.0

    def __init__(
        self, *, hold_s: float = 0.7, least_speech_s: float = 0.3, voice: VoiceActivity | None = None
    ) -> None:
        for name, value in (("hold_s", hold_s), ("least_speech_s", least_speech_s)):
            if not 0 < value < float("inf"):
                raise ValueError(f"{name} must be finite and above 0, got {value}")
        self._voice: VoiceActivity = voice or EnergyVoice()
        self.sampling_rate = self._voice.sampling_rate
        self.hold_s = hold_s
        self.least_speech_s = least_speech_s

    def reset(self, speakers: Sequence[str], sampling_rate: int) -> None:
        """Forget the past and expect one row per speaker at ``sampling_rate`` Hz."""
        self._rate = sampling_rate
        self._voice.reset(len(speakers), sampling_rate)
        self._speech_s: Array = np.zeros(len(speakers))
        self._silence_s: Array = np.full(len(speakers), np.inf)
        self._over_other: Flags = np.zeros(len(speakers), dtype=bool)

    def push(self, hop: NDArray[np.float32]) -> dict[str, Array]:
        """Hear a hop, float32 [n_channels, hop_samples]; return ``eot`` and ``int`` scores in [0, 1)."""
        hop_s = hop.shape[1] / self._rate
        speaking, presence = self._voice.hear(hop)
        begins = speaking & (self._silence_s > self.least_speech_s)
        others = largest_other(speaking.astype(np.float64)) > 0
        self._over_other = np.where(begins, others, self._over_other)
        self._speech_s = np.where(begins, 0.0, self._speech_s) + hop_s * speaking
        self._silence_s = np.where(speaking, 0.0, self._silence_s + hop_s * (1 - 0.5 * presence))
        quiet_s = np.where(self._speech_s >= self.least_speech_s, self._silence_s, 0.0)
        over_s = np.where(speaking & self._over_other, self._speech_s, 0.0)
        return {"eot": quiet_s / (quiet_s + self.hold_s), "int": over_s / (over_s + self.hold_s)}


class RandomDetector:
    """Chance: scores are uniform in [0, 1), drawn anew now and then, whatever is heard.

    The numbers are seeded by ``seed`` and by the conversation's first hop, so that a conversation gets the
    same ones in any order of conversations and in any process.

    Args:
        seed: another seed, another luck.
        every_s: mean time for which a score stays, in seconds. Scores that change faster than the
            refractory period only hide how often they would fire.
    """

    name = "random"
    lookahead_s = 0.0
    sampling_rate: int | None = None

    def __init__(self, *, seed: int = 0, every_s: float = REFRACTORY_S) -> None:
        if not every_s > 0:
            raise ValueError(f"every_s must be above 0, got {every_s}")
        self.seed = seed
        self.every_s = every_s

    def reset(self, speakers: Sequence[str], sampling_rate: int) -> None:
        """Forget the past and expect one row per speaker."""
        self._rate = sampling_rate
        self._rng: np.random.Generator | None = None
        self._scores: Array = np.zeros((len(TRACKS), len(speakers)))

    def push(self, hop: NDArray[np.float32]) -> dict[str, Array]:
        """Return ``eot`` and ``int`` scores by chance."""
        first = self._rng is None
        if self._rng is None:
            self._rng = np.random.default_rng([self.seed, zlib.crc32(hop.tobytes())])
        drawn, moment = self._rng.random((2, *self._scores.shape))
        renewed = first | (moment < hop.shape[1] / self._rate / self.every_s)
        self._scores = np.where(renewed, drawn, self._scores)
        return dict(zip(TRACKS, self._scores, strict=True))


class OracleDetector:
    """Gold itself: score 1 in the frame that first reaches a positive, else 0.

    A positive within the refractory period of the decision before is answered when that has passed, and
    never inside an excluded span, where the decision would be dropped.

    Args:
        anchors: the conversation's ``{speaker: {"eot": {positives, negative_spans, excluded_spans}, "int":
            {...}}}`` in seconds; spans as pairs or ``{start, end}``.
    """

    name = "oracle"
    lookahead_s = 0.0
    sampling_rate: int | None = None

    def __init__(self, anchors: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
        self.anchors = anchors

    def reset(self, speakers: Sequence[str], sampling_rate: int) -> None:
        """Start over; every speaker must have anchors.

        Raises:
            ValueError: a speaker without anchors.
        """
        missing = [speaker for speaker in speakers if speaker not in self.anchors]
        if missing:
            raise ValueError(f"the oracle has no anchors of {', '.join(missing)}")
        self._rate = sampling_rate
        self._n_heard = 0
        self._plans = {
            track: [_Plan(self.anchors[speaker].get(track, {})) for speaker in speakers] for track in TRACKS
        }

    def push(self, hop: NDArray[np.float32]) -> dict[str, Array]:
        """Return 1 for each channel whose positive is reached with this hop."""
        self._n_heard += hop.shape[1]
        now_s, hop_s = self._n_heard / self._rate, hop.shape[1] / self._rate
        return {
            track: np.asarray([float(plan.fires(now_s, hop_s)) for plan in plans])
            for track, plans in self._plans.items()
        }


class _Plan:
    """The positives of one channel and track that are still to be answered."""

    def __init__(self, gold: Mapping[str, Any]) -> None:
        self._waiting = sorted(map(float, gold.get("positives", ())))
        self._excluded = [_ends(span) for span in gold.get("excluded_spans", ())]
        self._last_s = -np.inf

    def fires(self, now_s: float, hop_s: float) -> bool:
        """Return whether to decide in the frame that ends at ``now_s``."""
        while self._waiting and now_s > self._waiting[0] + LATE_S:
            self._waiting.pop(0)
        if not self._waiting or self._waiting[0] > now_s + 1e-4:
            return False
        if now_s - self._last_s < REFRACTORY_S + hop_s:
            return False
        if any(start - 1e-4 <= now_s <= end + 1e-4 for start, end in self._excluded):
            return False
        self._waiting.pop(0)
        self._last_s = now_s
        return True


def _ends(span: Any) -> tuple[float, float]:
    start, end = (span["start"], span["end"]) if isinstance(span, Mapping) else span
    return float(start), float(end)
