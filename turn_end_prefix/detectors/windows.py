"""Hops in, model windows out: voice activity models hear a fixed number of samples at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..hops import check_rate
from .floor import Array, Flags

ONSET = 0.5
"""Probability above which speech begins; Silero VAD's own default, and LiveKit's model is of its kind."""

OFFSET = 0.35
"""Probability below which speech ends; Silero VAD's own default is 0.15 below the onset."""


class WindowedVoice:
    """Voice activity from speech probabilities of consecutive windows.

    Args:
        name: named in errors.
        sampling_rate: Hz that the model hears.
        window_samples: length of its windows.
    """

    def __init__(self, *, name: str, sampling_rate: int, window_samples: int) -> None:
        self.name = name
        self.sampling_rate: int | None = sampling_rate
        self._rate = sampling_rate
        self._window_samples = window_samples

    def start(self, n_channels: int, sampling_rate: int) -> None:
        """Forget the past.

        Raises:
            ValueError: another rate than the model's.
        """
        check_rate(self.name, self._rate, sampling_rate)
        self._waiting: NDArray[np.float32] = np.zeros((n_channels, 0), dtype=np.float32)
        self._speaking: Flags = np.zeros(n_channels, dtype=bool)
        self._probability: Array = np.zeros(n_channels)

    def follow(
        self, hop: NDArray[np.float32], probability_of: Callable[[NDArray[np.float32]], Array]
    ) -> tuple[Flags, Array]:
        """Return per channel whether it speaks, and the mean probability over the hop's windows.

        Args:
            hop: float32 [n_channels, hop_samples].
            probability_of: float32 [n_channels, window_samples] to the channels' speech probabilities.
        """
        waiting = np.concatenate([self._waiting, hop], axis=1)
        n_windows, size = waiting.shape[1] // self._window_samples, self._window_samples
        self._waiting = waiting[:, n_windows * size :]
        probabilities = []
        for index in range(n_windows):
            probability = probability_of(waiting[:, index * size : (index + 1) * size])
            self._speaking = probability > np.where(self._speaking, OFFSET, ONSET)
            probabilities.append(probability)
        if probabilities:
            self._probability = np.mean(probabilities, axis=0)
        return self._speaking, self._probability
