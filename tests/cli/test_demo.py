"""`mptb demo`: what it prints and writes is what the protocol says about the sample."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest


def score_by_hand(root, submission, track):
    """Recall, FPR and latencies by the card's section 5, as a plain loop over whole microseconds."""
    tp = fn = fp = tn = 0
    latencies = []
    us = lambda t: round(t * 1e6)  # noqa: E731
    for entry in submission["predictions"]:
        split = entry["conversation_id"].split("_")[0]
        path = root / split / "annotations" / "anchors" / f"{entry['conversation_id']}.json"
        for speaker, gold in json.loads(path.read_text())["anchors"].items():
            gold = gold[track.upper()]
            left = sorted(us(t) for t in entry[speaker][track])
            left = [t for t in left if not any(us(a) <= t <= us(b) for a, b in gold["excluded_spans"])]
            for positive in sorted(us(t) for t in gold["positives"]):
                hits = [t for t in left if positive - 250_000 <= t <= positive + 3_000_000]
                if hits:
                    tp += 1
                    latencies.append((hits[0] - positive) / 1e6)
                    left.remove(hits[0])
                else:
                    fn += 1
            for a, b in gold["negative_spans"]:
                if any(us(a) <= t <= us(b) for t in left):
                    fp += 1
                else:
                    tn += 1
    return {"tp": tp, "fn": fn, "fp": fp, "tn": tn, "latencies": latencies}


@pytest.mark.parametrize("track", ["eot", "int"])
def test_the_result_is_what_a_plain_loop_makes_of_the_written_submission(finished_demo, sample, track):
    submission = json.loads((finished_demo / "demo/submission.json").read_text())
    result = json.loads((finished_demo / "demo/result.json").read_text())
    expected = score_by_hand(sample, submission, track)
    assert {name: result[f"{track}_{name}"] for name in ("tp", "fn", "fp", "tn")} == {
        name: expected[name] for name in ("tp", "fn", "fp", "tn")
    }
    assert result[f"{track}_recall"] == expected["tp"] / (expected["tp"] + expected["fn"])
    assert result[f"{track}_latency_p50_s"] == pytest.approx(np.median(expected["latencies"]), abs=1e-12)


def test_it_prints_a_table_per_track_with_the_breakdown_and_the_verdict(finished_demo):
    printed = (finished_demo / "printed.txt").read_text()
    for expected in (
        "test, end of turn (EOT)",
        "test, interruption (INT)",
        "N = 2",
        "N = 5",
        "EOT: ",
        "budget",
    ):
        assert expected in printed


def test_it_writes_submission_result_thresholds_and_a_picture(finished_demo):
    folder = finished_demo / "demo"
    names = {path.name for path in folder.iterdir()}
    assert {"submission.json", "result.json", "thresholds.json", "conversation.png"} <= names
    picture = (folder / "conversation.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n")
    assert len(picture) > 10_000
    assert not [name for name in names if name.endswith((".part", ".parts"))]


def test_the_dev_threshold_is_the_one_that_was_used_on_test(finished_demo):
    chosen = json.loads((finished_demo / "demo/thresholds.json").read_text())
    result = json.loads((finished_demo / "demo/result.json").read_text())
    assert result["thresholds"] == chosen
    assert chosen["split"] == "dev"
    assert chosen["detector"] == "energy"
    assert len(chosen["corpus"]) == 64


def test_it_needs_neither_torch_nor_datasets_decoders_nor_the_network(tmp_path):
    script = """
import socket, sys
def refuse(*a, **k): raise AssertionError("a socket was opened")
socket.socket.connect = refuse
sys.modules["torch"] = None
sys.modules["torchcodec"] = None
sys.argv = ["mptb", "demo"]
from mptb_cli.main import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo/result.json").exists()
