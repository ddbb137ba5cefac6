"""What a process remembers of the recordings that it read last.

A recording stays open with one stretch of decoded samples. Asking past the stretch's end decodes only what
is missing, so rows that come in any order of time, one by one, decode each sample of a recording once.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import numpy as np

from .readers import Reader, Samples

MAX_RECORDINGS = 16
"""Open recordings, and with it open files: enough for the channels of a conversation and their neighbours."""


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

    def cover(self, start: int, stop: int, *, max_bytes: int) -> Samples:
        """Return samples ``[start, stop)`` as a view, decoding what is missing.

        Args:
            start: first sample.
            stop: one past the last, at most the recording's length.
            max_bytes: a stretch does not grow past this; it is then replaced by what is asked for.

        Raises:
            DecodeError: damaged audio; the recording is then of no further use.
        """
        touches = self._start <= start <= self._stop
        if not touches or (stop - self._start) * self._buffer.itemsize > max_bytes:
            self._buffer = self.reader.read(start, stop)
            self._start, self._stop = start, stop
        elif stop > self._stop:
            self._extend(stop)
        return self._buffer[start - self._start : stop - self._start]

    def _extend(self, stop: int) -> None:
        missing = self.reader.read(self._stop, stop)
        held, needed = self._stop - self._start, stop - self._start
        if needed > len(self._buffer):
            # Doubling keeps the copying linear in the recording's length, however small the steps.
            room = min(max(needed, 2 * held), self.reader.n_frames - self._start)
            grown = np.empty(room, np.float32)
            grown[:held] = self._buffer[:held]
            self._buffer = grown
        self._buffer[held:needed] = missing
        self._stop = stop


class RecordingCache:
    """The recordings used last, within bounds. Of one process; hold `lock` while working with it.

    Args:
        max_bytes: memory that the kept recordings may take together.
    """

    def __init__(self, max_bytes: int):
        self.max_bytes = max_bytes
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self._recordings: OrderedDict[Hashable, CachedRecording] = OrderedDict()

    def get(self, key: Hashable, open_recording: Callable[[], CachedRecording]) -> CachedRecording:
        """Return a recording, opening it if it is not there."""
        recording = self._recordings.pop(key, None) or open_recording()
        self._recordings[key] = recording
        return recording

    def drop(self, key: Hashable) -> None:
        """Close a recording and forget it, if it is there."""
        recording = self._recordings.pop(key, None)
        if recording is not None:
            recording.reader.close()

    def trim(self) -> None:
        """Close the recordings used longest ago until the rest is within bounds."""
        total = sum(recording.nbytes for recording in self._recordings.values())
        while self._recordings and (total > self.max_bytes or len(self._recordings) > MAX_RECORDINGS):
            _, oldest = self._recordings.popitem(last=False)
            total -= oldest.nbytes
            oldest.reader.close()
