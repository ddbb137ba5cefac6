"""The gold that submissions are scored against: conversations, from wherever the environment says.

Either the table `conversations` of an export, a local folder or a repository on the Hub, which needs nothing
but `datasets`; or the tree of the benchmark's card, which the package `mptb_dataset` reads. Without a word
from the environment it is a miniature of the corpus that lies beside this module. No audio is fetched.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..predictions import TRACKS
from ..scoring import DEV_BUDGET, GOLD, TEST_BUDGET

ROOT_VARIABLE = "MPTB_ROOT"
SAMPLE = Path(__file__).with_name("sample.json")
COLUMNS = (
    "conversation_id",
    "conversation_type",
    "num_speakers",
    "speakers",
    "duration_s",
    "events",
    "anchors",
)
"""What scoring and the timeline need of the table `conversations`."""

SPLITS = {"dev": DEV_BUDGET, "test": TEST_BUDGET}
"""The benchmark's splits, each with the false-positive rate that a system may have there."""

_REPOSITORY = re.compile(r"(?:hf://datasets/)?([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")

Row = dict[str, Any]


@dataclass(frozen=True)
class Split:
    """The gold of one split.

    Attributes:
        name: "dev" or "test".
        conversations: rows of the table `conversations`, in its order, by id; only `COLUMNS`.
        references: a row per channel, as `mptb_metric.score_floor` takes them.
    """

    name: str
    conversations: dict[str, Row]
    references: list[Row]

    @property
    def budget(self) -> float:
        """The false-positive rate that a system may have on this split (card, section 5)."""
        return SPLITS[self.name]


@dataclass(frozen=True)
class Gold:
    """All gold there is.

    Attributes:
        source: what to call it; None for the miniature.
        splits: those that the corpus has, "test" first.
    """

    source: str | None
    splits: dict[str, Split]


def load_gold(root: str | None) -> Gold:
    """Read the gold of every split.

    Args:
        root: a folder, `<org>/<name>` or `hf://datasets/<org>/<name>`, the last two with `@revision` where
            one is meant; None or empty for the miniature.

    Raises:
        ValueError: no such corpus, or one that cannot be understood.
        ImportError: a tree, and `mptb_dataset` is not installed.
    """
    if not root:
        return _gold(None, json.loads(SAMPLE.read_bytes()))
    folder = os.path.abspath(os.path.expanduser(root))
    if os.path.isdir(folder):
        return _gold(os.path.basename(folder), _read(folder, os.listdir(folder), folder))
    address = _REPOSITORY.fullmatch(root)
    if address is None:
        raise ValueError(
            f"{ROOT_VARIABLE}: {root}: no such folder, and no <org>/<name> or hf://datasets/<org>/<name>"
        )
    from huggingface_hub import HfFileSystem

    at = f"@{address[2]}" if address[2] else ""
    url = f"hf://datasets/{address[1]}{at}"
    names = [str(path).rsplit("/", 1)[-1] for path in HfFileSystem().ls(url, detail=False)]
    return _gold(f"{address[1]}{at}", _read(url, names, address[1], revision=address[2]))


def _read(address: str, names: Iterable[str], path: str, **options: Any) -> dict[str, list[Row]]:
    """Read an export, which has a folder per table, or a tree, which has one per split."""
    if "conversations" in names:
        import datasets

        # Streaming reads these columns' bytes only; else whole shards would be fetched, with their audio.
        tables = datasets.load_dataset(
            path, "conversations", streaming=True, columns=list(COLUMNS), **options
        )
    elif not set(SPLITS).isdisjoint(names):
        try:
            import mptb_dataset
        except ImportError as error:
            raise ImportError(
                f"{ROOT_VARIABLE}: {address} is a tree of the benchmark, which only the package mptb reads "
                f"({error}): install it, or point to what `mptb export --config conversations` wrote"
            ) from error
        tables = mptb_dataset.load_dataset(
            "conversations", data_dir=address, audio="none", columns=COLUMNS, decode=False
        )
    else:
        found = ", ".join(sorted(names)[:10]) or "nothing"
        raise ValueError(
            f"{ROOT_VARIABLE}: {address}: expected a folder `conversations` (an export), or `dev` or `test` "
            f"(the benchmark's tree), found {found}"
        )
    return {name: list(table) for name, table in tables.items()}


def _gold(source: str | None, tables: Mapping[str, list[Row]]) -> Gold:
    splits = {name: _split(name, tables[name]) for name in reversed(SPLITS) if tables.get(name)}
    if not splits:
        raise ValueError(f"{ROOT_VARIABLE}: {source}: no conversations in {' or '.join(SPLITS)}")
    return Gold(source, splits)


def _split(name: str, rows: list[Row]) -> Split:
    references = [channel for row in rows for channel in _channels(row)]
    return Split(name, {row["conversation_id"]: row for row in rows}, references)


def _channels(row: Row) -> list[Row]:
    shared = {
        "conversation_id": row["conversation_id"],
        "conversation_type": row["conversation_type"] or "unknown",
        "num_speakers": row["num_speakers"],
        "duration_s": row["duration_s"],
    }
    gold: dict[tuple[str, str], Row] = {
        (anchor["speaker"], anchor["track"]): {key: anchor[key] for key in GOLD} for anchor in row["anchors"]
    }
    return [
        {**shared, "speaker": speaker, **{track: gold[speaker, track] for track in TRACKS}}
        for speaker in row["speakers"]
    ]
