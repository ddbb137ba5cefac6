"""A detector over every conversation of a split, on all cores; what was finished is not done again."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import soundfile
from numpy.typing import NDArray

from mptb_dataset.corpus import Conversation, Corpus
from mptb_dataset.errors import CorpusError
from turn_end_prefix.causality import name_of
from turn_end_prefix.detectors import load_detector
from turn_end_prefix.replay import Detector, ReplayTimer, lookahead_of, replay

from .gold import Split
from .scores import Scores, write_npz, write_scores

HOP_S = 0.08
"""Seconds of audio between two scores: the frame length of common streaming speech codecs."""


@dataclass(frozen=True)
class Job:
    """Everything that one conversation's scores depend on; it must survive a trip to another process."""

    root: str
    conversation: Conversation
    detector: str
    hop_s: float
    part: Path


def read_channels(root: str, conversation: Conversation) -> dict[str, tuple[NDArray[np.float32], int]]:
    """Decode the noisy channel of every speaker of a conversation.

    Returns:
        `{speaker: (samples float32 [n], rate in Hz)}`.

    Raises:
        CorpusError: a channel is missing, cut short or cannot be decoded, is not mono, or differs from the
            first one in length or rate.
    """
    corpus = Corpus(root)
    channels: dict[str, tuple[NDArray[np.float32], int]] = {}
    first: tuple[str, int, int] | None = None
    for speaker, path in conversation.audio("noisy").items():
        try:
            with soundfile.SoundFile(corpus.url(path)) as file:
                if file.channels != 1:
                    raise CorpusError(f"{path}: {file.channels} channels in one file: expected mono")
                samples, rate, expected = file.read(dtype="float32"), file.samplerate, file.frames
        except (soundfile.LibsndfileError, OSError) as error:
            raise CorpusError(f"{path}: expected a FLAC file that can be decoded: {error}") from None
        if len(samples) != expected:
            raise CorpusError(f"{path}: cut short: {len(samples)} samples of the {expected} of its header")
        first = first or (path, len(samples), rate)
        if (len(samples), rate) != first[1:]:
            raise CorpusError(
                f"{path}: {len(samples)} samples at {rate} Hz, "
                f"but {first[0]} has {first[1]} at {first[2]} Hz: "
                "expected channels of equal length"
            )
        channels[speaker] = samples, rate
    return channels


def run_split(
    split: Split,
    detector: str,
    out: Path,
    *,
    hop_s: float = HOP_S,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Scores, ReplayTimer]:
    """Let a detector hear every conversation of a split and write its score file.

    Finished conversations wait in `<out>.parts/`, each written whole or not at all, and are not heard again
    when an interrupted run is started anew with the same detector, hop and corpus.

    Args:
        split: what to hear.
        detector: a name of `turn_end_prefix.detectors`, or `module:object`.
        out: the score file.
        hop_s: seconds of audio between two scores.
        jobs: processes; None for one per core.
        progress: called with conversations done and in all.

    Returns:
        The scores, and where the time of this run went.

    Raises:
        CorpusError: a channel that cannot be heard.
        ValueError: an unknown detector, or one that answers wrongly.
    """
    heard = new_detector(detector, split.conversations[0])
    parts = out.with_name(out.name + ".parts")
    made_by = {
        "detector": detector,
        "code": code_of(detector, heard),
        "hop_s": hop_s,
        "split": split.name,
        "corpus": split.checksum,
    }
    work = [
        Job(split.corpus.root, one, detector, hop_s, parts / f"{one.conversation_id}.npz")
        for one in split.conversations
    ]
    timer = run_parts(parts, made_by, work, _hear, workers=jobs, progress=progress)
    scores = Scores(
        detector=name_of(heard),
        frame_rate=1.0 / hop_s,
        lookahead_s=lookahead_of(heard),
        split=split.name,
        corpus=split.checksum,
        traces={key: trace for job in work for key, trace in _read_part(job)},
    )
    write_scores(out, scores)
    shutil.rmtree(parts)
    return scores, timer


class HasPart(Protocol):
    """A piece of work that ends with a file of its own."""

    @property
    def part(self) -> Path:
        """The file."""


Work = TypeVar("Work", bound=HasPart)


def run_parts(
    parts: Path,
    made_by: dict[str, Any],
    work: Sequence[Work],
    do: Callable[[Work], ReplayTimer],
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ReplayTimer:
    """Do the pieces whose part is not there yet, on several processes.

    Args:
        parts: the folder of the parts; it is emptied where it was made by anything else than `made_by`.
        made_by: all that the parts depend on.
        work: the pieces.
        do: does a piece: it writes `piece.part` whole or not at all, and says where its time went. It must
            survive a trip to another process.
        workers: processes; None for one per core.
        progress: called with pieces done and in all.
    """
    _claim_parts(parts, made_by)
    waiting = [piece for piece in work if not piece.part.exists()]
    timer = ReplayTimer()
    _report(progress, len(work) - len(waiting), len(work))
    for done, spent in enumerate(_timers(waiting, do, workers), start=len(work) - len(waiting) + 1):
        timer.audio_s += spent.audio_s
        timer.detector_s += spent.detector_s
        timer.total_s += spent.total_s
        _report(progress, done, len(work))
    return timer


def _claim_parts(parts: Path, made_by: dict[str, Any]) -> None:
    """Keep the parts of the same run; start over where anything that they depend on is different."""
    owner = parts / "run.json"
    text = json.dumps(made_by, sort_keys=True)
    if owner.exists() and owner.read_text(encoding="utf-8") == text:
        return
    if parts.exists():
        shutil.rmtree(parts)
    parts.mkdir(parents=True)
    owner.write_text(text, encoding="utf-8")


def _timers(
    waiting: Sequence[Work], do: Callable[[Work], ReplayTimer], workers: int | None
) -> Iterator[ReplayTimer]:
    workers = min(workers or os.cpu_count() or 1, len(waiting))
    if workers <= 1:
        yield from map(do, waiting)
        return
    pool = ProcessPoolExecutor(workers, initializer=_end_with_parent, initargs=(os.getpid(),))
    try:
        for future in as_completed([pool.submit(do, piece) for piece in waiting]):
            yield future.result()
    except BrokenProcessPool:
        raise ValueError("a process of the detector died, perhaps for want of memory: try --jobs 1") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _end_with_parent(parent: int) -> None:
    """Leave no worker behind when the command is killed: what it waits for would never come."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _hear(job: Job) -> ReplayTimer:
    timer = ReplayTimer()
    channels = read_channels(job.root, job.conversation)
    detector = new_detector(job.detector, job.conversation)
    try:
        scores = replay(channels, detector, hop_s=job.hop_s, timer=timer)
    except ValueError as error:
        raise ValueError(f"{job.conversation.conversation_id}: {error}") from error
    except SystemExit as error:
        raise ValueError(
            f"{job.conversation.conversation_id}: the detector called sys.exit({error})"
        ) from error
    except Exception as error:  # whatever a user's code raises
        raise ValueError(
            f"{job.conversation.conversation_id}: detector {job.detector!r} failed\n{own_frames(error)}"
        ) from error
    write_npz(
        job.part,
        {
            f"{speaker}/{track}": trace
            for track, traces in scores.items()
            for speaker, trace in traces.items()
        },
    )
    return timer


def new_detector(name: str, conversation: Conversation) -> Detector:
    """A new detector; the oracle is the one that is told the gold.

    Raises:
        ValueError: an unknown name, or an object that is no detector.
        ImportError: its module, or a package that it needs, is not there.
    """
    options = {"anchors": conversation.anchors} if name == "oracle" else {}
    try:
        return load_detector(name, **options)
    except (TypeError, ImportError) as error:
        told = own_frames(error) if ":" in name and error.__traceback__ else str(error)
        raise ValueError(f"detector {name!r}: {told}") from error


def own_frames(error: BaseException) -> str:
    """An exception as Python shows it, with the frames of the user's own files only."""
    ours = (os.path.dirname(__file__), os.path.dirname(replay.__code__.co_filename), "<frozen")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(ours) and os.sep + "importlib" + os.sep not in frame.filename
    ]
    last = traceback.format_exception_only(type(error), error)
    return "".join([*traceback.format_list(frames), *last]).rstrip()


def code_of(name: str, detector: object) -> str:
    """A hash of the files that a detector is from, so that the parts of an earlier version are not kept.

    Args:
        name: how it was asked for.
        detector: it.
    """
    modules = {type(detector).__module__, *([name.partition(":")[0]] if ":" in name else [])}
    digest = sha256()
    for module in sorted(modules):
        path = getattr(sys.modules.get(module), "__file__", None)
        if path is not None and os.path.isfile(path):
            digest.update(Path(path).read_bytes())
    return digest.hexdigest()


def _read_part(job: Job) -> Iterator[tuple[tuple[str, str, str], NDArray[Any]]]:
    try:
        with np.load(job.part, allow_pickle=False) as arrays:
            for name in arrays.files:
                speaker, track = name.rsplit("/", 1)
                yield (job.conversation.conversation_id, speaker, track), arrays[name]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        job.part.unlink(missing_ok=True)
        raise ValueError(f"{job.part}: damaged, and so removed: run again ({error})") from None


def _report(progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)
