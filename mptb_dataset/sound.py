"""How much sound a file really holds."""

from __future__ import annotations

from typing import BinaryIO

import soundfile

_BLOCK_SAMPLES = 1 << 18


def count_samples(source: str | BinaryIO, *, sampling_rate_hz: int) -> int | str:
    """Decode a mono file to its end: only that shows a file cut short.

    Args:
        source: a path or an open file.
        sampling_rate_hz: the rate that it must have.

    Returns:
        The number of samples, or what is wrong with the file.
    """
    try:
        with soundfile.SoundFile(source) as file:
            if file.samplerate != sampling_rate_hz or file.channels != 1:
                return (
                    f"{file.samplerate} Hz with {file.channels} channel{'s' * (file.channels > 1)}: "
                    f"expected {sampling_rate_hz} Hz mono"
                )
            promised, found = file.frames, 0
            while block := len(file.read(_BLOCK_SAMPLES, dtype="int16")):
                found += block
    except (soundfile.LibsndfileError, OSError) as error:
        return f"expected a FLAC file that can be decoded to its end: {error}"
    if found != promised:
        return f"cut short: {found} samples of the {promised} that its header promises"
    return found
