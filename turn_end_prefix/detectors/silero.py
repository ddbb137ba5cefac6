"""Silero VAD with an endpointing rule: `turn_end_prefix.detectors.floor` on a neural voice activity detector.

The model is the ``silero_vad.onnx`` inside the pipecat-ai wheel, run by that package's own wrapper: 512
samples at 16 kHz at a time, all channels in one batch.
"""

from __future__ import annotations

from importlib import resources

import numpy as np
from numpy.typing import NDArray

from .extras import importing
from .floor import Array, Flags, FloorDetector, FloorSettings

SAMPLING_RATE = 16000
WINDOW_SAMPLES = 512

ONSET = 0.5
"""Probability above which speech begins; the model's own default."""

OFFSET = 0.35
"""Probability below which speech ends; the model's own default is 0.15 below the onset."""


class SileroVoice:
    """Voice activity by Silero VAD.

    Raises:
        MissingExtraError: pipecat-ai is not installed.
    """

    sampling_rate: int | None = SAMPLING_RATE

    def __init__(self) -> None:
        with importing("silero", needs="pipecat-ai"):
            from loguru import logger

            logger.disable("pipecat")
            from pipecat.audio.vad.silero import SileroOnnxModel
        with resources.as_file(resources.files("pipecat.audio.vad.data") / "silero_vad.onnx") as path:
            self._model = SileroOnnxModel(str(path))

    def reset(self, n_channels: int, sampling_rate: int) -> None:
        """Forget the past.

        Raises:
            ValueError: another rate than 16 kHz.
        """
        if sampling_rate != SAMPLING_RATE:
            raise ValueError(f"Silero VAD hears {SAMPLING_RATE} Hz, got {sampling_rate}")
        self._model.reset_states(n_channels)
        self._waiting: NDArray[np.float32] = np.zeros((n_channels, 0), dtype=np.float32)
        self._speaking: Flags = np.zeros(n_channels, dtype=bool)
        self._probability: Array = np.zeros(n_channels)

    def hear(self, hop: NDArray[np.float32]) -> tuple[Flags, Array]:
        """Return per channel whether it speaks, and the mean probability over the hop's windows."""
        waiting = np.concatenate([self._waiting, hop], axis=1)
        n_windows = waiting.shape[1] // WINDOW_SAMPLES
        self._waiting = waiting[:, n_windows * WINDOW_SAMPLES :]
        probabilities = []
        for index in range(n_windows):
            window = waiting[:, index * WINDOW_SAMPLES : (index + 1) * WINDOW_SAMPLES]
            probability = self._model(window, SAMPLING_RATE)[:, 0].astype(np.float64)
            self._speaking = probability > np.where(self._speaking, OFFSET, ONSET)
            probabilities.append(probability)
        if probabilities:
            self._probability = np.mean(probabilities, axis=0)
        return self._speaking, self._probability


class SileroDetector(FloorDetector):
    """Silero VAD and floor tracking, at 16 kHz.

    Raises:
        MissingExtraError: pipecat-ai is not installed.
    """

    def __init__(self, *, floor: FloorSettings | None = None) -> None:
        super().__init__(SileroVoice(), name="silero", settings=floor)
