"""An opened recording, read by sample index: by libsndfile, by torchcodec, or from an array.

Whatever decodes them, the samples of a recording are the same float32 numbers: integer PCM divided by its
full scale, two channels averaged.

Damaged audio is an error where libFLAC sees it. torchcodec does not look at a FLAC frame's checksum: prefer
soundfile for files of unknown health.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .slicing import check_rate

if TYPE_CHECKING:
    import soundfile

Samples = NDArray[np.float32]

_FORMATS = ("FLAC", "WAV", "WAVEX", "RF64")
_SUBTYPES = ("PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW")
"""Formats in which a sample has a place of its own, so that a cut is exact."""

_MAX_FRAMES = 1 << 48
"""libsndfile says 2**63 - 1 for a FLAC whose header leaves its length open."""


class DecodeError(ValueError):
    """Audio that cannot be read: empty, damaged, cut short, of the wrong kind. The message names it."""


class MissingAudioError(DecodeError, FileNotFoundError):
    """An audio file that is not there."""


class Reader(Protocol):
    """An opened recording.

    Attributes:
        name: the path, or what else tells the source apart in a message.
        sampling_rate: the rate in Hz that the recording itself says.
        n_frames: its length in samples.
        declared_rate: the rate in Hz that the table it came from promises, or None.
    """

    name: str
    sampling_rate: int
    n_frames: int
    declared_rate: int | None

    def read(self, start: int, stop: int) -> Samples:
        """Decode samples ``[start, stop)`` into a new float32 array; both within ``[0, n_frames]``."""

    def close(self) -> None:
        """Let go of the file."""


class SoundFileReader:
    """A recording read by libsndfile, which seeks in constant time."""

    declared_rate: int | None = None

    def __init__(self, file: Any, name: str):
        import soundfile

        self.name = name
        try:
            self._file: soundfile.SoundFile = soundfile.SoundFile(file)
        except soundfile.LibsndfileError as error:
            raise _cannot_open(file, name, error) from error
        self.sampling_rate, self.n_frames = self._file.samplerate, self._file.frames
        try:
            self._check_header()
        except DecodeError:
            self.close()
            raise

    def _check_header(self) -> None:
        found = f"{self._file.format}/{self._file.subtype}"
        if self._file.format not in _FORMATS or self._file.subtype not in _SUBTYPES:
            raise DecodeError(
                f"{self.name}: is {found}: expected FLAC or WAV. Previews and mixdowns are not evaluation "
                "input: read the noisy FLAC channels (audio/noisy/*.flac)"
            )
        check_channels(self._file.channels, self.name)
        if self.n_frames >= _MAX_FRAMES:
            raise DecodeError(f"{self.name}: its header leaves the number of samples open: encode it again")

    def read(self, start: int, stop: int) -> Samples:
        """Decode samples ``[start, stop)``, seeking only where the last read did not end there."""
        import soundfile

        if start >= stop:
            return np.zeros(0, np.float32)
        try:
            if self._file.tell() != start:
                self._file.seek(start)
            samples = self._file.read(stop - start, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise _cannot_decode(self, start, stop, error) from error
        return _mono(self, samples.T, start, stop)

    def close(self) -> None:
        """Let go of the file; a file object of the caller stays open."""
        self._file.close()


class TorchcodecReader:
    """A recording read by torchcodec, which decodes from the start to reach a later place."""

    declared_rate: int | None = None

    def __init__(self, decoder: Any, name: str, sampling_rate: int, n_frames: int):
        self.name, self.sampling_rate, self.n_frames = name, sampling_rate, n_frames
        self._decoder = decoder

    def read(self, start: int, stop: int) -> Samples:
        """Decode samples ``[start, stop)``."""
        if start >= stop:
            return np.zeros(0, np.float32)
        rate = self.sampling_rate
        # A range in seconds may gain or lose its first or last sample: ask for one more at either end,
        # and cut by index.
        try:
            played = self._decoder.get_samples_played_in_range(max(0, start - 1) / rate, (stop + 1) / rate)
        except (RuntimeError, ValueError) as error:
            raise _cannot_decode(self, start, stop, error) from error
        first = round(played.pts_seconds * rate)
        samples = played.data.cpu().numpy()[:, start - first : stop - first]
        return _mono(self, samples.astype(np.float32, copy=True), start, stop)

    def close(self) -> None:
        """Let go of the decoder."""
        self._decoder = None


class ArrayReader:
    """Audio that is decoded already."""

    declared_rate: int | None = None
    name = "array"

    def __init__(self, array: Any, sampling_rate: Any):
        samples = np.asarray(array)
        if samples.ndim == 2 and 1 in samples.shape:
            samples = samples.reshape(-1)
        if samples.ndim != 1:
            raise ValueError(f"array: expected mono samples [n], got shape {samples.shape}")
        if samples.size and not np.issubdtype(samples.dtype, np.floating):
            raise ValueError(f"array: expected floats in [-1, 1], got {samples.dtype}")
        if sampling_rate is None:
            raise ValueError("array: comes without its sampling_rate in Hz")
        check_rate(sampling_rate)
        self._samples = samples
        self.sampling_rate, self.n_frames = int(sampling_rate), len(samples)

    def read(self, start: int, stop: int) -> Samples:
        """Copy samples ``[start, stop)``."""
        return self._samples[start:stop].astype(np.float32)

    def close(self) -> None:
        """Do nothing: there is no file."""


def _cannot_open(file: Any, name: str, error: Exception) -> DecodeError:
    if isinstance(file, (str, bytes)):
        if not os.path.exists(file):
            return MissingAudioError(f"{name}: no such audio file")
        empty = os.path.isfile(file) and os.path.getsize(file) == 0
    else:
        empty = file.seek(0, os.SEEK_END) == 0
    if empty:
        return DecodeError(f"{name}: is empty (0 bytes)")
    # libsndfile's own text repeats the file object's address before the reason.
    return DecodeError(f"{name}: is not FLAC or WAV audio: {getattr(error, 'error_string', error)}")


def _cannot_decode(reader: Reader, start: int, stop: int, error: object) -> DecodeError:
    return DecodeError(
        f"{reader.name}: samples {start} to {stop} of {reader.n_frames} cannot be decoded: damaged or cut "
        f"short ({str(error).splitlines()[0]})"
    )


def check_channels(n_channels: int, name: str) -> None:
    """Refuse a file in which several speakers are packed.

    Raises:
        DecodeError: more than two channels.
    """
    if n_channels not in (1, 2):
        raise DecodeError(
            f"{name}: has {n_channels} channels: expected one, or two to average. Speakers packed into one "
            "file are not mixed: split them"
        )


def _mono(reader: Reader, channels: Samples, start: int, stop: int) -> Samples:
    """Average [n_channels, n] into [n], and make sure that all of it is there."""
    if channels.shape[1] != stop - start:
        raise _cannot_decode(reader, start, stop, f"got {channels.shape[1]} of {stop - start}")
    return channels[0] if len(channels) == 1 else (channels[0] + channels[1]) * np.float32(0.5)
