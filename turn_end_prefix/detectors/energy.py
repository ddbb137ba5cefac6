"""Per-channel adaptive energy, and who holds the floor: a detector without any model.

For every channel: the level of each hop, a noise floor that falls fast and rises slowly, a range of speech
above it that grows at once and fades slowly, and speech or silence by two thresholds in between
(hysteresis). What follows from that over all channels is in `turn_end_prefix.detectors.floor`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .floor import Array, Flags, FloorDetector, FloorSettings


@dataclass(frozen=True)
class EnergySettings:
    """Constants of `EnergyVoice`; levels in dB of full scale, ranges in dB above the noise floor."""

    quietest_dbfs: float = -80.0  # below any room: digital silence is no quieter than this
    highest_initial_floor_dbfs: float = -35.0  # a recording that begins with speech does not start on it
    floor_fall: float = 0.35  # share of the way down that the floor goes in 80 ms
    floor_rise_db_per_s: float = 3.0  # slow enough that a sentence does not become the floor
    floor_rise_in_speech_db_per_s: float = 0.5
    range_fade_db_per_s: float = 0.5
    least_range_db: float = 20.0  # speech stands out at least so much
    onset_share: float = 0.5  # thresholds, as shares of the range
    offset_share: float = 0.32


class EnergyVoice:
    """Voice activity by level above an adaptive noise floor."""

    sampling_rate: int | None = None

    def __init__(self, settings: EnergySettings | None = None) -> None:
        self.settings = settings or EnergySettings()

    def reset(self, n_channels: int, sampling_rate: int) -> None:
        """Forget the past."""
        self._rate = sampling_rate
        self._floor_db: Array | None = None
        self._range_db: Array = np.full(n_channels, self.settings.least_range_db)
        self._speaking: Flags = np.zeros(n_channels, dtype=bool)

    def hear(self, hop: NDArray[np.float32]) -> tuple[Flags, Array]:
        """Return per channel whether it speaks, and where its level is between the thresholds, 0..1."""
        s = self.settings
        hop_s = hop.shape[1] / self._rate
        power = np.einsum("cs,cs->c", hop, hop, dtype=np.float64) / hop.shape[1]
        level_db = 10 * np.log10(power + 10 ** (s.quietest_dbfs / 10))
        above_db = level_db - self._follow_floor(level_db, hop_s)
        faded_db = np.maximum(self._range_db - s.range_fade_db_per_s * hop_s, s.least_range_db)
        self._range_db = np.maximum(faded_db, above_db)
        onset_db = s.onset_share * self._range_db
        offset_db = s.offset_share * self._range_db
        self._speaking = above_db > np.where(self._speaking, offset_db, onset_db)
        return self._speaking, np.clip((above_db - offset_db) / (onset_db - offset_db), 0.0, 1.0)

    def _follow_floor(self, level_db: Array, hop_s: float) -> Array:
        s = self.settings
        if self._floor_db is None:
            self._floor_db = np.minimum(level_db, s.highest_initial_floor_dbfs)
        above_db = level_db - self._floor_db
        fall = 1 - (1 - s.floor_fall) ** (hop_s / 0.08)
        rise_db = hop_s * np.where(self._speaking, s.floor_rise_in_speech_db_per_s, s.floor_rise_db_per_s)
        self._floor_db = self._floor_db + np.where(
            above_db < 0, fall * above_db, np.minimum(above_db, rise_db)
        )
        return self._floor_db


class EnergyDetector(FloorDetector):
    """Adaptive energy voice activity and floor tracking, at any sampling rate."""

    def __init__(self, *, energy: EnergySettings | None = None, floor: FloorSettings | None = None) -> None:
        super().__init__(EnergyVoice(energy), name="energy", settings=floor)
