"""Every form in which audio arrives, opened as one thing: a recording that is read by sample index.

A source is a path (local, or any address that fsspec opens), encoded bytes, `{"path", "bytes"}`, `{"array",
"sampling_rate"}`, a binary file object, or an AudioDecoder of `datasets` or torchcodec. The header is always
read with soundfile, so that both backends refuse the same files.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any

from .readers import (
    ArrayReader,
    DecodeError,
    MissingAudioError,
    Reader,
    SoundFileReader,
    TorchcodecReader,
    check_channels,
    first_line,
)

BACKENDS = ("soundfile", "torchcodec")


def open_audio(source: Any, *, backend: str = "soundfile") -> Reader:
    """Open a source, read its header, decode nothing yet.

    Args:
        source: see the top of this module. A file object is read from its start, and stays open.
        backend: "soundfile" or "torchcodec".

    Returns:
        A reader; close it.

    Raises:
        DecodeError: missing, empty or damaged audio; not FLAC or WAV; more than two channels.
        ImportError: torchcodec is asked for and cannot be imported.
        TypeError: `source` is none of those forms.
        ValueError: an unknown backend; neither path, bytes nor array; an array that is no mono audio.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend: expected one of {', '.join(BACKENDS)}, got {backend!r}")
    declared_rate = None
    if hasattr(source, "get_samples_played_in_range"):
        encoded = getattr(source, "_hf_encoded", None)
        if not encoded:
            return _plain_decoder(source)
        source, declared_rate = encoded, getattr(source, "_desired_sample_rate", None)
    if isinstance(source, Mapping):
        if source.get("array") is not None:
            return ArrayReader(source["array"], source.get("sampling_rate"))
        source = _encoded_part(source)
    file, name = _as_file(source)
    reader: Reader = SoundFileReader(file, name)
    if backend == "torchcodec":
        reader.close()
        decoder = _decode_with_torchcodec(file, name)
        reader = TorchcodecReader(decoder, name, reader.sampling_rate, reader.n_frames)
    reader.declared_rate = declared_rate
    return reader


def _encoded_part(source: Mapping[str, Any]) -> Any:
    for part in ("bytes", "path"):
        if source.get(part) is not None:
            return source[part]
    raise ValueError(f"no audio: bytes, path and array are missing or null in a dict of {sorted(source)}")


def _as_file(source: Any) -> tuple[Any, str]:
    """A local path or a seekable file object at its start, and a name for messages."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        if not len(source):
            raise DecodeError("audio is empty (0 bytes)")
        return io.BytesIO(source), f"audio of {len(source)} bytes"
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if isinstance(path, str) and "://" in path:
            return _fetch(path), path
        return path, os.fsdecode(path)
    if not callable(getattr(source, "read", None)):
        raise TypeError(
            f"audio: expected a path, bytes, {{'path', 'bytes'}}, {{'array', 'sampling_rate'}}, a binary "
            f"file or an AudioDecoder, got {type(source).__name__}"
        )
    if isinstance(source, io.TextIOBase):
        raise TypeError("audio: expected a file opened in binary mode, got one opened as text")
    name = str(getattr(source, "name", "audio file object"))
    if not (hasattr(source, "seekable") and source.seekable()):
        return io.BytesIO(source.read()), name
    source.seek(0)
    return source, name


def _fetch(address: str) -> io.BytesIO:
    import fsspec

    try:
        with fsspec.open(address, "rb") as file:
            return io.BytesIO(file.read())
    except FileNotFoundError as error:
        raise MissingAudioError(f"{address}: no such audio file") from error
    except (OSError, ValueError) as error:
        raise DecodeError(f"{address}: cannot be read: {error}") from error


def _decode_with_torchcodec(file: Any, name: str) -> Any:
    try:
        from torchcodec.decoders import AudioDecoder
    except (ImportError, OSError, RuntimeError) as error:
        raise ImportError(
            "backend='torchcodec' needs torch, a torchcodec that fits it and FFmpeg's shared libraries "
            f"({type(error).__name__}: {first_line(error)}); backend='soundfile' gives the same samples"
        ) from error
    try:
        if isinstance(file, (str, bytes)):
            return AudioDecoder(os.fsdecode(file))
        file.seek(0)
        return AudioDecoder(file)
    except (RuntimeError, ValueError) as error:
        raise DecodeError(f"{name}: torchcodec cannot open it: {first_line(error)}") from error


def _plain_decoder(decoder: Any) -> TorchcodecReader:
    """Read through a decoder whose file is out of reach."""
    about = decoder.metadata
    name = f"AudioDecoder of {about.codec} audio"
    if about.codec != "flac" and not str(about.codec).startswith("pcm_"):
        raise DecodeError(f"{name}: expected FLAC or WAV; read the noisy FLAC channels (audio/noisy/*.flac)")
    wanted = getattr(decoder, "_desired_sample_rate", about.sample_rate)
    if wanted != about.sample_rate:
        raise ValueError(
            f"{name}: it resamples {about.sample_rate} Hz to {wanted} Hz before the cut, so that later audio "
            f"leaks in: open it without sample_rate and pass sampling_rate={wanted} here"
        )
    check_channels(about.num_channels, name)
    n_frames = round(about.duration_seconds * about.sample_rate)
    return TorchcodecReader(decoder, name, about.sample_rate, n_frames)
