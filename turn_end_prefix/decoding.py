"""A prefix of a recording: its samples up to a moment, and not one more.

The cut is made in the recording's own samples, `n_samples` of them, and only then resampled, if at all:
a resampling filter reaches some milliseconds to either side, and run before the cut it would carry what
comes after `at_s` into the prefix.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np

from .readers import DecodeError, Reader, Samples
from .slicing import check_rate, n_samples
from .sources import open_audio

END_TOLERANCE_S = 0.05
"""How far past the end `at_s` may lie and still mean the end: a time that was rounded, or an endpoint that
was declared on the last packet."""

USUAL_RATES_HZ = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)


def read_prefix(
    source: Any,
    at_s: float,
    *,
    window_s: float | None = None,
    backend: str = "soundfile",
    sampling_rate: int | None = None,
) -> tuple[Samples, int]:
    """Read what was heard by a moment: the first ``floor(at_s * rate + 1e-6)`` samples.

    Args:
        source: a path, encoded bytes, `{"path", "bytes"}`, `{"array", "sampling_rate"}`, a binary file
            object or an AudioDecoder (`datasets` or torchcodec). FLAC or WAV; two channels are averaged.
        at_s (s, >= 0): the moment of the cut. Up to 50 ms past the end it gives the whole recording.
        window_s (s, > 0): keep only this much of the prefix's end. The decoder seeks there (torchcodec
            cannot, and decodes on the way).
        backend: "soundfile", or "torchcodec": the same samples from both.
        sampling_rate (Hz): resample to this rate, after the cut and the window; needs soxr.

    Returns:
        The samples, float32 [n], in a new array, and their rate in Hz. Nothing is ever padded: `n` is 0
        for ``at_s`` 0, and below the window's length near the start.

    Raises:
        DecodeError: audio that is missing, empty, damaged or cut short before the last sample needed; not
            FLAC or WAV; more than two channels; at another rate than an AudioDecoder's table declares.
        ImportError: torchcodec or soxr is needed and cannot be imported.
        TypeError: an argument of another type.
        ValueError: ``at_s`` is NaN, infinite, negative or more than 50 ms past the end; a window that is
            not positive; an unknown backend. (DecodeError is a ValueError too.)

    Examples:
        >>> samples, rate = read_prefix({"array": np.zeros(32000), "sampling_rate": 16000}, 1.001)
        >>> len(samples), rate
        (16016, 16000)
    """
    check_options(window_s=window_s, sampling_rate=sampling_rate)
    n_samples(at_s, 1)  # a moment that is none is reported before any file is opened
    with closing(open_audio(source, backend=backend)) as reader:
        check_recording(reader, sampling_rate=sampling_rate)
        start, stop = prefix_range(reader, at_s, window_s=window_s)
        samples = np.empty(stop - start, np.float32)
        reader.read_into(samples, start)
    return resample(samples, reader.sampling_rate, sampling_rate)


def check_options(*, window_s: float | None, sampling_rate: int | None) -> None:
    """Refuse a window or a rate that means nothing.

    Raises:
        TypeError: not numbers of their kind.
        ValueError: a window that is not positive and finite, a rate that is not positive.
    """
    if window_s is not None:
        n_samples(window_s, 1)
        if window_s == 0:
            raise ValueError("window_s: expected seconds > 0, got 0; None keeps the whole prefix")
    if sampling_rate is not None:
        check_rate(sampling_rate)


def check_recording(
    reader: Reader, *, sampling_rate: int | None, declared_rate: int | None = None, duration_s: Any = None
) -> None:
    """Refuse a recording whose header contradicts its table.

    Args:
        reader: the opened recording.
        sampling_rate (Hz): what the caller resamples to; None where it keeps the recording's rate.
        declared_rate (Hz): the rate of the table's Audio column, if it has one.
        duration_s (s): how long the table says it is, if it does.

    Raises:
        DecodeError: another rate than declared, unless the caller asked to be given the declared one; or a
            length that fits the table at another rate than the header's only.
    """
    declared_rate = reader.declared_rate if declared_rate is None else declared_rate
    if declared_rate not in (None, reader.sampling_rate, sampling_rate):
        raise DecodeError(
            f"{reader.name}: its header says {reader.sampling_rate} Hz, the table {declared_rate} Hz: one of "
            f"them is wrong, or pass sampling_rate={declared_rate} to resample after the cut"
        )
    if duration_s is None or abs(reader.n_frames / reader.sampling_rate - duration_s) <= END_TOLERANCE_S:
        return
    for rate in USUAL_RATES_HZ:
        if abs(reader.n_frames / rate - duration_s) <= END_TOLERANCE_S:
            raise DecodeError(
                f"{reader.name}: its header says {reader.sampling_rate} Hz, but its {reader.n_frames} "
                f"samples last the table's {duration_s} s at {rate} Hz"
            )


def prefix_range(reader: Reader, at_s: float, *, window_s: float | None) -> tuple[int, int]:
    """The samples ``[start, stop)`` of a recording that make up a prefix, or its last seconds.

    Raises:
        ValueError: ``at_s`` is no moment of the recording.
    """
    rate = reader.sampling_rate
    stop = n_samples(at_s, rate)
    if stop - reader.n_frames > n_samples(END_TOLERANCE_S, rate):
        raise ValueError(
            f"at_s {float(at_s)} lies past the end of {reader.name}: it lasts {reader.n_frames / rate:.3f} s "
            f"({reader.n_frames} samples at {rate} Hz)"
        )
    stop = min(stop, reader.n_frames)
    return (0 if window_s is None else max(0, stop - n_samples(window_s, rate))), stop


def resample(samples: Samples, rate: int, wanted: int | None) -> tuple[Samples, int]:
    """Change the rate of samples that are cut already.

    Raises:
        ImportError: soxr is not installed.
    """
    if wanted is None or wanted == rate:
        return samples, rate
    if not len(samples):
        return samples, int(wanted)
    try:
        import soxr
    except ImportError as error:
        raise ImportError(f"resampling {rate} Hz to {wanted} Hz needs soxr: pip install soxr") from error
    return np.asarray(soxr.resample(samples, rate, wanted), np.float32), int(wanted)
