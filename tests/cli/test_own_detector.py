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
