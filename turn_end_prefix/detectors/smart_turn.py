"""Pipecat's Smart Turn v3: a neural model of finished turns, asked when Silero VAD hears silence.

Both models come inside the pipecat-ai wheel and are run by that package's own code, features included. As
in that package's pipelines the model is asked once when speech has stopped for 0.2 s, hears the turn from
half a second before its speech and at most its last 8 s, and a silence of 3 s ends a turn whatever it says.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .extras import importing
from .silero import SAMPLING_RATE, SileroVoice
from .turn_model import TurnModelDetector, TurnSettings


class SmartTurnModel:
    """Smart Turn v3 as a function of a prefix at 16 kHz.

    Raises:
        MissingExtraError: pipecat-ai is not installed.
    """

    def __init__(self) -> None:
        with importing("smart-turn", needs="pipecat-ai"):
            from loguru import logger

            logger.disable("pipecat")
            from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
        self._analyzer = LocalSmartTurnAnalyzerV3(sample_rate=SAMPLING_RATE)

    def __call__(self, samples: NDArray[np.float32], sampling_rate: int) -> float:
        """Return the probability that the turn has ended."""
        # The package's public entry reads the wall clock: its answer would depend on this machine's speed.
        return float(self._analyzer._predict_endpoint(samples)["probability"])


class SmartTurnDetector(TurnModelDetector):
    """Smart Turn v3 behind Silero VAD, at 16 kHz.

    Raises:
        MissingExtraError: pipecat-ai is not installed.
    """

    def __init__(self, *, settings: TurnSettings | None = None) -> None:
        super().__init__(SmartTurnModel(), SileroVoice(), name="smart-turn", settings=settings)
