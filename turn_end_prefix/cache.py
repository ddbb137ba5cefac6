"""What a process remembers of the recordings that it read last.

A recording stays open with one stretch of decoded samples. Asking past the stretch's end decodes only what
is missing, so rows that come in any order of time, one by one, decode each sample of a recording once.

Few recordings are kept at first: a buffer that was used just now is still in the processor's cache, and
decoding into sixteen of them in turn takes some 7 % longer. When a recording is asked for that was let go
too early, more are kept.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable

import numpy as np

from .readers import Reader, Samples

FEWEST_RECORDINGS, MOST_RECORDINGS = 2, 16
"""Kept at first; kept at most, as each is an open file: the channels of three conversations."""

_REMEMBERED_LOSSES = 64


class CachedRecording:
    """An open recording and the last stretch that was decoded of it.

    Args:
        reader: the recording.
        held_bytes: size of its encoded audio, where that is held in memory.
    """

    def __init__(self, reader: Reader, *, held_bytes: int = 0):
        self.reader = reader
        self._held_bytes = held_bytes
        self._buffer: Samples = np.zeros(0, np.float32)
        self._start = self._stop = 0

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self._held_bytes + self._buffer.nbytes

    def cover(self, start: int, stop: int, *, max_bytes: int, spare: bool = True) -> Samples:
        """Return samples ``[start, stop)`` as a view, decoding what is missing.

        Args:
            start: first sample.
            stop: one past the last, at most the recording's length.
            max_bytes: a stretch does not grow past this; it is then replaced by what is asked for.
            spare: leave room for the stretch to grow.

        Raises:
            DecodeError: damaged audio; the recording is then of no further use.
        """
        touches = self._start <= start <= self._stop and self._stop > 0
        if not touches or (stop - self._start) * self._buffer.itemsize > max_bytes:
            self._start = self._stop = start
            self._buffer = np.empty(self._room(stop) if spare else stop - start, np.float32)
        if stop > self._stop:
            self._extend(stop)
        return self._buffer[start - self._start : stop - self._start]

    def _room(self, stop: int) -> int:
        # Twice what is needed: the copying stays linear in the recording's length, however small the steps.
        return min(2 * (stop - self._start), self.reader.n_frames - self._start)

    def _extend(self, stop: int) -> None:
        held, needed = self._stop - self._start, stop - self._start
        if needed > len(self._buffer):
            grown = np.empty(self._room(stop), np.float32)
            grown[:held] = self._buffer[:held]
            self._buffer = grown
        self.reader.read_into(self._buffer[held:needed], self._stop)
        self._stop = stop


def _close_all(recordings: OrderedDict[Hashable, CachedRecording]) -> None:
    while recordings:
        recordings.popitem()[1].reader.close()


class RecordingCache:
    """The recordings used last, within bounds. Of one process; hold `lock` while working with it.

    Args:
        max_bytes: memory that the kept recordings may take together.
    """

    def __init__(self, max_bytes: int):
        self.max_bytes = max_bytes
        self.max_recordings = FEWEST_RECORDINGS
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self._recordings: OrderedDict[Hashable, CachedRecording] = OrderedDict()
        # Also at the interpreter's exit: libsndfile may be gone by the time that an open file notices.
        weakref.finalize(self, _close_all, self._recordings)
        self._lost: deque[int] = deque(maxlen=_REMEMBERED_LOSSES)

    def get(self, key: Hashable, open_recording: Callable[[], CachedRecording]) -> CachedRecording:
        """Return a recording, opening it if it is not there."""
        recording = self._recordings.pop(key, None)
        if recording is None:
            if hash(key) in self._lost:
                self.max_recordings = min(MOST_RECORDINGS, 2 * self.max_recordings)
                self._lost.clear()
            recording = open_recording()
        self._recordings[key] = recording
        return recording

    def drop(self, key: Hashable) -> None:
        """Close a recording and forget it, if it is there."""
        recording = self._recordings.pop(key, None)
        if recording is not None:
            self._lost.append(hash(key))
            recording.reader.close()

    def trim(self) -> None:
        """Close the recordings used longest ago until the rest is within bounds."""
        total = sum(recording.nbytes for recording in self._recordings.values())
        while self._recordings and (total > self.max_bytes or len(self._recordings) > self.max_recordings):
            key, oldest = next(iter(self._recordings.items()))
            total -= oldest.nbytes
            self.drop(key)
