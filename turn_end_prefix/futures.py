"""What becomes of the audio after a probe time: the ways in which a future can be replaced."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

REPLACEMENTS = ("noise", "silence", "cut", "other", "reversed")
"""What a future becomes: noise; zeros; nothing, the recording ends there; other audio; itself backwards."""

LEAST_NOISE = 0.1
"""Least level of the noise, in shares of full scale: it passes for speech in a silent channel too."""

NOISE_GAIN = 4.0
"""Level of the noise relative to the channel's: it drowns the loudest speech."""


def replace_future(
    rows: Mapping[str, NDArray[Any]],
    n_kept: int,
    replacement: str,
    *,
    rng: np.random.Generator,
    other: Sequence[NDArray[Any]] | None = None,
) -> dict[str, NDArray[Any]]:
    """Return copies of aligned channels whose audio from sample ``n_kept`` on is replaced.

    Args:
        rows: ``{speaker: samples [n]}``, floats in [-1, 1] or integers of full range.
        n_kept: samples that stay as they are.
        replacement: one of `REPLACEMENTS`.
        rng: draws the noise and the place in the other audio.
        other: channels to take ``other`` from, of the same dtype; without, each channel takes the next
            one's.

    Raises:
        ValueError: an unknown replacement.
    """
    if replacement not in REPLACEMENTS:
        raise ValueError(f"unknown replacement {replacement!r}: expected one of {', '.join(REPLACEMENTS)}")
    speakers = list(rows)
    donors = list(other) if other else [rows[speaker] for speaker in speakers[1:] + speakers[:1]]
    altered = {}
    for index, speaker in enumerate(speakers):
        samples = rows[speaker]
        if replacement == "cut":
            altered[speaker] = samples[:n_kept].copy()
            continue
        future = samples[n_kept:]
        if replacement == "silence":
            new = np.zeros_like(future)
        elif replacement == "reversed":
            new = future[::-1]
        elif replacement == "other":
            donor = donors[index % len(donors)]
            new = np.resize(np.roll(donor, int(rng.integers(len(donor)))), len(future))
        else:
            new = _noise(samples, len(future), rng)
        altered[speaker] = np.concatenate([samples[:n_kept], new])
    return altered


def _noise(samples: NDArray[Any], length: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return noise louder than the channel, of its dtype."""
    is_integer = np.issubdtype(samples.dtype, np.integer)
    full_scale = float(np.iinfo(samples.dtype).max) if is_integer else 1.0
    rms = math.sqrt(float(np.mean(np.square(samples, dtype=np.float64))))
    noise = max(NOISE_GAIN * rms, LEAST_NOISE * full_scale) * rng.standard_normal(length)
    return np.clip(noise, -full_scale, full_scale).astype(samples.dtype)
