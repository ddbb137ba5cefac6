"""run, select, score, verify: results through files, and one message with exit code 2 for a mistake."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mptb_cli.scores import read_scores


def submission_of(finished_demo, change=lambda content: None):
    content = json.loads((finished_demo / "demo/submission.json").read_text())
    change(content)
    return content


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def assert_refused(done, *words):
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


FAILING = """
import os
from turn_end_prefix.detectors.energy import EnergyDetector
class Flaky(EnergyDetector):
    name = "flaky"
    def reset(self, speakers, sampling_rate):
        if os.environ.get("FAIL_AT") == str(len(speakers)):
            raise ValueError("the power went out")
        super().reset(speakers, sampling_rate)
"""


def test_a_run_that_broke_goes_on_where_it_was_and_ends_with_the_same_bytes(mptb, tmp_path, sample):
    write(tmp_path / "flaky.py", FAILING)
    arguments = ("run", "--detector", "flaky:Flaky", "--root", sample, "--split", "test", "--jobs", 1)
    whole = mptb(*arguments, "--out", "whole.npz")
    assert whole.returncode == 0, whole.stderr
    broken = mptb(*arguments, "--out", "broken.npz", env={"FAIL_AT": "3"})
    assert_refused(broken, "the power went out")
    parts = sorted(path.name for path in (tmp_path / "broken.npz.parts").glob("*.npz"))
    assert parts == ["test_00001.npz", "test_00002.npz"]  # those with 5 and 2 speakers came before
    before = [(tmp_path / "broken.npz.parts" / name).stat().st_mtime_ns for name in parts]
    assert not (tmp_path / "broken.npz").exists()
    again = mptb(*arguments, "--out", "broken.npz", env={"FAIL_AT": "5"})  # would break, were it heard again
    assert again.returncode == 0, again.stderr
    assert before
    assert (tmp_path / "broken.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert not (tmp_path / "broken.npz.parts").exists()


def test_a_run_that_was_killed_leaves_no_half_written_file(tmp_path, sample):
    script = "from mptb_cli.main import main; main()"
    arguments = ["run", "--detector", "energy", "--root", str(sample), "--split", "test", "--out", "k.npz"]
    killed = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    parts = tmp_path / "k.npz.parts"
    while killed.poll() is None and not list(parts.glob("*.npz")):
        time.sleep(0.005)
    killed.kill()
    killed.wait()
    for part in [*parts.glob("*.npz"), *tmp_path.glob("k.npz")]:
        np.load(part).close()
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    arguments[-1] = "whole.npz"
    subprocess.run([sys.executable, "-c", script, *arguments], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "k.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_parts_of_another_hop_are_not_mixed_in(mptb, tmp_path, sample):
    write(tmp_path / "flaky.py", FAILING)
    arguments = (
        "run",
        "--detector",
        "flaky:Flaky",
        "--root",
        sample,
        "--split",
        "test",
        "--jobs",
        1,
        "--out",
        "s.npz",
    )
    mptb(*arguments, env={"FAIL_AT": "3"})
    done = mptb(*arguments, "--hop-s", 0.04)
    assert done.returncode == 0, done.stderr
    scores = read_scores(tmp_path / "s.npz")
    assert scores.frame_rate == 25.0
    lengths = {key[0]: len(trace) for key, trace in scores.traces.items()}
    assert lengths == {"test_00001": 897, "test_00002": 995, "test_00003": 928}  # ceil(duration / 0.04)


def test_two_processes_write_what_one_writes(mptb, tmp_path, sample):
    for jobs in (1, 2):
        done = mptb(
            "run",
            "--detector",
            "energy",
            "--root",
            sample,
            "--split",
            "dev",
            "--jobs",
            jobs,
            "--out",
            f"{jobs}.npz",
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()


def test_select_and_score_through_files_give_what_the_demo_gives(mptb, finished_demo, tmp_path, sample):
    demo = finished_demo / "demo"
    chosen = mptb(
        "select", "--root", sample, "--split", "dev", "--scores", demo / "dev.npz", "--out", "t.json"
    )
    assert chosen.returncode == 0, chosen.stderr
    assert json.loads((tmp_path / "t.json").read_text()) == json.loads((demo / "thresholds.json").read_text())
    scored = mptb(
        "score",
        "--root",
        sample,
        "--scores",
        demo / "test.npz",
        "--thresholds",
        "t.json",
        "--by",
        "num_speakers",
        "--out",
        "r.json",
    )
    assert scored.returncode == 0, scored.stderr
    assert json.loads((tmp_path / "r.json").read_text()) == json.loads((demo / "result.json").read_text())


def test_a_submission_scores_as_its_scores_did(mptb, finished_demo, tmp_path, sample):
    done = mptb(
        "score",
        "--root",
        sample,
        "--split",
        "test",
        "--submission",
        finished_demo / "demo/submission.json",
        "--out",
        "r.json",
    )
    assert done.returncode == 0, done.stderr
    ours = json.loads((tmp_path / "r.json").read_text())
    demo = json.loads((finished_demo / "demo/result.json").read_text())
    measures = [
        name for name in ours if name.startswith(("eot_", "int_")) and not name.endswith("within_budget")
    ]
    assert len(measures) >= 18
    assert {name: ours[name] for name in measures} == {name: demo[name] for name in measures}


def dev_submission(sample, theta):
    """Fires once in every `theta`-th positive of a channel, and never elsewhere."""
    entries = []
    for path in sorted((sample / "dev/annotations/anchors").iterdir()):
        content = json.loads(path.read_text())
        entry = {"conversation_id": content["conversation_id"]}
        for speaker, tracks in content["anchors"].items():
            entry[speaker] = {
                track.lower(): [round(t + 0.1, 3) for t in gold["positives"][::theta]]
                for track, gold in tracks.items()
            }
        entries.append(entry)
    return {"schema_version": 1, "predictions": entries}


def test_the_cards_form_of_select_chooses_the_submission_with_the_highest_recall(mptb, tmp_path, sample):
    for theta in (1, 2):
        write(tmp_path / f"{theta}.json", dev_submission(sample, theta))
    done = mptb(
        "select",
        "--root",
        sample,
        "--split",
        "dev",
        "--submission",
        "0.5=1.json",
        "0.7=2.json",
        "--out",
        "t.json",
    )
    assert done.returncode == 0, done.stderr
    tracks = json.loads((tmp_path / "t.json").read_text())["tracks"]
    assert tracks["eot"]["theta"] == 0.5
    assert tracks["eot"]["recall"] == 1.0
    assert tracks["eot"]["at_edge"] is True
    assert "edge" in done.stdout


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (["0.5=1.json", "0.50=1.json"], ["0.50=1.json", "twice"]),
        (["high=1.json"], ["high=1.json", "THRESHOLD=FILE"]),
        (["1.json"], ["THRESHOLD=FILE"]),
        (["nan=1.json"], ["THRESHOLD=FILE"]),
        (["0.5=nowhere.json"], ["nowhere.json"]),
    ],
)
def test_select_refuses_a_threshold_that_is_none(mptb, tmp_path, sample, named, words):
    write(tmp_path / "1.json", dev_submission(sample, 1))
    assert_refused(mptb("select", "--root", sample, "--submission", *named), *words)


def faults():
    def first(content):
        return content["predictions"][0]

    def set_eot(times):
        def change(content):
            first(content)["speaker_1"]["eot"] = times

        return change

    return {
        "schema version": (lambda c: c.update(schema_version=2), ["schema_version"]),
        "missing conversation": (lambda c: c["predictions"].pop(0), ["test_00001", "missing"]),
        "unknown conversation": (
            lambda c: first(c).update(conversation_id="test_99999"),
            ["test_99999", "unknown"],
        ),
        "duplicate conversation": (lambda c: c["predictions"].append(first(c)), ["test_00001"]),
        "missing speaker": (lambda c: first(c).pop("speaker_1"), ["test_00001", "speaker_1", "missing"]),
        "unknown speaker": (lambda c: first(c).update(speaker_9={"eot": [], "int": []}), ["speaker_9"]),
        "unknown track": (lambda c: first(c)["speaker_1"].update(laugh=[]), ["speaker_1", "laugh"]),
        "text": (set_eot(["1.0"]), ["test_00001", "speaker_1", "eot"]),
        "negative": (set_eot([-0.1]), ["test_00001", "speaker_1", "eot"]),
        "unordered": (set_eot([2.0, 1.0]), ["test_00001", "speaker_1", "eot"]),
        "past the end": (set_eot([1e6]), ["test_00001", "speaker_1", "eot"]),
        "null": (set_eot([None]), ["test_00001", "speaker_1", "eot"]),
    }


@pytest.mark.parametrize("fault", list(faults()))
def test_score_tells_what_is_wrong_with_a_submission(mptb, finished_demo, tmp_path, sample, fault):
    change, words = faults()[fault]
    path = write(tmp_path / "s.json", submission_of(finished_demo, change))
    assert_refused(mptb("score", "--root", sample, "--submission", path), *words)


@pytest.mark.parametrize(
    "text", ["{", '{"schema_version": 1, "predictions": [NaN]}', "[" * 100_000, "\udcff"]
)
def test_score_refuses_a_submission_that_is_no_json(mptb, tmp_path, sample, text):
    path = tmp_path / "s.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert_refused(mptb("score", "--root", sample, "--submission", path), "s.json")


def test_scores_of_dev_are_not_scored_as_test(mptb, finished_demo, sample):
    demo = finished_demo / "demo"
    done = mptb(
        "score",
        "--root",
        sample,
        "--split",
        "test",
        "--scores",
        demo / "dev.npz",
        "--thresholds",
        demo / "thresholds.json",
    )
    assert_refused(done, "dev.npz", "'dev'", "'test'")


def test_scores_made_from_other_gold_are_refused(mptb, finished_demo, tmp_path, sample):
    shutil.copytree(sample, tmp_path / "other")
    path = tmp_path / "other/test/annotations/anchors/test_00001.json"
    path.write_text(path.read_text().replace('"positives": [', '"positives": [0.5, ', 1))
    done = mptb(
        "score",
        "--root",
        "other",
        "--scores",
        finished_demo / "demo/test.npz",
        "--thresholds",
        finished_demo / "demo/thresholds.json",
    )
    assert_refused(done, "test.npz", "checksum")


def test_thresholds_of_another_detector_are_refused(mptb, finished_demo, tmp_path, sample):
    content = json.loads((finished_demo / "demo/thresholds.json").read_text())
    path = write(tmp_path / "t.json", {**content, "detector": "another"})
    done = mptb("score", "--root", sample, "--scores", finished_demo / "demo/test.npz", "--thresholds", path)
    assert_refused(done, "another", "energy")


def test_a_score_file_with_pickled_objects_is_refused(mptb, finished_demo, tmp_path, sample):
    np.savez(tmp_path / "evil.npz", meta=np.array({"a": print}, dtype=object))
    done = mptb(
        "score",
        "--root",
        sample,
        "--scores",
        "evil.npz",
        "--thresholds",
        finished_demo / "demo/thresholds.json",
    )
    assert_refused(done, "evil.npz")


def test_a_track_without_an_operating_point_is_not_scored_as_zero(mptb, finished_demo, tmp_path, sample):
    content = json.loads((finished_demo / "demo/thresholds.json").read_text())
    content["tracks"]["int"] = None
    path = write(tmp_path / "t.json", content)
    done = mptb("score", "--root", sample, "--scores", finished_demo / "demo/test.npz", "--thresholds", path)
    assert done.returncode == 0, done.stderr
    assert "INT: no operating point on dev" in done.stdout
    assert "interruption (INT)" not in done.stdout


def test_an_edited_detector_does_not_go_on_with_the_parts_of_its_earlier_version(tmp_path, sample):
    script = "from mptb_cli.main import main; main()"

    def run(source, out, **environment):
        (tmp_path / "edited.py").write_text(source)
        return subprocess.run(
            [
                sys.executable,
                "-c",
                script,
                "run",
                "--detector",
                "edited:Flaky",
                "--root",
                str(sample),
                "--split",
                "test",
                "--jobs",
                "1",
                "--out",
                out,
            ],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )

    broken = run(FAILING, "s.npz", FAIL_AT="3")
    assert broken.returncode == 2
    assert list((tmp_path / "s.npz.parts").glob("*.npz"))
    edited = (
        FAILING
        + "    def push(self, hop):\n        return {t: 0 * s + 0.5 for t, s in super().push(hop).items()}\n"
    )
    assert run(edited, "s.npz").returncode == 0
    scores = read_scores(tmp_path / "s.npz")
    assert all((trace == 0.5).all() for trace in scores.traces.values())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_a_killed_command_leaves_no_worker_behind(tmp_path, sample):
    (tmp_path / "slow.py").write_text(
        "import time\nfrom turn_end_prefix.detectors.energy import EnergyDetector\n"
        "class Slow(EnergyDetector):\n    def push(self, hop):\n        time.sleep(0.05)\n"
        "        return super().push(hop)\n"
    )
    command = [
        sys.executable,
        "-c",
        "from mptb_cli.main import main; main()",
        "run",
        "--detector",
        "slow:Slow",
        "--root",
        str(sample),
        "--split",
        "test",
        "--jobs",
        "2",
        "--out",
        "k.npz",
    ]
    started = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)

    def children():
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found += [path] if b"slow:Slow" in path.read_bytes() else []
        return found

    while len(children()) < 3:
        assert started.poll() is None
        time.sleep(0.05)
    started.kill()
    started.wait()
    deadline = time.monotonic() + 20
    while children() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not children()


@pytest.mark.parametrize("text", ["a [/red] b", "a [red]b"])
def test_brackets_in_a_users_words_are_printed_as_they_are(mptb, finished_demo, tmp_path, sample, text):
    content = submission_of(finished_demo, lambda c: c.update(detector=text))
    done = mptb("score", "--root", sample, "--submission", write(tmp_path / "s.json", content))
    assert done.returncode == 0, done.stderr
    assert f"{text}: not audited" in done.stdout
    done = mptb("run", "--detector", text, "--root", sample, "--split", "dev", "--out", "o.npz")
    assert_refused(done, text)


def thresholds_of(finished_demo, change):
    content = json.loads((finished_demo / "demo/thresholds.json").read_text())
    change(content)
    return content


def test_thresholds_without_dev_figures_are_used_but_not_judged(mptb, finished_demo, tmp_path, sample):
    path = write(
        tmp_path / "t.json", thresholds_of(finished_demo, lambda c: c["tracks"].update(eot={"theta": 0.5}))
    )
    done = mptb("score", "--root", sample, "--scores", finished_demo / "demo/test.npz", "--thresholds", path)
    assert done.returncode == 0, done.stderr
    assert "EOT: not judged" in done.stdout


def test_a_threshold_that_was_chosen_on_test_does_not_pass_as_devs(mptb, finished_demo, tmp_path, sample):
    scores = finished_demo / "demo/test.npz"
    done = mptb("select", "--root", sample, "--split", "test", "--scores", scores, "--out", "t.json")
    assert done.returncode == 0, done.stderr
    done = mptb("score", "--root", sample, "--scores", scores, "--thresholds", "t.json")
    assert "EOT: not judged" in done.stdout
    assert "within budget" not in done.stdout


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda c: c.update(corpus="0" * 64), (), ["corpus", "000000000000"]),
        (lambda c: None, ("--protocol", "turnbench"), ["turnbench", "'mptb'"]),
    ],
)
def test_thresholds_of_other_gold_or_another_protocol_are_refused(
    mptb, finished_demo, tmp_path, sample, change, options, words
):
    path = write(tmp_path / "t.json", thresholds_of(finished_demo, change))
    scores = finished_demo / "demo/test.npz"
    done = mptb("score", "--root", sample, "--scores", scores, "--thresholds", path, *options)
    assert_refused(done, *words)


BAD = """
import numpy as np
class Nan:
    lookahead_s = 0.0
    sampling_rate = None
    def reset(self, speakers, sampling_rate): self.n = len(speakers)
    def push(self, hop): return {"eot": np.full(self.n, np.nan)}
class NoPush:
    def reset(self, speakers, sampling_rate): pass
class Exits(Nan):
    def push(self, hop): raise SystemExit(0)
nothing = 3
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Nan", ["dev_00001", "speaker_1", "not finite"]),
        ("NoPush", ["NoPush", "push"]),
        ("Exits", ["dev_00001", "exit"]),
        ("nothing", ["nothing"]),
        ("absent", ["absent"]),
    ],
)
def test_a_detector_that_is_none_or_answers_nonsense_is_named(mptb, tmp_path, sample, name, words):
    write(tmp_path / "bad_detectors.py", BAD)
    done = mptb(
        "run",
        "--detector",
        f"bad_detectors:{name}",
        "--root",
        sample,
        "--split",
        "dev",
        "--jobs",
        1,
        "--out",
        "o.npz",
    )
    assert_refused(done, *words)
    assert not (tmp_path / "o.npz").exists()


def test_figures_are_not_cut_where_nobody_looks_at_a_terminal(tmp_path, finished_demo, sample):
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from mptb_cli.main import main; main()",
            "score",
            "--root",
            str(sample),
            "--submission",
            str(finished_demo / "demo/submission.json"),
            "--n-resamples",
            "99",
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "…" not in done.stdout


def test_official_refuses_a_partial_split(mptb, finished_demo, tmp_path, sample):
    shutil.copytree(sample, tmp_path / "part")
    manifest = tmp_path / "part/test/manifest.jsonl"
    manifest.write_text("".join(manifest.read_text().splitlines(True)[1:]))
    content = submission_of(finished_demo, lambda c: c["predictions"].pop(0))
    path = write(tmp_path / "s.json", content)
    assert mptb("score", "--root", "part", "--submission", path).returncode == 0
    assert_refused(mptb("score", "--root", "part", "--submission", path, "--official"), "test_00001")


def test_verify_finds_nothing_wrong_with_the_sample(mptb, sample):
    done = mptb("verify", "--root", sample)
    assert done.returncode == 0, done.stderr
    assert "nothing is wrong" in done.stdout


def test_verify_names_every_problem_and_exits_with_2(mptb, tmp_path, sample):
    shutil.copytree(sample, tmp_path / "bad")
    flac = tmp_path / "bad/test/audio/noisy/test_00002_speaker_1.flac"
    flac.write_bytes(flac.read_bytes()[: flac.stat().st_size // 2])
    (tmp_path / "bad/dev/audio/clean/dev_00001_speaker_2.flac").unlink()
    done = mptb("verify", "--root", "bad")
    assert_refused(done, "test_00002_speaker_1.flac", "dev_00001_speaker_2.flac")


@pytest.mark.parametrize(
    "command",
    [
        ["verify"],
        ["run", "--detector", "energy", "--split", "dev", "--out", "o.npz"],
        ["select", "--scores", "s.npz"],
        ["score", "--submission", "s.json"],
    ],
)
def test_a_root_that_is_not_there_is_named(mptb, command):
    assert_refused(mptb(*command, "--root", "nowhere"), "nowhere", "no such folder")


def test_an_unknown_detector_is_answered_with_the_known_ones(mptb, sample):
    done = mptb("run", "--detector", "oracel", "--root", sample, "--split", "dev", "--out", "o.npz")
    assert_refused(done, "oracel", "energy")


def test_the_oracle_finds_everything_and_raises_no_false_alarm(mptb, tmp_path, sample):
    done = mptb("run", "--detector", "oracle", "--root", sample, "--split", "dev", "--out", "o.npz")
    assert done.returncode == 0, done.stderr
    done = mptb("select", "--root", sample, "--scores", "o.npz", "--out", "t.json")
    assert done.returncode == 0, done.stderr
    for point in json.loads((tmp_path / "t.json").read_text())["tracks"].values():
        assert (point["recall"], point["fpr"]) == (1.0, 0.0)


def test_help_loads_no_heavy_library(tmp_path):
    script = (
        "import sys; sys.argv = ['mptb', '--help']\n"
        "from mptb_cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'datasets', 'torch', 'numpy', 'pyarrow', 'evaluate', 'soundfile'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
