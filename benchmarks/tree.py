"""Generate a full-size MultiPartyTurnBench tree with the card's counts and tiny FLACs.

    python benchmarks/tree.py DIR

240 conversations of 2-5 speakers and about a hundred seconds, with event logs, anchors, scripts and
renders of realistic size: events come as often as the card's composition table says (section 3). Nothing
in it is speech, and the channels are far shorter than the logs: it measures how tables are prepared.
"""

from __future__ import annotations

import io
import json
import random
import sys
from pathlib import Path

import numpy as np
import soundfile

from mptb_dataset import derive_anchors

TYPES = ("casual", "task-oriented", "instructional", "collaborative", "argumentative", "narrative")
SIZES = {"dev": 48, "test": 192}

# Of the card's 4,030 turns, 241 are holds and 367 are interrupted; in them fall 605 failed claims,
# 1,176 backchannels and 305 laughs.
OUTCOMES = {"yield": 3422, "hold": 241, "interrupted": 367}
RESPONSES = {None: 1944, "NON_FLOOR_TAKING_INTERRUPTION": 605, "BACKCHANNEL": 1176, "LAUGHTER": 305}


def write_tree(root: Path, sizes: dict[str, int] = SIZES, seed: int = 0) -> Path:
    """Write the tree; an existing folder is completed, not emptied."""
    rng = random.Random(seed)
    tone = io.BytesIO()
    soundfile.write(tone, 0.1 * np.sin(np.arange(1200) * 0.1), 24_000, subtype="PCM_16", format="FLAC")
    ids = {}
    for split, n_conversations in sizes.items():
        ids[split] = [f"{split}_{index + 1:05d}" for index in range(n_conversations)]
        lines = []
        for index, conversation_id in enumerate(ids[split]):
            speakers = [f"speaker_{k + 1}" for k in range(2 + index % 4)]
            line = _write_conversation(root, split, conversation_id, speakers, TYPES[index % 6], rng)
            for path in [*line["audio_noisy"].values(), *line["audio_clean"].values()]:
                _write(root / path, tone.getvalue())
            lines.append(json.dumps(line) + "\n")
        _write(root / split / "manifest.jsonl", "".join(lines).encode())
    _write(root / "metadata" / "split.json", json.dumps(ids).encode())
    return root


def _write_conversation(root, split, conversation_id, speakers, conversation_type, rng):
    events, duration_s = _dialogue(speakers, rng)
    files = {
        scene: {s: f"{split}/audio/{scene}/{conversation_id}_{s}.flac" for s in speakers}
        for scene in ("noisy", "clean")
    }
    head = {
        "conversation_id": conversation_id,
        "conversation_type": conversation_type,
        "num_speakers": len(speakers),
        "speakers": speakers,
        "duration_s": duration_s,
    }
    log = {
        **head,
        "audio": {
            "mode": "channel_separated",
            "files": {s: Path(p).name for s, p in files["noisy"].items()},
        },
        "metadata": {
            "domain": "a domain",
            "voices": dict.fromkeys(speakers, "v01"),
            "voice_styles": dict.fromkeys(speakers, "soft"),
            "noise_profile": {"bed": "cafe", "level_dbfs": -59.5, "sfx": ["cup"], "distant_speech": False},
            "sample_rate": 24000,
            "tone": "warm",
            "generator_model": "none",
            "engine": "none",
        },
        "events": events,
    }
    anchors = {
        speaker: {track.upper(): lists for track, lists in tracks.items()}
        for speaker, tracks in derive_anchors(events, speakers).items()
    }
    clips, utterances = _clips_and_utterances(events)
    noise = {"seed": 1, "bed": {"type": "cafe", "level_dbfs": -59.5}, "sfx": [], "distant_speech": []}
    content = {
        "events": ("events", log),
        "anchors": ("anchors", {"conversation_id": conversation_id, "anchors": anchors}),
        "script": ("scripts", {**head, "tone": "warm", "utterances": utterances}),
        "render": ("render", {"conversation_id": conversation_id, "clips": clips, "noise": noise}),
    }
    line = {**head, "split": split}
    for field, (folder, value) in content.items():
        line[field] = f"{split}/annotations/{folder}/{conversation_id}.json"
        _write(root / line[field], json.dumps(value).encode())
    return {**line, "audio_noisy": files["noisy"], "audio_clean": files["clean"]}


def _dialogue(speakers, rng):
    """Turns that follow each other, each with a response of a listener or none."""
    events, now, holder = [], 0.0, 0

    def add(speaker, label, onset, offset, **rest):
        event = {"id": f"e{len(events):03d}", "speaker": speakers[speaker], "label": label}
        events.append(event | {"onset": round(onset, 3), "offset": round(offset, 3)} | rest)

    while now < 100.0:
        onset, offset = now, now + rng.uniform(2.0, 9.0)
        following = (holder + rng.randrange(1, len(speakers))) % len(speakers)
        (outcome,) = rng.choices(list(OUTCOMES), weights=list(OUTCOMES.values())) if now < 85.0 else ["yield"]
        held = {"current_holder": speakers[holder]}
        next_holder = {"next_holder": speakers[following]} if outcome == "yield" else {}
        add(holder, "TURN", onset, offset, **held, floor_outcome=outcome, **next_holder)
        (response,) = rng.choices(list(RESPONSES), weights=list(RESPONSES.values()))
        start = rng.uniform(onset, offset - 1.0)
        if response == "NON_FLOOR_TAKING_INTERRUPTION":
            add(following, "CLAIM_FLOOR", start, start + 1.0, resolved_as=response, **held)
        elif response:
            add(following, "VOCALIZE_NO_CLAIM", start, start + 0.7, sublabel=response, **held)
        if outcome == "interrupted":
            transfer = {"floor_transfer_time": round(offset, 3)}
            add(
                following,
                "CLAIM_FLOOR",
                offset - 0.4,
                offset + 1.0,
                resolved_as="INTERRUPTION",
                **held,
                **transfer,
            )
        now = offset if outcome == "interrupted" else offset + rng.uniform(0.1, 1.0)
        holder = holder if outcome == "hold" else following
    return events, round(now, 3)


def _clips_and_utterances(events):
    clips, utterances = [], []
    for index, event in enumerate(events):
        kind = {"TURN": "holder", "CLAIM_FLOOR": "claim"}.get(event["label"], "backchannel")
        times = {"start_s": event["onset"], "end_s": event["offset"]}
        flags = {"overlaps": kind != "holder", "truncated": False}
        clips.append({"speaker": event["speaker"], **times, "kind": kind, **flags, "src_index": index})
        words = int(2.5 * (event["offset"] - event["onset"])) + 1
        utterances.append(
            {
                "index": index,
                "speaker": event["speaker"],
                "text": " ".join(["words"] * words),
                "event_type": event["label"],
                "timing_hint": "after_previous",
            }
        )
    return clips, utterances


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/tree.py DIR")
    print(write_tree(Path(sys.argv[1])))
