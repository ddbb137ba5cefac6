"""Generate a full-size MultiPartyTurnBench tree with the card's counts and tiny FLACs.

    python benchmarks/tree.py DIR

240 conversations of 2-5 speakers and about a hundred seconds, with event logs, anchors, scripts and
renders of realistic size. Nothing in it is speech: it measures how tables are prepared.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np
import soundfile

from mptb_dataset import derive_anchors

TYPES = ("casual", "task-oriented", "instructional", "collaborative", "argumentative", "narrative")
SIZES = {"dev": 48, "test": 192}


def write_tree(root: Path, sizes: dict[str, int] = SIZES, seed: int = 0) -> Path:
    """Write the tree; an existing folder is completed, not emptied."""
    rng = random.Random(seed)
    sound = root / "tone.flac"
    root.mkdir(parents=True, exist_ok=True)
    tone = (0.1 * np.sin(np.arange(1200) * 0.1)).astype(np.float32)
    soundfile.write(sound, tone, 24_000, subtype="PCM_16")
    flac = sound.read_bytes()
    sound.unlink()
    for split, n_conversations in sizes.items():
        lines = []
        for index in range(n_conversations):
            conversation_id = f"{split}_{index + 1:05d}"
            speakers = [f"speaker_{k + 1}" for k in range(2 + index % 4)]
            lines.append(
                _write_conversation(root, split, conversation_id, speakers, TYPES[index % 6], flac, rng)
            )
        (root / split / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


def _write_conversation(root, split, conversation_id, speakers, conversation_type, flac, rng):
    events, clips, utterances, duration_s = _dialogue(speakers, rng)
    files = {
        scene: {s: f"{split}/audio/{scene}/{conversation_id}_{s}.flac" for s in speakers}
        for scene in ("noisy", "clean")
    }
    for path in [*files["noisy"].values(), *files["clean"].values()]:
        _write(root / path, flac)
    log = {
        "conversation_id": conversation_id,
        "conversation_type": conversation_type,
        "num_speakers": len(speakers),
        "speakers": speakers,
        "duration_s": duration_s,
        "audio": {"mode": "channel_separated", "files": {s: Path(p).name for s, p in files["noisy"].items()}},
        "metadata": {
            "domain": "a domain",
            "tone": "warm",
            "sample_rate": 24000,
            "engine": "none",
            "voices": {s: "v01" for s in speakers},
            "voice_styles": {s: "soft" for s in speakers},
        },
        "events": events,
    }
    content = {
        "events": ("events", log),
        "anchors": (
            "anchors",
            {
                "anchors": {
                    speaker: {track.upper(): lists for track, lists in tracks.items()}
                    for speaker, tracks in derive_anchors(events, speakers).items()
                }
            },
        ),
        "script": ("scripts", {"conversation_id": conversation_id, "tone": "warm", "utterances": utterances}),
        "render": ("render", {"conversation_id": conversation_id, "clips": clips, "noise": {"seed": 1}}),
    }
    line = {"conversation_id": conversation_id, "split": split}
    for field, (folder, value) in content.items():
        line[field] = f"{split}/annotations/{folder}/{conversation_id}.json"
        _write(root / line[field], json.dumps(value).encode())
    return {**line, "audio_noisy": files["noisy"], "audio_clean": files["clean"]}


def _dialogue(speakers, rng):
    events, clips, utterances, now, holder = [], [], [], 0.0, 0
    while now < 100.0:
        onset, offset = round(now, 3), round(now + rng.uniform(2.0, 11.0), 3)
        following = (holder + rng.randrange(1, len(speakers))) % len(speakers)
        outcome = "hold" if rng.random() < 0.07 and now < 80.0 else "yield"
        turn = {
            "id": f"e{len(events):03d}",
            "speaker": speakers[holder],
            "label": "TURN",
            "onset": onset,
            "offset": offset,
            "current_holder": speakers[holder],
            "floor_outcome": outcome,
        }
        if outcome == "yield":
            turn["next_holder"] = speakers[following]
        events.append(turn)
        _clip(clips, utterances, turn, "holder")
        if rng.random() < 0.6:
            start = round(rng.uniform(onset, offset - 1.0), 3)
            response = {
                "id": f"e{len(events):03d}",
                "speaker": speakers[following],
                "label": "VOCALIZE_NO_CLAIM",
                "sublabel": rng.choice(["BACKCHANNEL", "LAUGHTER"]),
                "onset": start,
                "offset": round(start + 0.7, 3),
                "current_holder": speakers[holder],
            }
            events.append(response)
            _clip(clips, utterances, response, "backchannel")
        holder = holder if outcome == "hold" else following
        now = offset + rng.uniform(0.1, 1.0)
    if events[-1]["label"] == "TURN":
        events[-1]["floor_outcome"] = "yield"
    return events, clips, utterances, round(now, 3)


def _clip(clips, utterances, event, kind):
    clips.append(
        {
            "speaker": event["speaker"],
            "start_s": event["onset"],
            "end_s": event["offset"],
            "kind": kind,
            "overlaps": False,
            "truncated": False,
            "src_index": len(utterances),
        }
    )
    words = int(2.5 * (event["offset"] - event["onset"])) + 1
    utterances.append(
        {
            "index": len(utterances),
            "speaker": event["speaker"],
            "text": " ".join(["words"] * words),
            "event_type": event["label"],
            "timing_hint": "after_previous",
        }
    )


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/tree.py DIR")
    print(write_tree(Path(sys.argv[1])))
