"""How long preparing the MPTB tables of a 240-conversation tree takes, next to a bare `json.load` loop.

Both sides read the same annotation files, in turns in one run, and the best of several rounds counts. The
target is at most 3x for the tables together, with no audio file opened. `datasets`' own share is measured
by handing it the finished tables.
"""

from __future__ import annotations

import gc
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tree import write_tree

os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")

import datasets

import mptb_dataset
from mptb_dataset.manifest import parse_manifest
from mptb_dataset.mptb_dataset import TABLE_ROWS

FOLDERS = {
    "conversations": ("events", "anchors", "scripts", "render"),
    "channels": ("events", "anchors"),
    "decision_points": ("events", "anchors"),
}
ROUNDS = 9


def bare_loop(root: Path, config: str) -> None:
    for split in ("dev", "test"):
        for folder in FOLDERS[config]:
            for path in (root / split / "annotations" / folder).iterdir():
                with open(path, encoding="utf-8") as file:
                    json.load(file)


def prepare(root: Path, config: str, cache: str) -> datasets.DatasetDict:
    parse_manifest.cache_clear()  # a new process has not read the manifest yet
    return mptb_dataset.load_dataset(config, data_dir=root, cache_dir=cache, decode=True)


def seconds(work: Callable[[], object]) -> float:
    gc.collect()  # or one side would pay for what the other one left
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def ours_s(root: Path, config: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        return seconds(lambda: prepare(root, config, cache))


def floor_s(root: Path, config: str, tables: datasets.DatasetDict) -> float:
    """What `datasets` needs to write and open the finished tables."""
    with tempfile.TemporaryDirectory() as cache:
        builder = mptb_dataset.MPTB(
            config_name=config, data_dir=str(root), cache_dir=cache, writer_batch_size=TABLE_ROWS
        )
        builder._generate_tables = lambda shards: [(0, tables[shards[0][0].split].data.table)]
        return seconds(lambda: (builder.download_and_prepare(), builder.as_dataset()))


def measure(root: Path, config: str) -> tuple[float, ...]:
    """Best seconds of ours, of the bare loop and of `datasets` alone."""
    with tempfile.TemporaryDirectory() as kept:
        tables = prepare(root, config, kept)
        rounds = [
            (ours_s(root, config), seconds(lambda: bare_loop(root, config)), floor_s(root, config, tables))
            for _ in range(ROUNDS)
        ]
    return tuple(min(times) for times in zip(*rounds, strict=True))


def main() -> None:
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        root = write_tree(Path(folder) / "tree")
        for audio in root.rglob("*.flac"):
            os.chmod(audio, 0)  # where the user is not root, opening one would fail
        best = {config: measure(root, config) for config in FOLDERS}
    best["together"] = tuple(sum(times) for times in zip(*best.values(), strict=True))
    print(f"{'ms':16} {'prepare':>8} {'json.load':>10} {'ratio':>6} {'of it datasets':>15}")
    for name, (ours, bare, floor) in best.items():
        print(f"{name:16} {1e3 * ours:8.0f} {1e3 * bare:10.0f} {ours / bare:6.2f} {1e3 * floor:15.0f}")
    print(
        "limit: checking every event and building Arrow columns from Python values; the last column is what "
        "datasets needs for any table, nearly as much as the bare loop"
    )


if __name__ == "__main__":
    main()
