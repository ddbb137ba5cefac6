"""An opened recording, read by sample index: by libsndfile, by torchcodec, or from an array.

Whatever decodes them, the samples of a recording are the same float32 numbers: integer PCM divided by its
full scale, two channels averaged.

Damaged audio is an error where libFLAC sees it. torchcodec does not look at a FLAC frame's checksum: prefer
soundfile for files of unknown health.
"""

from __future__ import annotations

import os
from functools import cache
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

    def read_into(self, out: Samples, start: int) -> None:
        """Decode from sample `start` on, until `out` is full; all of it within ``[0, n_frames]``."""

    def close(self) -> None:
        """Let go of the file."""


class SoundFileReader:
    """A recording read by libsndfile, which seeks in constant time."""

    declared_rate: int | None = None

    def __init__(self, file: Any, name: str):
        import soundfile

        self.name = name
        try:
            self._file: soundfile.SoundFile = _forward_sound_file()(file)
        except soundfile.LibsndfileError as error:
            raise _cannot_open(file, name, error) from error
        self._position = 0
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

    def read_into(self, out: Samples, start: int) -> None:
        """Decode from sample `start` on, seeking only where the last read did not end there."""
        import soundfile

        if not len(out):
            return
        try:
            if self._position != start:
                self._file.seek(start)
            if self._file.channels == 1:
                samples = self._file.read(dtype="float32", out=out)
            else:
                samples = self._file.read(len(out), dtype="float32")
        except soundfile.LibsndfileError as error:
            raise _cannot_decode(self, start, len(out), error) from error
        if len(samples) != len(out):
            raise _cannot_decode(self, start, len(out), f"got only {len(samples)}")
        self._position = start + len(out)
        if self._file.channels == 2:
            _average(samples.T, out)

    def close(self) -> None:
        """Let go of the file; a file object of the caller stays open."""
        self._file.close()


@cache
def _forward_sound_file() -> type[soundfile.SoundFile]:
    """Make a SoundFile that reads on from where it is.

    After every read of a file that it may seek in, soundfile seeks to the place that it has reached. In
    FLAC that decodes a frame again, a twentieth of the time that reading a turn takes. A file that is only
    read does not need it.
    """
    import soundfile

    class ForwardSoundFile(soundfile.SoundFile):
        def seekable(self) -> bool:
            return False

    return ForwardSoundFile


class TorchcodecReader:
    """A recording read by torchcodec, which decodes from the start to reach a later place."""

    declared_rate: int | None = None

    def __init__(self, decoder: Any, name: str, sampling_rate: int, n_frames: int):
        self.name, self.sampling_rate, self.n_frames = name, sampling_rate, n_frames
        self._decoder = decoder

    def read_into(self, out: Samples, start: int) -> None:
        """Decode from sample `start` on."""
        if not len(out):
            return
        rate, stop = self.sampling_rate, start + len(out)
        # A range in seconds may gain or lose its first or last sample: ask for one more at either end,
        # and cut by index.
        try:
            played = self._decoder.get_samples_played_in_range(max(0, start - 1) / rate, (stop + 1) / rate)
        except (RuntimeError, ValueError) as error:
            raise _cannot_decode(self, start, len(out), error) from error
        first = round(played.pts_seconds * rate)
        channels = played.data.cpu().numpy()[:, max(0, start - first) : stop - first]
        if first > start or channels.shape[1] != len(out):
            raise _cannot_decode(self, start, len(out), f"got only {channels.shape[1]}")
        if len(channels) == 1:
            out[:] = channels[0]
        else:
            _average(channels, out)

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

    def read_into(self, out: Samples, start: int) -> None:
        """Copy from sample `start` on."""
        out[:] = self._samples[start : start + len(out)]

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


def _cannot_decode(reader: Reader, start: int, n_wanted: int, error: object) -> DecodeError:
    return DecodeError(
        f"{reader.name}: samples {start} to {start + n_wanted} of {reader.n_frames} cannot be decoded: "
        f"damaged or cut short ({first_line(error)})"
    )


def first_line(error: object) -> str:
    """Keep of an error what names it: torchcodec's go on for pages."""
    return str(error).partition("\n")[0]


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


def _average(channels: Samples, out: Samples) -> None:
    np.add(channels[0], channels[1], out=out)
    out *= 0.5
