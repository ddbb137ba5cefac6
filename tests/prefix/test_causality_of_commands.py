"""Programs that read a tree and write a submission: those that peek are caught, with no gold in reach."""

import json
import sys

import numpy as np
import pytest
import soundfile

import mptb_metric
from mptb_dataset import load_dataset, sample_dir
from turn_end_prefix.audit import AuditError, audit_command
from turn_end_prefix.blind_tree import read_channels, read_manifest, write_blind
from turn_end_prefix.causality import UNCHANGED

PROGRAM = """
import json, sys
import numpy as np, soundfile
root, split, out = sys.argv[1:]
rows = []
for line in open(f"{root}/{split}/manifest.jsonl"):
    entry = json.loads(line)
    row = {"conversation_id": entry["conversation_id"]}
    for speaker, path in entry["audio_noisy"].items():
        samples, rate = soundfile.read(f"{root}/{path}", dtype="float32")
        hop = rate // 10
        frames = samples[: len(samples) // hop * hop].reshape(-1, hop)
        level = np.sqrt((frames**2).mean(axis=1))
        RULE
        row[speaker] = {"eot": [round(float(t), 3) for t in times], "int": []}
    rows.append(row)
json.dump({"schema_version": 1, "predictions": rows}, open(out, "w"))
"""

CAUSAL = "times = (np.flatnonzero((level[:-1] > 0.01) & (level[1:] <= 0.01)) + 2) / 10"
PEEKING = {
    "level of the whole file": CAUSAL.replace("0.01", "level.max() / 8"),
    "smoothed both ways": "level = np.convolve(level, np.ones(9) / 9, 'same'); " + CAUSAL,
    "length of the file": "times = [len(level) / 20]",
    "duration in the manifest": "times = [entry['duration_s'] / 3]",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The first seconds of the sample's dev split, as a tree."""
    root = tmp_path_factory.mktemp("corpus")
    for conversation in read_manifest(sample_dir("mptb"), "dev"):
        rows = {speaker: samples[: 12 * 24000] for speaker, samples in read_channels(conversation).items()}
        write_blind(conversation, root, "dev", altered=rows)
    return root


@pytest.fixture
def audit(corpus, tmp_path):
    """Audit a program with the given rule on that tree."""

    def run(rule, **options):
        script = tmp_path / "a program.py"
        script.write_text(PROGRAM.replace("RULE", rule))
        command = f"'{sys.executable}' '{script}' {{root}} {{split}} {{out}}"
        return audit_command(command, corpus, "dev", read_submission=mptb_metric.load_submission, **options)

    return run


def test_a_causal_program_passes(audit):
    steps = []
    report = audit(CAUSAL, progress=lambda done, total: steps.append((done, total)))
    assert report.ok, str(report)
    assert report.n_runs == 10
    assert steps == [(done, 10) for done in range(1, 11)]
    assert json.dumps(report.to_record(), allow_nan=False)


@pytest.mark.parametrize("rule", PEEKING.values(), ids=PEEKING.keys())
def test_a_program_that_peeks_is_caught(rule, audit):
    report = audit(rule)
    assert not report.ok
    for violation in report.violations:
        assert violation.conversation_id in ("dev_00001", "dev_00003")
        assert violation.track == "eot"
        assert violation.time_s <= violation.probe_s
        assert violation.change >= 1
    assert report.violations[0].conversation_id in str(report)


@pytest.mark.slow
def test_lookahead_that_is_declared_passes(audit):
    early = "times = (np.flatnonzero((level[:-1] > 0.01) & (level[1:] <= 0.01)) + 1) / 10"
    assert not audit(early).ok
    assert audit(early, lookahead_s=0.1).ok


def test_a_program_that_answers_by_chance_is_caught_by_its_second_run(audit):
    report = audit("times = sorted(np.random.default_rng().uniform(0, 10, 3))", probes=1)
    assert UNCHANGED in {violation.replacement for violation in report.violations}


def test_gold_is_not_handed_over(audit):
    gold = "times = json.load(open(f\"{root}/{entry['anchors']}\"))['anchors'][speaker]['EOT']['positives']"
    with pytest.raises(AuditError, match="exit code 1") as error:
        audit(gold + "; assert times, 'no gold here'", probes=1)
    assert "no gold here" in str(error.value)


@pytest.mark.slow
def test_the_choice_of_conversations_and_the_report_follow_the_seed(audit):
    peeking = PEEKING["level of the whole file"]
    one, same, other = (audit(peeking, max_conversations=1, probes=2, seed=s) for s in (0, 0, 3))
    assert one == same
    assert one.violations != other.violations
    assert len({violation.conversation_id for violation in one.violations}) == 1


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("raise SystemExit(0)", "wrote no submission"),
        ("print('last words', file=sys.stderr); raise SystemExit(1)", "last words"),
    ],
)
def test_a_program_that_fails_is_an_error_and_no_verdict(rule, message, audit):
    with pytest.raises(AuditError, match=message):
        audit(rule)


def test_a_program_that_takes_too_long_is_an_error(audit):
    with pytest.raises(AuditError, match="timed out"):
        audit("import time; time.sleep(60)", timeout_s=0.2)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("times = []; row['conversation_id'] += '9'", "'dev_.*9' was not handed over"),
        ("times = []; speaker = 'speaker_1'", "eot: expected values for each of speaker_1, speaker_2"),
    ],
)
def test_a_submission_about_other_channels_is_refused(rule, message, audit):
    with pytest.raises(ValueError, match=message):
        audit(rule)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run --out {out}", r"must say where \{root\} go"),
        ("run {root}", r"must say where \{out\} go"),
        ("run", r"\{root\} and \{out\}"),
    ],
)
def test_a_command_must_name_what_it_reads_and_writes(command, message):
    with pytest.raises(ValueError, match=message):
        audit_command(command, sample_dir("mptb"), "dev", read_submission=mptb_metric.load_submission)


def test_a_program_that_is_not_there_is_an_error():
    with pytest.raises(AuditError, match="no-such-program"):
        audit_command(
            "no-such-program {root} {out}",
            sample_dir("mptb"),
            "dev",
            read_submission=mptb_metric.load_submission,
        )


@pytest.mark.parametrize(
    ("split", "lines", "message"),
    [
        ("dev", None, "no conversations of split 'dev'"),
        ("dev", ["{", ""], r"manifest.jsonl, line 1: not JSON"),
        ("dev", ['{"conversation_id": 1}'], "line 1: field 'conversation_id'"),
        ("dev", ['{"conversation_id": "a"}'], "line 1: field 'audio_noisy'"),
        ("dev", ['{"conversation_id": "a", "audio_noisy": {"s": "../x.flac"}}'], "a path inside the root"),
        ("dev", ['{"conversation_id": "a", "audio_noisy": {"s": "/x.flac"}}'], "a path inside the root"),
        ("dev", ['{"conversation_id": "a", "audio_noisy": {"s": "x.flac"}}'], "x.flac: cannot be read"),
    ],
)
def test_a_corpus_that_cannot_be_read_is_refused_by_file_and_field(split, lines, message, tmp_path):
    if lines is not None:
        (tmp_path / split).mkdir()
        (tmp_path / split / "manifest.jsonl").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=message):
        read_manifest(tmp_path, split)


def test_channels_of_unequal_length_are_refused(tmp_path):
    (tmp_path / "dev" / "audio" / "noisy").mkdir(parents=True)
    for speaker, length in (("speaker_1", 100), ("speaker_2", 99)):
        path = tmp_path / "dev" / "audio" / "noisy" / f"dev_00001_{speaker}.flac"
        soundfile.write(path, np.zeros(length), 24000)
    with pytest.raises(ValueError, match="dev_00001: channels differ in samples: speaker_1 100 at 24000 Hz"):
        read_manifest(tmp_path, "dev")


def test_a_tree_without_manifest_gives_the_same_conversations(tmp_path):
    original = {c.conversation_id: c.audio for c in read_manifest(sample_dir("mptb"), "dev")}
    for conversation in read_manifest(sample_dir("mptb"), "dev"):
        write_blind(conversation, tmp_path, "dev")
    (tmp_path / "dev" / "manifest.jsonl").unlink()
    assert {c.conversation_id: c.audio for c in read_manifest(tmp_path, "dev")} == original


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
def test_altered_audio_is_written_sample_by_sample_exact(subtype, tmp_path):
    (tmp_path / "dev" / "audio" / "noisy").mkdir(parents=True)
    path = tmp_path / "dev" / "audio" / "noisy" / "dev_00001_speaker_1.flac"
    soundfile.write(path, np.random.default_rng(0).uniform(-1, 1, 5000), 24000, subtype=subtype)
    (conversation,) = read_manifest(tmp_path, "dev")
    write_blind(conversation, tmp_path / "copy", "dev", altered=read_channels(conversation))
    copy = tmp_path / "copy" / conversation.audio["speaker_1"]
    assert soundfile.info(copy).subtype == subtype
    np.testing.assert_array_equal(
        soundfile.read(copy, dtype="int32")[0], soundfile.read(path, dtype="int32")[0]
    )


def test_the_loader_reads_a_blind_tree_and_finds_channels_without_gold(tmp_path):
    for conversation in read_manifest(sample_dir("mptb"), "dev"):
        write_blind(conversation, tmp_path / "corpus", "dev")
    rows = load_dataset(
        "channels", split="dev", data_dir=str(tmp_path / "corpus"), cache_dir=str(tmp_path / "c")
    )
    assert sorted(set(rows["conversation_id"])) == ["dev_00001", "dev_00003"]
    for track in ("eot", "int"):
        assert not any(
            row[track]["positives"] or row[track]["negative_spans"] for row in rows.select_columns(track)
        )
