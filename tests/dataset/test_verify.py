"""`verify` on an MPTB tree: every planted fault is found, alone, and named."""

import hashlib
import shutil

import pytest

from mptb_dataset import CorpusError, verify


def messages(root):
    return [str(problem) for problem in verify(root).problems]


def only(root):
    """The one problem of a corpus, as text."""
    (message,) = messages(root)
    return message


@pytest.fixture
def summed(tree):
    """The tree with its SHA256SUMS."""

    def write():
        files = sorted(p for p in tree.rglob("*") if p.is_file() and p.name != "SHA256SUMS")
        lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(tree)}\n" for p in files]
        (tree / "SHA256SUMS").write_text("".join(lines))

    write()
    return tree


def test_the_embedded_corpora_are_in_order(sample, turn_sample):
    for root in (sample, turn_sample):
        report = verify(root)
        assert report.ok
        assert report.problems == []


def test_a_report_counts_what_was_looked_at(tree):
    assert verify(tree).checked == {"conversations": 4, "events": 36, "channels": 18, "anchor lists": 54}


def test_progress_reaches_its_end(summed):
    steps = []
    verify(summed, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(k + 1, len(steps)) for k in range(len(steps))]
    assert len(steps) == 4 + len((summed / "SHA256SUMS").read_text().splitlines())


def test_what_is_no_corpus_is_an_error_not_a_report(tmp_path):
    with pytest.raises(CorpusError, match="found no manifest"):
        verify(tmp_path)
    with pytest.raises(CorpusError, match="no such folder"):
        verify(tmp_path / "nowhere")


def test_a_missing_channel_is_found(tree):
    (tree / "dev/audio/clean/dev_00001_speaker_2.flac").unlink()
    assert only(tree) == (
        "dev/audio/clean/dev_00001_speaker_2.flac: the file is missing: "
        "dev/manifest.jsonl names it as 'audio_clean'"
    )


@pytest.mark.parametrize("keep", [0.99, 0.5, 0.1])
def test_a_channel_cut_short_is_found(tree, keep):
    path = tree / "dev/audio/noisy/dev_00001_speaker_2.flac"
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data))])
    assert only(tree).startswith("dev/audio/noisy/dev_00001_speaker_2.flac: ")


@pytest.mark.parametrize("data", [b"", b"RIFF", b"not audio at all" * 100])
def test_a_channel_that_is_not_flac_is_found(tree, data):
    (tree / "dev/audio/noisy/dev_00001_speaker_2.flac").write_bytes(data)
    assert only(tree).startswith("dev/audio/noisy/dev_00001_speaker_2.flac: expected a FLAC file")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate_hz": 16_000}, "16000 Hz with 1 channel: expected 24000 Hz mono"),
        ({"channels": 2}, "24000 Hz with 2 channels: expected 24000 Hz mono"),
    ],
)
def test_a_channel_of_another_kind_is_found(tree, make_flac, options, message):
    (tree / "dev/audio/noisy/dev_00001_speaker_2.flac").write_bytes(make_flac(**options))
    assert only(tree) == f"dev/audio/noisy/dev_00001_speaker_2.flac: {message}"


def test_channels_of_unequal_length_are_found_to_the_sample(tree, make_flac):
    path = "dev/audio/clean/dev_00001_speaker_2.flac"
    (tree / path).write_bytes(make_flac(seconds=12 + 1 / 24_000))
    message = only(tree)
    assert message.startswith(
        "dev/annotations/events/dev_00001.json: channels of unequal length, in samples: "
    )
    assert f"{path}: 288001" in message


def test_channels_that_are_not_as_long_as_the_log_says_are_found(tree, edit):
    edit(tree, "events", lambda log: log.update(duration_s=12.2))
    assert messages(tree) == [
        f"dev/audio/{scene}/dev_00001_{speaker}.flac: 12.000 s long, but field 'duration_s' of "
        "dev/annotations/events/dev_00001.json is 12.2"
        for scene in ("noisy", "clean")
        for speaker in ("speaker_1", "speaker_2")
    ]


def test_an_event_past_the_end_is_found(tree, edit):
    edit(tree, "events", lambda log: log["events"][8].update(offset=12.5))
    edit(tree, "anchors", lambda f: f["anchors"]["speaker_1"]["INT"].update(negative_spans=[[10.0, 12.5]]))
    assert only(tree) == (
        "dev/annotations/events/dev_00001.json: event 'e8': field 'offset': 12.5 s is past the "
        "conversation's end at 12.0 s"
    )


@pytest.mark.parametrize(
    ("track", "name", "value"),
    [
        ("EOT", "positives", [4.0]),
        ("EOT", "positives", [4.0, 8.000001]),
        ("EOT", "negative_spans", []),
        ("INT", "excluded_spans", [[9.0, 9.5], [9.6, 9.7]]),
    ],
)
def test_anchors_that_are_not_those_of_the_log_are_found(tree, edit, track, name, value):
    edit(tree, "anchors", lambda file: file["anchors"]["speaker_1"][track].update({name: value}))
    assert only(tree).startswith(
        f"dev/annotations/anchors/dev_00001.json: speaker_1, track {track}, {name}: {value}"
    )


def test_anchors_that_differ_by_less_than_scoring_sees_are_in_order(tree, edit):
    edit(tree, "anchors", lambda f: f["anchors"]["speaker_1"]["EOT"].update(positives=[4.0, 8.0000001]))
    assert verify(tree).ok


@pytest.mark.parametrize(
    ("field", "function", "message"),
    [
        ("events", lambda log: log["events"][0].update(label="X"), "field 'label': 'X' is not one of TURN"),
        ("events", lambda log: log["events"][0].update(offset=0.1), "ends at 0.1 s before its onset"),
        ("events", lambda log: log.update(events=log["events"][:1]), "a hold of speaker_1 at 2.0 s"),
        (
            "anchors",
            lambda file: file["anchors"]["speaker_1"].update(X={}),
            "track 'X': expected one of EOT, INT",
        ),
        ("script", lambda script: script.update(utterances=3), "field 'utterances': expected a list"),
        (
            "render",
            lambda render: render["clips"][0].update(src_index=9),
            "field 'src_index': 9 is none of the 1",
        ),
    ],
)
def test_an_annotation_that_cannot_be_understood_is_found_and_the_rest_is_looked_at(
    tree, edit, field, function, message
):
    edit(tree, field, function)
    (tree / "test/audio/noisy/test_00001_speaker_1.flac").unlink()
    first, second = messages(tree)
    assert message in first
    assert second.startswith("test/audio/noisy/test_00001_speaker_1.flac: the file is missing")


@pytest.mark.parametrize("field", ["events", "anchors", "script", "render"])
def test_a_missing_annotation_is_found(tree, field):
    folder = {"script": "scripts"}.get(field, field)
    (tree / f"dev/annotations/{folder}/dev_00001.json").unlink()
    assert f"dev/annotations/{folder}/dev_00001.json: cannot be read: No such file" in only(tree)


def test_a_manifest_that_cannot_be_understood_is_found_and_the_other_split_is_looked_at(tree):
    with open(tree / "dev/manifest.jsonl", "a") as manifest:
        manifest.write("{\n")
    report = verify(tree)
    (problem,) = report.problems
    assert str(problem).startswith("dev/manifest.jsonl: dev/manifest.jsonl, line 3: not valid")
    assert report.checked["conversations"] == 2


def test_a_speaker_without_a_channel_is_found(tree, edit_manifest):
    edit_manifest(tree, lambda lines: lines[0]["audio_noisy"].pop("speaker_2") and None)
    assert "field 'audio_noisy': expected a channel for each of speaker_1, speaker_2" in only(tree)


def test_speakers_that_share_a_file_are_found(tree, edit_manifest):
    def share(lines):
        lines[0]["audio_noisy"]["speaker_2"] = lines[0]["audio_noisy"]["speaker_1"]

    edit_manifest(tree, share)
    assert only(tree) == "dev/manifest.jsonl: dev_00001: field 'audio_noisy': speakers share a file"


def test_a_conversation_that_is_in_both_splits_is_found(tree, edit, edit_manifest):
    edit(
        tree,
        "events",
        lambda log: log.update(conversation_id="dev_00001"),
        split="test",
        conversation_id="test_00001",
    )
    edit_manifest(tree, lambda lines: lines[0].update(conversation_id="dev_00001"), split="test")
    assert "in more than one split (1 in all, first: dev_00001)" in only(tree)


def test_checksums_that_hold_are_in_order(summed):
    report = verify(summed)
    assert report.ok
    assert report.checked["checksums"] == len((summed / "SHA256SUMS").read_text().splitlines())


def test_a_changed_file_is_found_by_its_checksum(summed):
    with open(summed / "dev/annotations/scripts/dev_00001.json", "a") as file:
        file.write(" ")
    assert only(summed) == (
        "dev/annotations/scripts/dev_00001.json: its SHA-256 is not the one that SHA256SUMS lists"
    )


def test_a_listed_file_that_is_missing_is_found(summed):
    sums = summed / "SHA256SUMS"
    sums.write_text(sums.read_text() + "0" * 64 + "  metadata/voices.csv\n")
    assert only(summed) == "metadata/voices.csv: listed in SHA256SUMS, but No such file or directory"


def test_files_without_a_checksum_are_found_with_their_number_and_the_first_of_them(summed):
    for number in range(5):
        (summed / f"extra_{number}.txt").write_text("x")
    assert only(summed) == (
        "SHA256SUMS: files without a checksum (5 in all, first: extra_0.txt, extra_1.txt, extra_2.txt)"
    )


def test_what_tools_leave_behind_needs_no_checksum(summed):
    (summed / ".cache" / "huggingface").mkdir(parents=True)
    (summed / ".cache" / "huggingface" / "x.metadata").write_text("x")
    (summed / ".gitattributes").write_text("x")
    assert verify(summed).ok


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("abc  x.txt", "SHA256SUMS: SHA256SUMS, line 1: expected a SHA-256 and a path, got 'abc  x.txt'"),
        ("0" * 64 + "  ../x", "SHA256SUMS: SHA256SUMS, line 1: field 'path': '../x' leaves the corpus"),
    ],
)
def test_a_line_of_checksums_at_fault_is_found(summed, line, message):
    sums = summed / "SHA256SUMS"
    sums.write_text(line + "\n" + sums.read_text())
    assert only(summed).startswith(message)


def test_checksums_may_be_written_in_binary_mode_and_in_capitals(summed):
    sums = summed / "SHA256SUMS"
    lines = [line.split("  ") for line in sums.read_text().splitlines()]
    sums.write_text("".join(f"{digest.upper()} *./{path}\n" for digest, path in lines))
    assert verify(summed).ok


def test_conversations_that_the_official_split_does_not_have_are_found_and_the_reverse(tree):
    (tree / "metadata").mkdir()
    (tree / "metadata/split.json").write_text(
        '{"dev": ["dev_00001", "dev_00007"], "test": ["test_00001", "test_00002"]}'
    )
    assert messages(tree) == [
        "metadata/split.json: dev: listed, but not in the manifest (1 in all, first: dev_00007)",
        "metadata/split.json: dev: in the manifest, but not listed (1 in all, first: dev_00002)",
    ]


def test_a_split_of_the_published_size_must_have_the_card_s_totals(tree, monkeypatch):
    totals = {"conversations": 2, "eot": (6, 2), "int": (2, 4)}
    monkeypatch.setitem(verify.__globals__["CARD_TOTALS"], "dev", totals)
    assert verify(tree).ok
    monkeypatch.setitem(verify.__globals__["CARD_TOTALS"], "dev", {**totals, "int": (2, 5)})
    assert only(tree) == (
        "dev/manifest.jsonl: INT: 2 positives and 4 negatives, but the card lists (2, 5) for the whole split"
    )


def test_the_card_s_totals_are_those_of_its_composition_table():
    totals = verify.__globals__["CARD_TOTALS"]
    assert totals["dev"] == {"conversations": 48, "eot": (706, 55), "int": (86, 309)}
    assert totals["test"] == {"conversations": 192, "eot": (2716, 186), "int": (281, 1172)}


def test_a_tree_without_clean_audio_or_scripts_is_in_order(tree, edit_manifest):
    shutil.rmtree(tree / "dev/audio/clean")
    for folder in ("scripts", "render"):
        shutil.rmtree(tree / "dev/annotations" / folder)

    def forget(lines):
        for line in lines:
            for field in ("audio_clean", "script", "render"):
                del line[field]

    edit_manifest(tree, forget)
    assert verify(tree).ok


def test_files_that_are_no_text_are_no_trouble(tree):
    (tree / "SHA256SUMS").write_bytes(b"\xff\xfe\x00 binary\n")
    assert "expected a SHA-256 and a path" in messages(tree)[0]
