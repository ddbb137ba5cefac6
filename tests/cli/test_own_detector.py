"""A user's own detector, from the folder where the command is called."""

from __future__ import annotations

import json
import os
import subprocess
import sys

OWN = """
from turn_end_prefix.detectors.prefix import prefix_detector

def level(samples, rate):
    return float(abs(samples[-rate // 2:]).mean())

detector = prefix_detector(level)
"""


def test_a_detector_of_the_working_folder_that_knows_one_track_runs_through_to_a_score(tmp_path, sample):
    (tmp_path / "mine.py").write_text(OWN)

    def mptb(*arguments):
        # An installed script, unlike python -c, does not have the working folder on its path.
        script = "import sys; sys.path.remove(''); from mptb_cli.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "120"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    for split in ("dev", "test"):
        mptb(
            "run", "--detector", "mine:detector", "--root", sample, "--split", split, "--out", f"{split}.npz"
        )
    mptb("select", "--root", sample, "--scores", "dev.npz", "--out", "t.json")
    tracks = json.loads((tmp_path / "t.json").read_text())["tracks"]
    assert tracks["int"] is None
    printed = mptb("score", "--root", sample, "--scores", "test.npz", "--thresholds", "t.json")
    assert "INT: no operating point on dev" in printed
    assert "interruption (INT)" not in printed


def test_a_bare_function_of_a_prefix_is_a_detector_and_says_nothing_on_the_other_track(
    mptb, tmp_path, sample
):
    (tmp_path / "bare.py").write_text("def level(samples, rate):\n    return float(abs(samples).mean())\n")
    done = mptb("run", "--detector", "bare:level", "--root", sample, "--split", "dev", "--out", "d.npz")
    assert done.returncode == 0, done.stderr
    done = mptb("select", "--root", sample, "--scores", "d.npz", "--out", "t.json")
    assert done.returncode == 0, done.stderr
    assert "INT: this detector gives no scores on this track" in done.stdout
    assert json.loads((tmp_path / "t.json").read_text())["detector"] == "level"


def test_a_mistake_in_a_users_detector_shows_the_users_lines_and_the_conversation(mptb, tmp_path, sample):
    (tmp_path / "broken_one.py").write_text(
        "from turn_end_prefix.detectors.energy import EnergyDetector\n"
        "class Broken(EnergyDetector):\n"
        "    def push(self, hop):\n"
        "        return self.no_such_thing\n"
    )
    done = mptb(
        "run",
        "--detector",
        "broken_one:Broken",
        "--root",
        sample,
        "--split",
        "dev",
        "--jobs",
        1,
        "--out",
        "d.npz",
    )
    assert done.returncode == 2
    for expected in ("dev_00001", "broken_one.py", "line 4", "no_such_thing"):
        assert expected in done.stderr
    assert "replay.py" not in done.stderr
    assert "Traceback" not in done.stderr


def test_dev_scores_are_not_called_test(mptb, finished_demo, sample):
    demo = finished_demo / "demo"
    done = mptb(
        "score",
        "--root",
        sample,
        "--split",
        "dev",
        "--scores",
        demo / "dev.npz",
        "--thresholds",
        demo / "thresholds.json",
    )
    assert done.returncode == 0, done.stderr
    assert "test FPR" not in done.stdout
    assert "judged on test" in done.stdout
