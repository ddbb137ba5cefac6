"""LiveKit's end-of-turn model behind LiveKit's voice activity model, both from livekit-local-inference.

The model hears the last 1.2 s of a channel as 16-bit samples at 16 kHz, so it is asked again while a
silence lasts. Its weights are inside the wheel, under LiveKit's own model licence, which allows their use
only together with the LiveKit Agents framework: read it, and see that your use is covered, before you
install the package.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .extras import importing
from .floor import Array, Flags
from .turn_model import TurnModelDetector, TurnSettings
from .windows import WindowedVoice

SAMPLING_RATE = 16000
WINDOW_SAMPLES = 512
HEARD_SAMPLES = 19200
"""The most that the end-of-turn model takes: 1.2 s."""

SETTINGS = TurnSettings(again_s=0.2, window_s=HEARD_SAMPLES / SAMPLING_RATE)


def _int16(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    return np.clip(np.round(samples * 32768.0), -32768, 32767).astype(np.int16)


class LiveKitVoice(WindowedVoice):
    """Voice activity by LiveKit's model, one instance per channel.

    Raises:
        MissingExtraError: livekit-local-inference is not installed.
    """

    def __init__(self) -> None:
        super().__init__(name="LiveKit VAD", sampling_rate=SAMPLING_RATE, window_samples=WINDOW_SAMPLES)
        with importing("livekit", needs="livekit-local-inference", extra="livekit"):
            from livekit.local_inference import VAD
        self._new_model = VAD

    def reset(self, n_channels: int, sampling_rate: int) -> None:
        """Forget the past."""
        self.start(n_channels, sampling_rate)
        self._models = [self._new_model() for _ in range(n_channels)]

    def hear(self, hop: NDArray[np.float32]) -> tuple[Flags, Array]:
        """Return per channel whether it speaks, and the mean probability over the hop's windows."""
        return self.follow(hop, self._probability_of)

    def _probability_of(self, window: NDArray[np.float32]) -> Array:
        rows = zip(self._models, _int16(window), strict=True)
        return np.asarray([model.predict(samples) for model, samples in rows], dtype=np.float64)


class LiveKitModel:
    """LiveKit's end-of-turn model as a function of a prefix at 16 kHz.

    Raises:
        MissingExtraError: livekit-local-inference is not installed.
    """

    def __init__(self) -> None:
        with importing("livekit", needs="livekit-local-inference", extra="livekit"):
            from livekit.local_inference import EOT
        self._model = EOT()

    def __call__(self, samples: NDArray[np.float32], sampling_rate: int) -> float:
        """Return the probability that the turn has ended; the package pads shorter audio in front."""
        return float(self._model.predict(_int16(samples[-HEARD_SAMPLES:])))


class LiveKitDetector(TurnModelDetector):
    """LiveKit's end-of-turn model behind its voice activity model, at 16 kHz.

    Raises:
        MissingExtraError: livekit-local-inference is not installed.
    """

    def __init__(self, *, settings: TurnSettings = SETTINGS) -> None:
        super().__init__(LiveKitModel(), LiveKitVoice(), name="livekit", settings=settings)
