"""audit and compare for MPTB submissions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np, soundfile
root, out, peek = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "peek"
predictions = []
for manifest in sorted(root.glob("*/manifest.jsonl")):
    for line in manifest.read_text().splitlines():
        entry = json.loads(line)
        row = {"conversation_id": entry["conversation_id"]}
        for speaker, path in entry["audio_noisy"].items():
            samples, rate = soundfile.read(root / path)
            level = np.abs(samples).max() if peek else 0.5
            ends = np.arange(rate // 4, len(samples), rate // 4)
            means = [np.abs(samples[end - rate // 4:end]).mean() for end in ends]
            loud = [float(end / rate) for end, mean in zip(ends, means) if mean > 0.05 * level]
            row[speaker] = {"eot": loud, "int": []}
        predictions.append(row)
Path(out).write_text(json.dumps({"schema_version": 1, "predictions": predictions}))
"""


def command(tmp_path, mode):
    (tmp_path / "program.py").write_text(PROGRAM)
    return f"{sys.executable} {tmp_path / 'program.py'} {{root}} {{out}} {mode}"


def test_the_energy_detector_passes_and_its_record_says_how_it_was_checked(mptb, tmp_path, sample):
    done = mptb("audit", "--detector", "energy", "--root", sample, "--probes", 2, "--out", "a.json")
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "a.json").read_text())
    assert record["ok"] is True
    assert record["conversations"] == ["dev_00001", "dev_00003"]
    assert "audited: causal" in done.stdout


def test_a_program_that_reads_the_whole_files_level_is_caught(mptb, tmp_path, sample):
    done = mptb("audit", "--command", command(tmp_path, "peek"), "--root", sample, "--probes", 4)
    assert done.returncode == 1
    assert "NOT causal" in done.stdout
    assert "dev_0000" in done.stderr


def run_program(tmp_path, root, mode, out):
    """The program's own submission for dev, as its author would make it."""
    asked = command(tmp_path, mode).format(root=root, out=out).split()
    subprocess.run(asked, check=True)
    content = json.loads(Path(out).read_text())
    content["predictions"] = [
        row for row in content["predictions"] if row["conversation_id"].startswith("dev")
    ]
    Path(out).write_text(json.dumps(content))


def test_a_causal_program_passes_and_score_tells_that_its_submission_was_audited(mptb, tmp_path, sample):
    run_program(tmp_path, sample, "blind", "s.json")
    before = mptb("score", "--root", sample, "--split", "dev", "--submission", "s.json")
    assert "not audited" in before.stdout
    done = mptb(
        "audit",
        "--command",
        command(tmp_path, "blind"),
        "--root",
        sample,
        "--probes",
        4,
        "--submission",
        "s.json",
    )
    assert done.returncode == 0, done.stderr
    after = mptb("score", "--root", sample, "--split", "dev", "--submission", "s.json")
    assert "audited: causal" in after.stdout
    assert after.stdout.splitlines()[1:] == before.stdout.splitlines()[1:]


def test_a_record_is_not_put_into_a_submission_that_the_program_did_not_make(mptb, tmp_path, sample):
    run_program(tmp_path, sample, "blind", "s.json")
    content = json.loads((tmp_path / "s.json").read_text())
    content["predictions"][0]["speaker_1"]["eot"] = [1.234]
    (tmp_path / "s.json").write_text(json.dumps(content))
    before = (tmp_path / "s.json").read_bytes()
    done = mptb(
        "audit",
        "--command",
        command(tmp_path, "blind"),
        "--root",
        sample,
        "--probes",
        1,
        "--submission",
        "s.json",
    )
    assert done.returncode == 2
    for word in ("s.json", "dev_00001", "speaker_1", "eot"):
        assert word in done.stderr
    assert (tmp_path / "s.json").read_bytes() == before


def test_a_detectors_record_is_not_put_into_anothers_submission(mptb, sample, tmp_path, finished_demo):
    (tmp_path / "s.json").write_bytes((finished_demo / "demo/submission.json").read_bytes())
    done = mptb("audit", "--detector", "silence", "--root", sample, "--probes", 1, "--submission", "s.json")
    assert done.returncode == 2
    assert "'energy'" in done.stderr
    assert "'silence'" in done.stderr


def test_a_program_that_fails_is_reported_with_its_last_words(mptb, tmp_path, sample):
    (tmp_path / "broken.py").write_text("import sys; sys.exit('no model here')")
    done = mptb(
        "audit", "--command", f"{sys.executable} {tmp_path / 'broken.py'} {{root}} {{out}}", "--root", sample
    )
    assert done.returncode == 2
    assert "no model here" in done.stderr
    assert "Traceback" not in done.stderr


def test_compare_reports_each_track_and_every_group(mptb, tmp_path, sample, finished_demo):
    content = json.loads((finished_demo / "demo/submission.json").read_text())
    (tmp_path / "a.json").write_text(json.dumps(content))
    for row in content["predictions"]:
        for tracks in row.values():
            if isinstance(tracks, dict):
                tracks["eot"] = []
    (tmp_path / "silent.json").write_text(json.dumps(content))
    done = mptb(
        "compare",
        "--root",
        sample,
        "a.json",
        "none=silent.json",
        "--by",
        "num_speakers",
        "--n-resamples",
        199,
        "--out",
        "r.json",
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    assert list(result["systems"]) == ["a", "none"]
    assert result["systems"]["none"]["eot_recall"] == 0.0
    assert result["pairs"][0]["eot_recall_difference"] == result["systems"]["a"]["eot_recall"]
    assert set(result["by"]["num_speakers"]) == {"2", "3", "5"}
    assert "num_speakers = 2" in done.stdout


def test_two_systems_of_one_name_need_names(mptb, tmp_path, sample, finished_demo):
    (tmp_path / "x").mkdir()
    for path in (tmp_path / "s.json", tmp_path / "x/s.json"):
        path.write_bytes((finished_demo / "demo/submission.json").read_bytes())
    done = mptb("compare", "--root", sample, "s.json", "x/s.json")
    assert done.returncode == 2
    assert "names" in done.stderr
