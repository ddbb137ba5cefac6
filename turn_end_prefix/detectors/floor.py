"""Who speaks, who holds the floor, and since when: what detectors make of voice activity on all channels.

The floor belongs to one channel at a time. It passes on only when its holder has paused and another channel
speaks on. From that follow two kinds of evidence, both in seconds:

- for the end of a turn, the silence after the speech of a channel that held the floor; it counts for more
    while
  another channel speaks into that silence;
- for an interruption, the speech of a channel that began while another one held the floor and was speaking;
    it
  counts for more once that one has stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
NO_HOLDER = -1


class VoiceActivity(Protocol):
    """Tells speech from everything else, on all channels at once, hop by hop."""

    sampling_rate: int | None

    def reset(self, n_channels: int, sampling_rate: int) -> None:
        """Forget the past."""

    def hear(self, hop: NDArray[np.float32]) -> tuple[Flags, Array]:
        """Return per channel whether it speaks, and how clearly it does, 0..1."""


@dataclass(frozen=True)
class FloorSettings:
    """Constants of `FloorTracker`."""

    merge_gap_s: float = 0.44  # pauses within a phrase, which do not end a run of speech
    claim_s: float = 0.3  # speech that takes a free floor
    handover_s: float = 0.2  # silence of the holder after which the floor can pass on
    other_weight: float = 0.5  # another one's speech, relative to one's own silence
    stopped_weight: float = 0.5  # the holder's silence, relative to the claim


class FloorTracker:
    """State of the floor, fed with voice activity; all arrays are [n_channels].

    Attributes:
        silence_s: since the channel last spoke; infinite before it ever did.
        run_s: speech in the channel's current or latest run.
        begins: a run began with the latest hop.
        held: the channel held the floor during its current or latest run.
        claims: the run began while another channel held the floor and was speaking.
        holder: index of the channel that has the floor, or -1.
    """

    def __init__(self, n_channels: int, settings: FloorSettings | None = None) -> None:
        self.settings = settings or FloorSettings()
        self.silence_s: Array = np.full(n_channels, np.inf)
        self.run_s: Array = np.zeros(n_channels)
        self.begins: Flags = np.zeros(n_channels, dtype=bool)
        self.held: Flags = np.zeros(n_channels, dtype=bool)
        self.claims: Flags = np.zeros(n_channels, dtype=bool)
        self.holder = NO_HOLDER

    def update(self, speaking: Flags, presence: Array, hop_s: float) -> None:
        """Hear of a hop of ``hop_s`` seconds: who speaks, and how clearly, 0..1."""
        self.begins = speaking & (self.silence_s > self.settings.merge_gap_s)
        if self.begins.any():
            self._begin_runs()
        self.run_s += np.where(speaking, hop_s * (0.5 + 0.5 * presence), 0.0)
        self.silence_s = np.where(speaking, 0.0, self.silence_s + hop_s * (1 - 0.5 * presence))
        self._pass_floor(speaking)

    def _begin_runs(self) -> None:
        self.run_s[self.begins] = 0.0
        self.held[self.begins] = False
        self.claims[self.begins] = self._holder_speaks()
        if self.holder != NO_HOLDER:
            self.held[self.holder] = True
            self.claims[self.holder] &= not self.begins[self.holder]

    def _holder_speaks(self) -> bool:
        return self.holder != NO_HOLDER and bool(self.silence_s[self.holder] <= self.settings.handover_s)

    def _pass_floor(self, speaking: Flags) -> None:
        if self._holder_speaks():
            return
        claims_s = np.where(speaking, self.run_s, 0.0)
        if self.holder != NO_HOLDER:
            claims_s[self.holder] = 0.0
        longest = int(np.argmax(claims_s))
        if claims_s[longest] > self.settings.claim_s:
            self.holder = longest
            self.held[longest] = True

    def current_run_s(self) -> Array:
        """Return the speech of each run that still goes on, else 0."""
        return np.where(self.silence_s <= self.settings.merge_gap_s, self.run_s, 0.0)

    def eot_evidence_s(self) -> Array:
        """Return the evidence that each channel has ended a turn."""
        quiet_s = np.where(self.held, self.silence_s, 0.0)
        others_s = largest_other(self.current_run_s())
        return quiet_s + self.settings.other_weight * np.minimum(quiet_s, others_s)

    def int_evidence_s(self) -> Array:
        """Return the evidence that each channel interrupts another one."""
        claim_s = np.where(self.claims, self.current_run_s(), 0.0)
        if self.holder == NO_HOLDER:
            return claim_s
        stopped_s = np.full(len(claim_s), self.silence_s[self.holder])
        stopped_s[self.holder] = np.inf
        return claim_s + self.settings.stopped_weight * np.minimum(claim_s, stopped_s)


def largest_other(values: Array) -> Array:
    """Return for each channel the largest value among the other ones; 0 for a channel alone."""
    if len(values) == 1:
        return np.zeros(1)
    first = int(np.argmax(values))
    largest = np.full(len(values), values[first])
    largest[first] = np.delete(values, first).max()
    return largest


def score_of(evidence_s: Array) -> Array:
    """Return ``1 - exp(-evidence)``: 0..1, rising, and not flat within any pause that matters."""
    return np.asarray(-np.expm1(-evidence_s))


class FloorDetector:
    """Scores both tracks from voice activity and floor tracking, streaming, without a model of turns.

    Args:
        voice: tells speech from everything else.
        name: shown in tables and records.
        settings: constants of the floor.
    """

    lookahead_s = 0.0

    def __init__(self, voice: VoiceActivity, *, name: str, settings: FloorSettings | None = None) -> None:
        self.name = name
        self.sampling_rate = voice.sampling_rate
        self._voice = voice
        self._settings = settings

    def reset(self, speakers: Sequence[str], sampling_rate: int) -> None:
        """Forget the past and expect one row per speaker at ``sampling_rate`` Hz."""
        self._rate = sampling_rate
        self._voice.reset(len(speakers), sampling_rate)
        self._floor = FloorTracker(len(speakers), self._settings)

    def push(self, hop: NDArray[np.float32]) -> dict[str, Array]:
        """Hear a hop, float32 [n_channels, hop_samples]; return ``eot`` and ``int`` scores in [0, 1]."""
        speaking, presence = self._voice.hear(hop)
        self._floor.update(speaking, presence, hop.shape[1] / self._rate)
        return {
            "eot": score_of(self._floor.eot_evidence_s()),
            "int": score_of(self._floor.int_evidence_s()),
        }
