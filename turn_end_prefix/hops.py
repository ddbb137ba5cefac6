"""One conversation as a row of hops: checked audio, frame boundaries, streaming resampling.

Frame ``i`` covers ``[i / frame_rate, (i + 1) / frame_rate)`` with ``frame_rate = 1 / hop_s``: the samples
from ``floor(i * hop_s * rate + 1e-6)`` up to, not including, ``floor((i + 1) * hop_s * rate + 1e-6)``. A hop
that is no whole number of samples long is thus never off by more than one sample, however long the recording.
The last frame counts even when the recording ends inside it; its missing samples are zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Channels = Mapping[str, tuple[ArrayLike, int]]
"""``{speaker: (samples float32 [n], sampling rate in Hz)}``, all of one length and rate."""

ROUNDING_SLACK_SAMPLES = 1e-6
"""Added before flooring a time in samples: 0.29 s at 24 kHz is 6959.999... in floats and means 6960."""

RESAMPLING_QUALITY = "HQ"
CALIBRATION_HOPS = 1000
"""Hops of silence after which a streaming resampler's buffering has shown its worst case."""


@dataclass(frozen=True)
class Recording:
    """Checked channels: every row finite, float32 and of the same length."""

    samples: dict[str, NDArray[np.float32]] = field(repr=False)
    sampling_rate: int

    @property
    def speakers(self) -> list[str]:
        """Names of the channels, in the caller's order."""
        return list(self.samples)

    @property
    def n_samples(self) -> int:
        """Samples per channel."""
        return len(next(iter(self.samples.values())))

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.n_samples / self.sampling_rate


def hop_boundary(index: int, hop_s: float, sampling_rate: int) -> int:
    """Return the first sample of frame ``index``."""
    return math.floor(index * hop_s * sampling_rate + ROUNDING_SLACK_SAMPLES)


def count_frames(n_samples: int, hop_s: float, sampling_rate: int) -> int:
    """Return how many frames it takes to cover ``n_samples``; a frame that is begun counts."""
    n_frames = math.ceil(n_samples / (hop_s * sampling_rate))
    while n_frames and hop_boundary(n_frames - 1, hop_s, sampling_rate) >= n_samples:
        n_frames -= 1
    while hop_boundary(n_frames, hop_s, sampling_rate) < n_samples:
        n_frames += 1
    return n_frames


def check_channels(channels: Channels) -> Recording:
    """Check the channels of one conversation.

    Args:
        channels: ``{speaker: (samples, rate)}``: floats [n] ([1, n] and [n, 1] are read as [n]), Hz.

    Returns:
        Recording: the same audio as float32, in the same order.

    Raises:
        ValueError: no channels, no samples, samples that are no finite floats or have several dimensions, a
            rate that is no positive integer, or channels that differ in length or rate. The message names
            the speaker.
    """
    if not channels:
        raise ValueError("channels is empty: a conversation has at least one {speaker: (samples, rate)}")
    rows: dict[str, NDArray[np.float32]] = {}
    rates: dict[str, int] = {}
    for speaker, channel in channels.items():
        try:
            samples, rate = channel
        except (TypeError, ValueError):
            found = type(channel).__name__
            raise ValueError(f"{speaker}: expected (samples, sampling rate), got {found}") from None
        if not isinstance(rate, (int, np.integer)) or isinstance(rate, bool) or rate <= 0:
            raise ValueError(f"{speaker}: sampling rate must be a positive integer in Hz, got {rate!r}")
        rows[speaker] = _check_samples(speaker, samples)
        rates[speaker] = int(rate)
    first = next(iter(rows))
    for speaker in rows:
        if rates[speaker] != rates[first]:
            raise ValueError(f"{speaker} has {rates[speaker]} Hz but {first} has {rates[first]} Hz")
        if len(rows[speaker]) != len(rows[first]):
            raise ValueError(f"{speaker} has {len(rows[speaker])} samples but {first} has {len(rows[first])}")
    return Recording(rows, rates[first])


def _check_samples(speaker: str, samples: ArrayLike) -> NDArray[np.float32]:
    array = np.asarray(samples)
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise ValueError(f"{speaker}: expected one channel of samples [n], got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{speaker}: has no samples")
    if not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"{speaker}: samples must be floats in [-1, 1], got {array.dtype}")
    with np.errstate(over="ignore"):  # what is too large for float32 is named below
        array = array.astype(np.float32, copy=False)
    finite = np.isfinite(array)
    if not finite.all():
        raise ValueError(f"{speaker}: sample {int(np.argmin(finite))} is not finite")
    return array


def check_hop(hop_s: float, sampling_rate: int) -> None:
    """Raise ValueError unless ``hop_s`` is a finite time that holds at least one sample."""
    if not (math.isfinite(hop_s) and hop_s * sampling_rate >= 1):
        raise ValueError(f"hop_s must be a time of at least one sample at {sampling_rate} Hz, got {hop_s!r}")


def check_rate(name: str, expected: int, sampling_rate: int) -> None:
    """Raise ValueError unless a detector is given the one rate that it hears."""
    if sampling_rate != expected:
        raise ValueError(f"{name} hears {expected} Hz, got {sampling_rate}")


def _native_hops(recording: Recording, hop_s: float, n_hops: int) -> Iterator[NDArray[np.float32]]:
    rate, n_samples = recording.sampling_rate, recording.n_samples
    rows = list(recording.samples.values())
    start = 0
    for index in range(1, n_hops + 1):
        end = hop_boundary(index, hop_s, rate)
        hop = np.zeros((len(rows), end - start), dtype=np.float32)
        for row, samples in zip(hop, rows, strict=True):
            heard = samples[start : min(end, n_samples)]
            row[: len(heard)] = heard
        yield hop
        start = end


def _soxr(rate_in: int, rate_out: int) -> Any:
    try:
        import soxr
    except ImportError as error:
        raise ImportError(
            f"resampling {rate_in} Hz to {rate_out} Hz needs soxr: pip install 'mptb[resample]'"
        ) from error
    return soxr


def _resampler(rate_in: int, rate_out: int) -> Any:
    soxr = _soxr(rate_in, rate_out)
    return soxr.ResampleStream(rate_in, rate_out, 1, dtype="float32", quality=RESAMPLING_QUALITY)


def resample_prefix(samples: NDArray[np.float32], rate_in: int, rate_out: int) -> NDArray[np.float32]:
    """Return a prefix, float32 [n], at another rate; whatever came after it in its recording plays no part.

    Raises:
        ImportError: soxr is not installed and the rates differ.
    """
    if rate_in == rate_out:
        return samples
    resampled = _soxr(rate_in, rate_out).resample(samples, rate_in, rate_out, quality=RESAMPLING_QUALITY)
    return np.asarray(resampled, dtype=np.float32)


@lru_cache(maxsize=64)
def resampling_delay_samples(rate_in: int, rate_out: int, hop_s: float) -> int:
    """Return by how much a resampled channel reaches the detector late, in samples at ``rate_out``.

    A resampler needs some audio on both sides of a sample, and its streaming form works in blocks. To let
    nothing of the future through, the resampled channel is delayed by a constant: the most that the resampler
    ever holds back. It depends on the rates and the hop alone, never on the recording.
    """
    if rate_in == rate_out:
        return 0
    stream = _resampler(rate_in, rate_out)
    available, worst, start = 0, 0, 0
    for index in range(1, CALIBRATION_HOPS + 1):
        end = hop_boundary(index, hop_s, rate_in)
        available += len(stream.resample_chunk(np.zeros(end - start, dtype=np.float32)))
        worst = max(worst, hop_boundary(index, hop_s, rate_out) - available)
        start = end
    return worst + math.ceil(worst / 50)


def _resampled_hops(
    recording: Recording, hop_s: float, n_hops: int, rate_out: int
) -> Iterator[NDArray[np.float32]]:
    """Yield hops at another rate, late by `resampling_delay_samples`.

    The resampler is fed hop by hop: what it has given by the end of a hop, it made of the audio up to there.
    It runs before the detector, whose work would push this loop out of the processor's caches at each hop.
    """
    rate = recording.sampling_rate
    delay = resampling_delay_samples(rate, rate_out, hop_s)
    boundaries = [hop_boundary(index, hop_s, rate) for index in range(n_hops + 1)]
    needed = [hop_boundary(index, hop_s, rate_out) for index in range(n_hops + 1)]
    resampled = np.zeros((len(recording.samples), needed[-1]), dtype=np.float32)
    for row, samples in zip(resampled, recording.samples.values(), strict=True):
        stream = _resampler(rate, rate_out)
        filled = delay
        for index, (start, end) in enumerate(pairwise(boundaries)):
            hop = samples[start:end]
            if len(hop) < end - start:
                hop = np.pad(hop, (0, end - start - len(hop)))
            given = stream.resample_chunk(hop)[: needed[-1] - filled]
            row[filled : filled + len(given)] = given
            filled += len(given)
            if filled < needed[index + 1]:
                raise RuntimeError(f"the resampler held back more than {delay} samples at hop {index}")
    for start, end in pairwise(needed):
        yield resampled[:, start:end].copy()


def hops_of(
    recording: Recording, hop_s: float, n_hops: int, sampling_rate: int
) -> Iterator[NDArray[np.float32]]:
    """Yield the first ``n_hops`` of a recording at a rate, each a fresh float32 [n_channels, hop_samples].

    Hop ``i`` is made from audio before the end of frame ``i`` alone. After the recording's end zeros follow.
    """
    if sampling_rate == recording.sampling_rate:
        return _native_hops(recording, hop_s, n_hops)
    return _resampled_hops(recording, hop_s, n_hops, sampling_rate)
