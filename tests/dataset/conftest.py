"""Trees made in the test: small conversations with real FLACs, and what the annotation files say."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

import datasets
import numpy as np
import pytest
import soundfile

import mptb_dataset

ANNOTATIONS = Path(__file__).parents[1] / "data" / "mptb_annotations"
FOLDERS = {"events": "events", "anchors": "anchors", "script": "scripts", "render": "render"}
RATE_HZ = 24_000


@pytest.fixture(autouse=True)
def quiet(monkeypatch, tmp_path):
    """No progress bars, and a cache of its own for every test."""
    datasets.disable_progress_bars()
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture(scope="session")
def annotations() -> Path:
    """A tree of 6 dev and 8 test conversations without their audio."""
    return ANNOTATIONS


@pytest.fixture(scope="session")
def sample() -> Path:
    """The embedded corpus: two dev and three test conversations with audio."""
    return mptb_dataset.sample_dir("mptb")


@pytest.fixture(scope="session")
def turn_sample() -> Path:
    """The embedded turn-end corpus."""
    return mptb_dataset.sample_dir("turn_end")


@pytest.fixture(scope="session")
def raw():
    """Read one of a conversation's annotation files without the package: raw(root, split, id, "events")."""

    def read(root, split, conversation_id, field):
        path = Path(root) / split / "annotations" / FOLDERS[field] / f"{conversation_id}.json"
        return json.loads(path.read_text(encoding="utf-8"))

    return read


@pytest.fixture
def load(tmp_path):
    """`load_dataset` with a cache of its own and undecoded audio."""

    def load_table(name, **options):
        options.setdefault("cache_dir", str(tmp_path / "cache"))
        options.setdefault("decode", False)
        return mptb_dataset.load_dataset(name, **options)

    return load_table


@pytest.fixture
def tree(tmp_path):
    """A corpus of two dev and two test conversations of 2-3 speakers; write to it as you like."""
    root = tmp_path / "tree"
    for split, sizes in {"dev": (2, 3), "test": (2, 2)}.items():
        for number, size in enumerate(sizes, start=1):
            _write_conversation(root, split, f"{split}_{number:05d}", size)
    return root


@pytest.fixture
def many(tmp_path):
    """A corpus of one split with 12 conversations."""
    root = tmp_path / "many"
    for number in range(1, 13):
        _write_conversation(root, "test", f"test_{number:05d}", 2 + number % 3)
    return root


@pytest.fixture
def edit():
    """Change an annotation file in place: edit(root, "events", lambda log: ...) for dev_00001."""

    def change(root, field, function, *, split="dev", conversation_id="dev_00001"):
        path = Path(root) / split / "annotations" / FOLDERS[field] / f"{conversation_id}.json"
        content = json.loads(path.read_text())
        changed = function(content)
        path.write_text(json.dumps(content if changed is None else changed))
        return path

    return change


@pytest.fixture
def edit_manifest():
    """Change the lines of dev's manifest in place."""

    def change(root, function, *, split="dev"):
        path = Path(root) / split / "manifest.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        changed = function(lines)
        lines = lines if changed is None else changed
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    return change


@pytest.fixture
def run_python(tmp_path):
    """Run a program in a fresh process without network variables; its stdout, which must be its only sign."""

    def run(program, *, cwd=None, path=(), **environment):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True,
            text=True,
            cwd=cwd or tmp_path,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(tmp_path),
                "HF_HOME": str(tmp_path / "hf"),
                "HF_HUB_OFFLINE": "1",
                "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
                "PYTHONPATH": ":".join(map(str, path)),
                **environment,
            },
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@cache
def flac(*, level: float = 0.1, seconds: float = 12.0, rate_hz: int = RATE_HZ, channels: int = 1) -> bytes:
    """A FLAC file of a constant signal."""
    buffer = io.BytesIO()
    samples = np.full((round(seconds * rate_hz), channels), level, np.float32)
    soundfile.write(buffer, samples, rate_hz, subtype="PCM_16", format="FLAC")
    return buffer.getvalue()


@pytest.fixture(scope="session")
def make_flac():
    """FLAC bytes: make_flac(level=0.1, seconds=12.0, rate_hz=24_000, channels=1)."""
    return flac


def _write_conversation(root: Path, split: str, conversation_id: str, size: int) -> None:
    """Speakers in turn, each with a turn; then all kinds of events of the card. 12 s long."""
    speakers = [f"speaker_{k + 1}" for k in range(size)]
    one, two = speakers[:2]
    events = [
        _event("e0", one, "TURN", 0.5, 2.0, current_holder=one, floor_outcome="hold"),
        _event("e1", one, "TURN", 2.6, 4.0, current_holder=one, floor_outcome="yield", next_holder=two),
        _event("e2", two, "VOCALIZE_NO_CLAIM", 1.0, 1.4, current_holder=one, sublabel="BACKCHANNEL"),
        _event("e3", two, "TURN", 4.2, 6.6, current_holder=two, floor_outcome="interrupted"),
        _event(
            "e4",
            one,
            "CLAIM_FLOOR",
            6.1,
            8.0,
            current_holder=two,
            resolved_as="INTERRUPTION",
            floor_transfer_time=6.6,
        ),
        _event("e5", one, "TURN", 6.6, 8.0, current_holder=one, floor_outcome="yield", next_holder=two),
        _event("e6", two, "TURN", 8.1, 11.0, current_holder=two, floor_outcome="yield"),
        _event(
            "e7",
            one,
            "CLAIM_FLOOR",
            9.0,
            9.5,
            current_holder=two,
            resolved_as="NON_FLOOR_TAKING_INTERRUPTION",
        ),
        _event("e8", one, "VOCALIZE_NO_CLAIM", 10.0, 10.5, current_holder=two, sublabel="LAUGHTER"),
    ]
    tracks = {
        speaker: {
            track: {"positives": [], "negative_spans": [], "excluded_spans": []} for track in ("EOT", "INT")
        }
        for speaker in speakers
    }
    tracks[one]["EOT"] = {"positives": [4.0, 8.0], "negative_spans": [[2.0, 2.6]], "excluded_spans": []}
    tracks[one]["INT"] = {
        "positives": [6.1],
        "negative_spans": [[10.0, 10.5]],
        "excluded_spans": [[9.0, 9.5]],
    }
    tracks[two]["EOT"] = {"positives": [11.0], "negative_spans": [], "excluded_spans": [[6.35, 6.85]]}
    tracks[two]["INT"]["negative_spans"] = [[1.0, 1.4]]
    content = {
        "events": {
            "conversation_id": conversation_id,
            "conversation_type": "casual",
            "num_speakers": size,
            "speakers": speakers,
            "duration_s": 12.0,
            "metadata": {
                "domain": "tests",
                "tone": "calm",
                "voices": {one: "v1"},
                "voice_styles": {one: "soft"},
            },
            "events": events,
        },
        "anchors": {"anchors": tracks},
        "script": {"utterances": [{"speaker": one, "text": "Hello.", "event_type": "TURN"}]},
        "render": {
            "clips": [
                {
                    "speaker": one,
                    "start_s": 0.5,
                    "end_s": 2.0,
                    "kind": "holder",
                    "overlaps": False,
                    "truncated": False,
                    "src_index": 0,
                }
            ],
            "noise": {"seed": 7},
        },
    }
    line = {"conversation_id": conversation_id, "split": split}
    for field, folder in FOLDERS.items():
        path = root / split / "annotations" / folder / f"{conversation_id}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content[field]))
        line[field] = str(path.relative_to(root))
    for scene in ("noisy", "clean"):
        (root / split / "audio" / scene).mkdir(parents=True, exist_ok=True)
        line[f"audio_{scene}"] = {}
        for index, speaker in enumerate(speakers):
            path = root / split / "audio" / scene / f"{conversation_id}_{speaker}.flac"
            path.write_bytes(flac(level=0.1 * (index + 1)))
            line[f"audio_{scene}"][speaker] = str(path.relative_to(root))
    with open(root / split / "manifest.jsonl", "a", encoding="utf-8") as manifest:
        manifest.write(json.dumps(line) + "\n")


def _event(event_id, speaker, label, onset, offset, **rest):
    return {"id": event_id, "speaker": speaker, "label": label, "onset": onset, "offset": offset, **rest}
