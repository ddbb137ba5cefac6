"""Per-channel adaptive energy, and who holds the floor: a detector without any model.

For every channel: the level of each hop, a noise floor that falls fast and rises slowly, a speech level that
rises fast and fades slowly, and speech or silence by two thresholds between them (hysteresis). Over all
channels: the holder of the floor, which passes on only when the holder has paused and another one speaks on.

- ``eot`` rises with the silence after the speech of a channel that held the floor, faster while another
  channel speaks into that silence.
- ``int`` rises with the speech of a channel that began while another one held the floor and was speaking,
  faster once that one has stopped.

Both are ``1 - exp(-evidence)`` with evidence in seconds, so they rise in [0, 1] and do not saturate within a
pause that matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
NO_HOLDER = -1


@dataclass(frozen=True)
class EnergySettings:
    """Constants of `EnergyDetector`; levels in dB, times in seconds."""

    silence_dbfs: float = -80.0  # below any room: digital silence is no quieter than this
    highest_initial_floor_dbfs: float = -35.0  # a recording that begins with speech does not start on it
    floor_fall: float = 0.35  # share of the way down that the floor goes per 80 ms
    floor_rise_db_per_s: float = 3.0  # slow enough that a sentence does not become the floor
    floor_rise_in_speech_db_per_s: float = 0.5
    speech_fade_db_per_s: float = 0.5
    least_range_db: float = 20.0  # speech is at least so far above the floor
    onset_share: float = 0.5  # thresholds between floor and speech level
    offset_share: float = 0.32
    merge_gap_s: float = 0.44  # pauses within a word or phrase
    claim_s: float = 0.3  # speech that takes a free floor
    handover_s: float = 0.2  # silence of the holder after which the floor can pass on
    other_weight: float = 0.5
    stopped_weight: float = 0.5


class EnergyDetector:
    """Adaptive energy voice activity and floor tracking, streaming; see the module's text for the rules."""

    name = "energy"
    lookahead_s = 0.0
    sampling_rate = None

    def __init__(self, settings: EnergySettings | None = None) -> None:
        self.settings = settings or EnergySettings()

    def reset(self, speakers: Sequence[str], sampling_rate: int) -> None:
        """Forget the past and expect one row per speaker at ``sampling_rate`` Hz."""
        n = len(speakers)
        self._rate = sampling_rate
        self._floor_db: Array | None = None
        self._range_db = np.full(n, self.settings.least_range_db)
        self._speaking = np.zeros(n, dtype=bool)
        self._silence_s = np.full(n, np.inf)
        self._run_s = np.zeros(n)
        self._claims = np.zeros(n, dtype=bool)
        self._held = np.zeros(n, dtype=bool)
        self._holder = NO_HOLDER

    def push(self, hop: NDArray[np.float32]) -> dict[str, Array]:
        """Hear a hop, float32 [n_channels, hop_samples]; return ``eot`` and ``int`` scores in [0, 1]."""
        hop_s = hop.shape[1] / self._rate
        presence = self._presence(hop, hop_s)
        self._follow_speech(presence, hop_s)
        self._pass_floor()
        return self._scores()

    def _presence(self, hop: NDArray[np.float32], hop_s: float) -> Array:
        """Update floor, speech level and the speaking flags; return how clearly each channel speaks, 0..1."""
        s = self.settings
        power = np.einsum("cs,cs->c", hop, hop, dtype=np.float64) / hop.shape[1]
        level_db = 10 * np.log10(power + 10 ** (s.silence_dbfs / 10))
        if self._floor_db is None:
            self._floor_db = np.minimum(level_db, s.highest_initial_floor_dbfs)
        above_db = level_db - self._floor_db
        fall = 1 - (1 - s.floor_fall) ** (hop_s / 0.08)
        rise_db = hop_s * np.where(self._speaking, s.floor_rise_in_speech_db_per_s, s.floor_rise_db_per_s)
        self._floor_db += np.where(above_db < 0, fall * above_db, np.minimum(above_db, rise_db))
        above_db = level_db - self._floor_db
        faded_db = np.maximum(self._range_db - s.speech_fade_db_per_s * hop_s, s.least_range_db)
        self._range_db = np.maximum(faded_db, above_db)
        onset_db = s.onset_share * self._range_db
        offset_db = s.offset_share * self._range_db
        self._speaking = above_db > np.where(self._speaking, offset_db, onset_db)
        return np.clip((above_db - offset_db) / (onset_db - offset_db), 0.0, 1.0)

    def _follow_speech(self, presence: Array, hop_s: float) -> None:
        """Count each channel's silence and the speech of its current run; open new runs."""
        s = self.settings
        begins = self._speaking & (self._silence_s > s.merge_gap_s)
        if begins.any():
            holder_speaks = self._holder != NO_HOLDER and self._silence_s[self._holder] <= s.handover_s
            self._run_s[begins] = 0.0
            self._claims[begins] = holder_speaks
            self._held[begins] = False
            if self._holder != NO_HOLDER:
                self._claims[self._holder] &= not begins[self._holder]
                self._held[self._holder] = True
        self._run_s += np.where(self._speaking, hop_s * (0.5 + 0.5 * presence), 0.0)
        self._silence_s = np.where(self._speaking, 0.0, self._silence_s + hop_s * (1 - 0.5 * presence))

    def _pass_floor(self) -> None:
        s = self.settings
        if self._holder != NO_HOLDER and self._silence_s[self._holder] <= s.handover_s:
            return
        claims_s = np.where(self._speaking, self._run_s, 0.0)
        if self._holder != NO_HOLDER:
            claims_s[self._holder] = 0.0
        longest = int(np.argmax(claims_s))
        if claims_s[longest] > s.claim_s:
            self._holder = longest
            self._held[longest] = True

    def _scores(self) -> dict[str, Array]:
        s = self.settings
        quiet_s = np.where(self._held, self._silence_s, 0.0)
        current_s = np.where(self._silence_s <= s.merge_gap_s, self._run_s, 0.0)
        quiet_s += s.other_weight * np.minimum(quiet_s, self._largest_other(current_s))
        claim_s = np.where(self._claims, current_s, 0.0)
        if self._holder != NO_HOLDER:
            stopped_s = np.full(len(claim_s), self._silence_s[self._holder])
            stopped_s[self._holder] = np.inf
            claim_s += s.stopped_weight * np.minimum(claim_s, stopped_s)
        return {"eot": -np.expm1(-quiet_s), "int": -np.expm1(-claim_s)}

    @staticmethod
    def _largest_other(values: Array) -> Array:
        """For each channel, the largest value among the other ones; 0 for a channel alone."""
        if len(values) == 1:
            return np.zeros(1)
        first = int(np.argmax(values))
        largest = np.full(len(values), values[first])
        largest[first] = np.delete(values, first).max()
        return largest
