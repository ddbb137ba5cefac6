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
from .windows import WindowedVoice

SAMPLING_RATE = 16000
WINDOW_SAMPLES = 512


class SileroVoice(WindowedVoice):
    """Voice activity by Silero VAD.

    Raises:
        MissingExtraError: pipecat-ai is not installed.
    """

    def __init__(self) -> None:
        super().__init__(name="Silero VAD", sampling_rate=SAMPLING_RATE, window_samples=WINDOW_SAMPLES)
        with importing("silero", needs="pipecat-ai"):
            from loguru import logger

            logger.disable("pipecat")
            from pipecat.audio.vad.silero import SileroOnnxModel
        with resources.as_file(resources.files("pipecat.audio.vad.data") / "silero_vad.onnx") as path:
            self._model = SileroOnnxModel(str(path))

    def reset(self, n_channels: int, sampling_rate: int) -> None:
        """Forget the past."""
        self.start(n_channels, sampling_rate)
        self._model.reset_states(n_channels)

    def hear(self, hop: NDArray[np.float32]) -> tuple[Flags, Array]:
        """Return per channel whether it speaks, and the mean probability over the hop's windows."""
        return self.follow(hop, self._probability_of)

    def _probability_of(self, window: NDArray[np.float32]) -> Array:
        return np.asarray(self._model(window, SAMPLING_RATE)[:, 0], dtype=np.float64)


class SileroDetector(FloorDetector):
    """Silero VAD and floor tracking, at 16 kHz.

    Raises:
        MissingExtraError: pipecat-ai is not installed.
    """

    def __init__(self, *, floor: FloorSettings | None = None) -> None:
        super().__init__(SileroVoice(), name="silero", settings=floor)
