"""How fast prefixes are, as ratios measured side by side in one process; run it with `make bench`.

The corpora are generated into a temporary folder: 16 kHz turns of 5-25 s with two prefixes each, in Arrow
as `datasets` stores them, and 24 kHz channels of 100 s with 40 decision points each, as FLAC files. Rounds
of all contestants take turns and the best round of each counts, so that a busy machine slows all of them
alike.
"""

from __future__ import annotations

import gc
import io
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")

import datasets
import numpy as np
import pyarrow as pa
import soundfile as sf

from turn_end_prefix import PrefixTransform, TurnBatchSampler, collate_prefixes, read_prefix

TURN_HZ, CHANNEL_HZ = 16_000, 24_000
N_TURNS, N_CHANNELS, N_POINTS, CHANNEL_S, WINDOW_S = 60, 4, 40, 100, 8.0
ROUNDS = 25
BATCH_ROWS = 16
AUDIO = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def speech_like(generator: np.random.Generator, n: int, rate: int) -> bytes:
    """A FLAC file of noise that comes and goes like syllables and pauses."""
    samples = np.convolve(generator.standard_normal(n), np.ones(8) / 8, "same")
    moment = np.arange(n) / rate
    talking = np.sin(2 * np.pi * 0.35 * moment + generator.uniform(0, 6)) > -0.4
    buffer = io.BytesIO()
    level = np.where(talking, 0.3 * (1 + np.sin(2 * np.pi * 4 * moment)), 0.005)
    sf.write(buffer, samples * level, rate, format="FLAC", subtype="PCM_16")
    return buffer.getvalue()


def table(**columns: Any) -> datasets.Dataset:
    made = {name: pa.array(values, AUDIO if name == "audio" else None) for name, values in columns.items()}
    features = datasets.Features.from_arrow_schema(pa.table(made).schema)
    if "audio" in made:
        features["audio"] = datasets.Audio(decode=False)
    return datasets.Dataset(
        datasets.table.InMemoryTable(pa.table(made)), info=datasets.DatasetInfo(features=features)
    )


def write_turns(folder: Path, n_turns: int = N_TURNS) -> tuple[datasets.Dataset, datasets.Dataset]:
    """`turns`, memory-mapped, and `observations`."""
    generator = np.random.default_rng(0)
    durations = generator.uniform(5, 25, n_turns)
    turns = table(
        turn_key=[f"t{turn}" for turn in range(n_turns)],
        audio=[
            {"bytes": speech_like(generator, int(duration * TURN_HZ), TURN_HZ), "path": None}
            for duration in durations
        ],
    )
    turns.save_to_disk(folder / "turns", num_shards=1)
    last = durations * generator.uniform(0.6, 1, n_turns)
    first = last * generator.uniform(0.3, 0.9, n_turns)
    observations = table(
        key=[f"t{row // 2}@{row % 2}" for row in range(2 * n_turns)],
        turn_key=[f"t{row // 2}" for row in range(2 * n_turns)],
        at_s=np.stack([first, last], axis=1).reshape(-1),
        label=[0, 1] * n_turns,
    )
    return datasets.load_from_disk(folder / "turns"), observations


def write_channels(folder: Path) -> datasets.Dataset:
    """`decision_points` whose audio are files."""
    generator = np.random.default_rng(1)
    for channel in range(N_CHANNELS):
        data = speech_like(generator, CHANNEL_S * CHANNEL_HZ, CHANNEL_HZ)
        (folder / f"c{channel}.flac").write_bytes(data)
    moments = np.sort(generator.uniform(1, CHANNEL_S, (N_CHANNELS, N_POINTS)), axis=1)
    return table(
        audio=[
            {"bytes": None, "path": str(folder / f"c{channel}.flac")}
            for channel in range(N_CHANNELS)
            for _ in range(N_POINTS)
        ],
        at_s=moments.reshape(-1),
        label=[0] * moments.size,
    )


def best_of(contestants: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of the best round of each; they take turns."""
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, run in contestants.items():
            gc.collect()
            began = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - began)
    return best


def every_prefix(turns: datasets.Dataset, observations: datasets.Dataset) -> None:
    encoded = {row["turn_key"]: row["audio"]["bytes"] for row in turns}
    rows = [(row["turn_key"], row["at_s"]) for row in observations]
    last: dict[str, float] = {}
    for key, at_s in rows:
        last[key] = max(at_s, last.get(key, 0.0))

    def bare_loop() -> None:
        for key, at_s in last.items():
            with sf.SoundFile(io.BytesIO(encoded[key])) as file:
                file.read(int(at_s * TURN_HZ), dtype="float32")

    def bare_loop_over_the_table() -> None:
        for row in turns:
            with sf.SoundFile(io.BytesIO(row["audio"]["bytes"])) as file:
                file.read(int(last[row["turn_key"]] * TURN_HZ), dtype="float32")

    def recipe_of_the_card() -> None:
        for key, at_s in rows:
            samples, rate = sf.read(io.BytesIO(encoded[key]), dtype="float32")
            samples[: int(at_s * rate)]

    heard = observations.with_transform(PrefixTransform(turns))

    def in_batches() -> None:
        for _ in heard.iter(BATCH_ROWS):
            pass

    def row_by_row() -> None:
        for _ in heard:
            pass

    spent = best_of(
        {
            "bare loop, bytes in a dict": bare_loop,
            "bare loop over the table": bare_loop_over_the_table,
            "the card's recipe": recipe_of_the_card,
            f"PrefixTransform, batches of {BATCH_ROWS} rows": in_batches,
            "PrefixTransform, row by row": row_by_row,
        }
    )
    print(f"(a) {len(rows)} prefixes of {len(last)} turns")
    bare, card = spent["bare loop, bytes in a dict"], spent["the card's recipe"]
    for name, took in spent.items():
        print(
            f"    {name:40} {1e3 * took:7.1f} ms   {took / bare:4.2f} x bare   card / this {card / took:4.2f}"
        )
    print("    targets: batches <= 1.15 x bare, card / batches >= 2")
    print("    limit: FLAC decoding in libsndfile, 80-90 % of the time; then a copy per prefix, and Python")


def windows(points: datasets.Dataset) -> None:
    rows = [(row["audio"]["path"], row["at_s"]) for row in points]

    def decode_from_the_start() -> None:
        for path, at_s in rows:
            with sf.SoundFile(path) as file:
                file.read(int(at_s * CHANNEL_HZ), dtype="float32")[-int(WINDOW_S * CHANNEL_HZ) :]

    def seek() -> None:
        for path, at_s in rows:
            read_prefix(path, at_s, window_s=WINDOW_S)

    heard = points.with_transform(PrefixTransform(window_s=WINDOW_S))

    def transform() -> None:
        for _ in heard:
            pass

    spent = best_of(
        {
            "decode from the start": decode_from_the_start,
            "read_prefix": seek,
            "PrefixTransform, row by row": transform,
        },
        rounds=5,
    )
    print(f"(b) the last {WINDOW_S:g} s before {len(rows)} moments of {CHANNEL_S} s channels")
    for name, seconds in spent.items():
        ratio = spent["decode from the start"] / seconds
        print(f"    {name:40} {1e3 * seconds:7.1f} ms   {ratio:5.1f} x faster than from the start")
    path = rows[0][0]
    places = best_of(
        {
            f"at {at_s:3d} s": lambda at_s=at_s: read_prefix(path, at_s, window_s=WINDOW_S)
            for at_s in range(10, 101, 15)
        },
        rounds=15,
    )
    print("    one window", ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in places.items()))
    print(f"    slowest / fastest place {max(places.values()) / min(places.values()):.2f}")
    print("    targets: >= 5 x, independent of the place")
    print("    limit: decoding the window itself; opening and seeking are a tenth of it")


class BareTurns:
    """A map-style dataset that decodes a turn and hands over nothing: what two workers can gain at most."""

    def __init__(self, encoded: list[bytes]):
        self.encoded = encoded

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, turn: int) -> int:
        return len(sf.read(io.BytesIO(self.encoded[turn]), dtype="float32")[0])


def loader_workers(turns: datasets.Dataset, observations: datasets.Dataset) -> None:
    try:
        from torch.utils.data import DataLoader
    except ImportError:
        print("(c) left out: torch is not installed")
        return
    heard = observations.with_transform(PrefixTransform(turns))
    sampler = TurnBatchSampler(observations, BATCH_ROWS)
    bare = BareTurns([row["audio"]["bytes"] for row in turns])
    loaders: dict[str, Any] = {}
    for n in (1, 2):
        options = {"num_workers": n, "persistent_workers": True}
        loaders[f"{n}"] = DataLoader(heard, batch_sampler=sampler, collate_fn=collate_prefixes, **options)
        loaders[f"{n} bare"] = DataLoader(bare, batch_size=BATCH_ROWS // 2, **options)
    parents: list[float] = []

    def epoch(name: str) -> None:
        began = time.process_time()
        for _ in loaders[name]:
            pass
        if "bare" not in name:
            parents.append(time.process_time() - began)

    spent = best_of({name: lambda name=name: epoch(name) for name in loaders}, rounds=ROUNDS)
    n_rows = len(observations)
    print(f"(c) DataLoader over {n_rows} rows: 1 worker {spent['1']:.2f} s, 2 workers {spent['2']:.2f} s")
    print(f"    {spent['1'] / spent['2']:.2f} x with two workers on {os.cpu_count()} cores; target >= 1.6")
    print(f"    bare decoding in two workers gains {spent['1 bare'] / spent['2 bare']:.2f} x here and now")
    print(
        f"    limit: idle cores; of one, the parent takes {min(parents):.2f} s per epoch to collect batches"
    )


def peak_memory(n_turns: int) -> None:
    """The child of (d): read all prefixes and print by how many MB the peak rose above the start."""
    with tempfile.TemporaryDirectory() as folder:
        turns, observations = write_turns(Path(folder), 20)
        rows = datasets.concatenate_datasets([observations] * n_turns)
        heard = rows.with_transform(PrefixTransform(turns))
        list(heard.select(range(40)).iter(BATCH_ROWS))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in heard.iter(BATCH_ROWS):
            pass
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, len(rows))


def memory() -> None:
    print("(d) peak memory of reading all prefixes, above that of the first batches")
    for n_turns in (5, 50):
        child = [sys.executable, __file__, "--peak-memory", str(n_turns)]
        grown, n_rows = subprocess.run(child, check=True, capture_output=True, text=True).stdout.split()[-2:]
        print(f"    {n_rows:>5} rows: + {grown} MB")
    print("    target: no growth with the number of rows; limit: one batch of prefixes and the cache's bound")


def main() -> None:
    datasets.disable_progress_bars()
    # What any larger program has done by then: let malloc keep blocks of this size instead of returning them.
    np.ones(31 << 20, np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        turns, observations = write_turns(Path(folder))
        every_prefix(turns, observations)
        windows(write_channels(Path(folder)))
        loader_workers(turns, observations)
    memory()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak-memory"]:
        peak_memory(int(sys.argv[2]))
    else:
        main()
