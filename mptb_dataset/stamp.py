"""What a built table depends on besides its options: this package's source and the corpus's files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import xxhash

from .corpus import Corpus
from .errors import CorpusError
from .manifest import Entry
from .turn_end import TurnEndFiles


@cache
def code_hash() -> str:
    """A hash of this package's source, so that another release never serves this one's cache."""
    digest = xxhash.xxh3_128()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def annotations_read(config: str) -> tuple[str, ...]:
    """The fields of a manifest entry whose files a table is made from."""
    return ("events", "anchors", "script", "render") if config == "conversations" else ("events", "anchors")


def mptb_stamp(corpus: Corpus, splits: Iterable[str], config: str, scenes: Sequence[str]) -> str:
    """A hash of all that a local MPTB table is made from.

    A file counts by its size and its times. Rows only refer to audio, but what users derive from a row must
    not outlive a changed channel either.

    Args:
        corpus: the local tree.
        splits: the splits of the table.
        config: the table.
        scenes: the scenes whose audio its rows refer to.

    Raises:
        CorpusError: a file that the table needs is missing or empty.
    """
    digest = xxhash.xxh3_128(f"{code_hash()} {corpus.root}".encode())
    fields = annotations_read(config)
    for split in splits:
        for entry in corpus.entries(split):
            digest.update(repr(entry).encode())
            for field in fields:
                path = getattr(entry, field)
                if field == "events" or (path and os.path.exists(corpus.url(path))):
                    digest.update(_file_stamp(corpus, path, entry, field))
            for scene in scenes:
                for speaker, path in getattr(entry, f"audio_{scene}").items():
                    digest.update(_file_stamp(corpus, path, entry, f"audio_{scene}.{speaker}"))
    return digest.hexdigest()


def _file_stamp(corpus: Corpus, path: str, entry: Entry, field: str) -> bytes:
    try:
        status = os.stat(corpus.url(path))
        reason = None if status.st_size else "the file is empty"
    except OSError as error:
        reason = error.strerror
    if reason:
        raise CorpusError(
            f"{entry.split}/manifest.jsonl: {entry.conversation_id}: field '{field}': {path}: {reason}"
        )
    # The time of the last change of any kind tells an edit that kept the size and put the other time back.
    return b"%d %d %d " % (status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def turn_end_stamp(files: TurnEndFiles, splits: Iterable[str]) -> str:
    """A hash of what tells the local shards of a turn-end-detection table from others."""
    digest = xxhash.xxh3_128(code_hash().encode())
    for split in splits:
        for path in files.files[split]:
            digest.update(files.stamp(path))
    return digest.hexdigest()
