"""How long preparing the MPTB tables of a 240-conversation tree takes, next to a bare `json.load` loop.

Both sides read the same annotation files in the same run; the best of several rounds counts. The target
is at most 3x for the tables together, with no audio file opened.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

from tree import write_tree

os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")

import datasets

import mptb_dataset

FOLDERS = {
    "conversations": ("events", "anchors", "scripts", "render"),
    "channels": ("events", "anchors"),
    "decision_points": ("events", "anchors"),
}
ROUNDS = 5


def bare_loop(root: Path, config: str) -> float:
    began = time.perf_counter()
    for split in ("dev", "test"):
        for folder in FOLDERS[config]:
            for path in (root / split / "annotations" / folder).iterdir():
                with open(path, encoding="utf-8") as file:
                    json.load(file)
    return time.perf_counter() - began


def prepare(root: Path, config: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        began = time.perf_counter()
        mptb_dataset.load_dataset(config, data_dir=root, cache_dir=cache, decode=True)
        return time.perf_counter() - began


def main() -> None:
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        root = write_tree(Path(folder) / "tree")
        for audio in root.rglob("*.flac"):
            os.chmod(audio, 0)  # where the user is not root, opening one would fail
        best: dict[str, list[float]] = {}
        for config in FOLDERS:
            rounds = [(prepare(root, config), bare_loop(root, config)) for _ in range(ROUNDS)]
            best[config] = [min(times) for times in zip(*rounds, strict=True)]
    for config, (ours, bare) in best.items():
        print(
            f"{config:16} {1e3 * ours:7.0f} ms, json.load loop {1e3 * bare:6.0f} ms, ratio {ours / bare:.2f}"
        )
    ours, bare = (sum(times) for times in zip(*best.values(), strict=True))
    print(
        f"{'together':16} {1e3 * ours:7.0f} ms, json.load loop {1e3 * bare:6.0f} ms, ratio {ours / bare:.2f}"
    )
    print(
        "limit: building Arrow lists of structs from Python rows, and reading each file twice (cache name, rows)"
    )


if __name__ == "__main__":
    main()
