"""Any function of a prefix as a detector, and any detector as a scorer of prefixes and turns.

A function of a prefix is ``f(samples float32 [n], sampling rate in Hz)`` that returns how surely the turn
has ended by the last sample. Three lines make a detector of a model::

    model = torch.jit.load("mine.pt").eval()
    def score(samples, rate): return float(model(torch.from_numpy(samples)[None]))
    detector = prefix_detector(score, name="mine")
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..hops import check_channels, check_rate, count_frames, hop_boundary, resample_prefix
from ..replay import Detector, lookahead_of, replay
from .energy import EnergyVoice
from .floor import Array
from .turn_model import History, Model, TurnModelDetector, TurnSettings

SPEAKER = "speaker_1"


def prefix_detector(
    model: Model,
    *,
    name: str | None = None,
    sampling_rate: int = 16000,
    window_s: float = 8.0,
    when: Literal["always", "silence"] = "always",
) -> Detector:
    """Make a detector of a function of a prefix.

    Args:
        model: ``f(samples, rate)``; it must not keep anything between calls.
        name: shown in tables and records; by default the function's.
        sampling_rate: Hz that it hears.
        window_s: it hears at most so much of the end of a prefix, in seconds.
        when: ``always`` asks it after every hop about every channel and gives ``eot`` alone; ``silence``
            asks it once when a channel that held the floor falls silent (by energy), as `TurnModelDetector`
            does, and gives ``int`` too.

    Raises:
        ValueError: another ``when``.
    """
    name = name or str(getattr(model, "__name__", type(model).__name__))
    if when == "silence":
        settings = TurnSettings(window_s=window_s)
        return TurnModelDetector(
            model, EnergyVoice(), name=name, sampling_rate=sampling_rate, settings=settings
        )
    if when != "always":
        raise ValueError(f"when must be 'always' or 'silence', got {when!r}")
    return PrefixDetector(model, name=name, sampling_rate=sampling_rate, window_s=window_s)


class PrefixDetector:
    """``eot`` of every channel after every hop, by a function of a prefix."""

    lookahead_s = 0.0

    def __init__(self, model: Model, *, name: str, sampling_rate: int, window_s: float) -> None:
        self.name = name
        self.sampling_rate: int | None = sampling_rate
        self._model = model
        self._rate = sampling_rate
        self._n_kept = round(window_s * sampling_rate)

    def reset(self, speakers: Sequence[str], sampling_rate: int) -> None:
        """Forget the past.

        Raises:
            ValueError: another rate than the function's.
        """
        check_rate(self.name, self._rate, sampling_rate)
        self._history = History(len(speakers), self._n_kept)

    def push(self, hop: NDArray[np.float32]) -> dict[str, Array]:
        """Hear a hop, float32 [n_channels, hop_samples]; return the ``eot`` scores."""
        self._history.append(hop)
        prefixes = [self._history.since(channel, 0) for channel in range(len(hop))]
        return {"eot": np.asarray([float(self._model(prefix, self._rate)) for prefix in prefixes])}

    def score_prefix(self, samples: NDArray[np.float32], sampling_rate: int) -> float:
        """Return the function's score of a prefix at its rate.

        Raises:
            ValueError: another rate than the function's.
        """
        check_rate(self.name, self._rate, sampling_rate)
        return float(self._model(samples[-self._n_kept :], sampling_rate))


def pipeline_model(pipeline: Callable[[dict[str, Any]], Any], *, label: str) -> Model:
    """Make a function of a prefix of an audio-classification pipeline, such as `transformers` builds.

    Args:
        pipeline: takes ``{"raw": samples, "sampling_rate": rate}``, returns ``[{"label": ..., "score":
            ...}, ...]``.
        label: the label whose score says that the turn has ended.
    """

    def score(samples: NDArray[np.float32], sampling_rate: int) -> float:
        answers = pipeline({"raw": samples, "sampling_rate": sampling_rate})
        scores = {answer["label"]: float(answer["score"]) for answer in answers}
        if label not in scores:
            raise ValueError(f"the pipeline gave no label {label!r} but {', '.join(map(str, scores))}")
        return scores[label]

    return score


def score_prefixes(
    detector: Detector | Model, prefixes: Iterable[tuple[ArrayLike, int]], *, hop_s: float = 0.08
) -> list[float]:
    """Return a score per prefix: how surely the turn has ended by its last sample.

    A detector with ``score_prefix`` and a function of a prefix are asked about the prefix as it is. Any
    other detector hears it in hops, the last of which ends with it (zeros in front fill the first), and its
    last ``eot`` score counts.

    Args:
        detector: a detector, or ``f(samples, rate)``.
        prefixes: ``(samples [n], rate)`` each.
        hop_s (float, s): length of a hop.

    Raises:
        ValueError: a faulty prefix, or a detector that gives no ``eot``.
    """
    ask = getattr(detector, "score_prefix", None)
    if ask is None and not hasattr(detector, "push"):
        ask = detector
    wanted = getattr(detector, "sampling_rate", None)
    scores = []
    for index, (prefix, rate) in enumerate(prefixes):
        try:
            samples = check_channels({SPEAKER: (prefix, rate)}).samples[SPEAKER]
        except ValueError as error:
            raise ValueError(f"prefix {index}: {error}") from error
        samples, rate = resample_prefix(samples, rate, wanted or rate), wanted or rate
        if ask is not None:
            scores.append(float(ask(samples, rate)))
            continue
        filled = hop_boundary(count_frames(len(samples), hop_s, rate), hop_s, rate)
        padded = np.pad(samples, (filled - len(samples), 0))
        scores.append(float(_eot(detector, padded, rate, hop_s)[-1]))
    return scores


def first_endpoint(
    detector: Detector,
    samples: ArrayLike,
    sampling_rate: int,
    *,
    theta: float,
    tail_s: float = 5.0,
    hop_s: float = 0.08,
) -> float | None:
    """Return when a detector first declares that a turn is over, in seconds, or None if it never does.

    The turn is streamed with a tail of silence, as an agent hears a caller who waits. The time is the end
    of the first frame whose ``eot`` score is above ``theta``, plus the detector's lookahead.

    Args:
        detector: see `turn_end_prefix.replay`.
        samples: the turn, floats [n].
        sampling_rate: Hz.
        theta: threshold; the score must be above it.
        tail_s (float, s): silence after the turn.
        hop_s (float, s): length of a frame.

    Raises:
        ValueError: a faulty turn, a negative tail, a NaN threshold, or a detector that gives no ``eot``.
    """
    if not 0 <= tail_s < float("inf"):
        raise ValueError(f"tail_s must be finite and not negative, got {tail_s}")
    if math.isnan(theta):
        raise ValueError("theta is NaN: no score is above it")
    turn = check_channels({SPEAKER: (samples, sampling_rate)}).samples[SPEAKER]
    scores = _eot(detector, np.pad(turn, (0, round(tail_s * sampling_rate))), sampling_rate, hop_s)
    above = np.flatnonzero(scores > theta)
    return float((above[0] + 1) * hop_s + lookahead_of(detector)) if above.size else None


def _eot(detector: Any, samples: NDArray[np.float32], rate: int, hop_s: float) -> NDArray[np.float64]:
    tracks = replay({SPEAKER: (samples, rate)}, detector, hop_s=hop_s)
    if "eot" not in tracks:
        raise ValueError(f"{type(detector).__name__} gives no eot scores, only {', '.join(tracks)}")
    return tracks["eot"][SPEAKER]
