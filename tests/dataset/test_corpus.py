"""A tree: its manifest, its layout, and how each fault of it is named."""

import json
import os
import shutil

import pytest

from mptb_dataset import Corpus, CorpusError
from mptb_dataset.manifest import safe_path


def first(corpus, split="dev"):
    return corpus.conversation(corpus.entries(split)[0])


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(CorpusError, match=r"nowhere: no such folder: expected a MultiPartyTurnBench tree"):
        Corpus(tmp_path / "nowhere")


def test_a_file_is_no_corpus(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CorpusError, match=r"file: no such folder"):
        Corpus(tmp_path / "file")


def test_a_folder_with_neither_manifest_nor_layout_is_named(tmp_path):
    (tmp_path / "dev").mkdir()
    with pytest.raises(CorpusError, match=r"found no manifest \(dev/manifest\.jsonl.*and no layout"):
        Corpus(tmp_path)


def test_a_corpus_error_is_a_value_error_too(tmp_path):
    with pytest.raises(ValueError, match="no such folder"):
        Corpus(tmp_path / "nowhere")


def test_a_tree_of_dev_alone_has_one_split(tree):
    shutil.rmtree(tree / "test")
    corpus = Corpus(tree)
    assert corpus.splits == ("dev",)
    with pytest.raises(CorpusError, match=r"no split 'test': expected one of dev"):
        corpus.entries("test")


def test_a_missing_manifest_is_rebuilt_from_the_layout(tree):
    before = {split: Corpus(tree).entries(split) for split in ("dev", "test")}
    for split in before:
        (tree / split / "manifest.jsonl").unlink()
    assert {split: Corpus(tree).entries(split) for split in before} == before


def test_what_a_manifest_does_not_name_is_taken_from_the_layout(tree, edit_manifest):
    before = Corpus(tree).entries("dev")
    edit_manifest(tree, lambda lines: [{"conversation_id": line["conversation_id"]} for line in lines])
    assert Corpus(tree).entries("dev") == before


def test_annotations_may_be_named_after_their_folders(tree, edit_manifest):
    before = Corpus(tree).entries("dev")

    def rename(lines):
        for line in lines:
            line["scripts"] = line.pop("script")

    edit_manifest(tree, rename)
    assert Corpus(tree).entries("dev") == before


def test_a_tree_without_scripts_and_renders_has_no_utterances(tree, load):
    for folder in ("scripts", "render"):
        shutil.rmtree(tree / "dev" / "annotations" / folder)
    (tree / "dev" / "manifest.jsonl").unlink()
    row = load("conversations", data_dir=tree, split="dev")[0]
    assert row["utterances"] == []
    assert row["noise_json"] is None


def test_a_tree_without_anchor_files_derives_them_from_the_log(tree, load):
    shipped = load("channels", data_dir=tree, split="dev").to_list()
    shutil.rmtree(tree / "dev" / "annotations" / "anchors")
    assert load("channels", data_dir=tree, split="dev").to_list() == shipped
    (tree / "dev" / "manifest.jsonl").unlink()
    assert load("channels", data_dir=tree, split="dev").to_list() == shipped


def test_a_tree_without_clean_audio_loads_its_noisy_audio(tree, edit_manifest, load):
    shutil.rmtree(tree / "dev" / "audio" / "clean")

    def forget(lines):
        for line in lines:
            del line["audio_clean"]

    edit_manifest(tree, forget)
    assert len(load("channels", data_dir=tree, split="dev")) == 5
    with pytest.raises(CorpusError, match=r"dev_00001: field 'audio_clean'.*missing: speaker_1, speaker_2"):
        load("channels", data_dir=tree, split="dev", audio="clean")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{not json", r"dev/manifest\.jsonl, line 3: not valid JSON at line 1, column 2"),
        ("[1]", r"dev/manifest\.jsonl, line 3: expected a JSON object, got list"),
        ("{}", r"line 3: field 'conversation_id': expected a text, got None"),
        ('{"conversation_id": 7}', r"line 3: field 'conversation_id': expected a text, got 7"),
        (
            '{"conversation_id": "dev_00001"}',
            r"line 3: field 'conversation_id': 'dev_00001' is on an earlier",
        ),
        ('{"conversation_id": "x", "events": 1}', r"line 3: field 'events': expected a path, got 1"),
        ('{"conversation_id": "x", "events": ""}', r"line 3: field 'events': expected a path, got ''"),
        (
            '{"conversation_id": "x", "audio_noisy": ["a"]}',
            r"line 3: field 'audio_noisy': expected an object",
        ),
        ('{"conversation_id": "x", "audio_noisy": {"a": null}}', r"field 'audio_noisy\.a': expected a path"),
        ('{"conversation_id": "x", "duration_s": NaN}', r"line 3: not valid JSON"),
    ],
)
def test_a_manifest_line_at_fault_is_named_by_its_number(tree, line, message):
    with open(tree / "dev" / "manifest.jsonl", "a") as manifest:
        manifest.write(line + "\n")
    with pytest.raises(CorpusError, match=message):
        Corpus(tree).entries("dev")


def test_blank_lines_and_windows_line_ends_do_no_harm(tree):
    path = tree / "dev" / "manifest.jsonl"
    before = Corpus(tree).entries("dev")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    assert Corpus(tree).entries("dev") == before


def test_a_manifest_that_is_not_utf_8_is_named(tree):
    (tree / "dev" / "manifest.jsonl").write_bytes(b'{"conversation_id": "caf\xe9"}\n')
    with pytest.raises(CorpusError, match=r"manifest\.jsonl, line 1: not valid JSON.*UTF-8"):
        Corpus(tree).entries("dev")


def test_an_empty_manifest_is_an_error_not_an_empty_table(tree):
    (tree / "dev" / "manifest.jsonl").write_text("\n")
    with pytest.raises(
        CorpusError, match=r"dev/manifest\.jsonl: expected a line per conversation, found none"
    ):
        Corpus(tree).entries("dev")


OUTSIDE = [
    "../other/events.json",
    "dev/../../events.json",
    "/etc/passwd",
    "//server/share/x.json",
    "C:/data/x.json",
    "C:\\data\\x.json",
    "..\\x.json",
    "dev\\..\\..\\x.json",
    "\\\\server\\x.json",
    "https://example.org/x.json",
    "file:///etc/passwd",
    "hf://datasets/x/y/z.json",
    "zip://x.json::a.zip",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leaves_the_root_is_refused(tree, edit_manifest, path):
    edit_manifest(tree, lambda lines: lines[1].update(events=path))
    with pytest.raises(
        CorpusError, match=r"dev/manifest\.jsonl, line 2: field 'events': .* leaves the corpus"
    ):
        Corpus(tree).entries("dev")


@pytest.mark.parametrize("path", OUTSIDE)
def test_audio_that_leaves_the_root_is_refused(tree, edit_manifest, path):
    edit_manifest(tree, lambda lines: lines[0]["audio_clean"].update(speaker_2=path))
    with pytest.raises(CorpusError, match=r"line 1: field 'audio_clean\.speaker_2': .* leaves the corpus"):
        Corpus(tree).entries("dev")


@pytest.mark.parametrize("conversation_id", ["../../../../secret", "..\\..\\..\\..\\secret"])
def test_an_id_that_would_leave_the_root_through_the_layout_is_refused(tree, conversation_id):
    (tree / "dev" / "manifest.jsonl").write_text(json.dumps({"conversation_id": conversation_id}) + "\n")
    with pytest.raises(CorpusError, match="leaves the corpus"):
        Corpus(tree).entries("dev")


def test_a_path_with_a_null_byte_is_refused():
    with pytest.raises(CorpusError, match=r"line 1: field 'events': expected a path"):
        safe_path("a\0b", "line 1", "events")


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("dev/a.json", "dev/a.json"),
        ("./dev//a.json", "dev/a.json"),
        ("dev/x/../a.json", "dev/a.json"),
        ("dev\\a.json", "dev/a.json"),
        ("dev/dép art 1.json", "dev/dép art 1.json"),
        ("dev/..a/b..json", "dev/..a/b..json"),
    ],
)
def test_a_path_within_the_root_is_accepted(path, normal):
    assert safe_path(path, "line 1", "events") == normal


def test_a_manifest_with_backslashes_loads(tree, edit_manifest):
    before = Corpus(tree).entries("dev")
    edit_manifest(tree, lambda lines: [json.loads(json.dumps(line).replace("/", "\\\\")) for line in lines])
    assert Corpus(tree).entries("dev") == before


def test_a_missing_event_log_is_named(tree):
    (tree / "dev/annotations/events/dev_00001.json").unlink()
    with pytest.raises(
        CorpusError, match=r"dev/annotations/events/dev_00001\.json: cannot be read: No such file"
    ):
        first(Corpus(tree))


def test_an_event_log_of_another_conversation_is_named(tree, edit):
    edit(tree, "events", lambda log: log.update(conversation_id="dev_00009"))
    with pytest.raises(
        CorpusError, match=r"dev_00001\.json: field 'conversation_id': 'dev_00009', expected 'dev_00001'"
    ):
        first(Corpus(tree))


def test_a_path_that_is_a_folder_is_named(tree, edit_manifest):
    edit_manifest(tree, lambda lines: lines[0].update(events="dev/annotations"))
    with pytest.raises(CorpusError, match=r"dev/annotations: cannot be read"):
        first(Corpus(tree))


def test_a_speaker_without_a_channel_is_named(tree, edit_manifest):
    edit_manifest(tree, lambda lines: lines[0]["audio_noisy"].pop("speaker_2") and None)
    with pytest.raises(
        CorpusError, match=r"dev_00001: field 'audio_noisy'.*missing: speaker_2; unknown: none"
    ):
        first(Corpus(tree)).audio("noisy")


def test_a_channel_without_a_speaker_is_named(tree, edit_manifest):
    edit_manifest(tree, lambda lines: lines[0]["audio_clean"].update(speaker_9="dev/x.flac"))
    with pytest.raises(
        CorpusError, match=r"dev_00001: field 'audio_clean'.*missing: none; unknown: speaker_9"
    ):
        first(Corpus(tree)).audio("clean")


def test_anchors_of_an_unknown_speaker_are_named(tree, edit):
    edit(tree, "anchors", lambda file: file["anchors"].update(speaker_9={"EOT": {}}))
    with pytest.raises(
        CorpusError, match=r"anchors/dev_00001\.json: speaker 'speaker_9' is not in the event log"
    ):
        first(Corpus(tree))


def test_a_speaker_with_events_but_no_anchors_is_named(tree, edit):
    edit(tree, "anchors", lambda file: file["anchors"].pop("speaker_2") and None)
    with pytest.raises(
        CorpusError, match=r"anchors/dev_00001\.json: speaker_2: no anchors, but the event log"
    ):
        first(Corpus(tree))


def test_a_speaker_without_events_needs_no_anchors(tree, edit):
    edit(tree, "anchors", lambda f: f["anchors"].pop("speaker_3") and None, conversation_id="dev_00002")
    corpus = Corpus(tree)
    empty = {"positives": [], "negative_spans": [], "excluded_spans": []}
    assert corpus.conversation(corpus.entries("dev")[1]).anchors["speaker_3"] == {"eot": empty, "int": empty}


def test_an_unknown_track_is_named(tree, edit):
    edit(tree, "anchors", lambda file: file["anchors"]["speaker_1"].update(BACKCHANNEL={}))
    with pytest.raises(
        CorpusError, match=r"anchors/dev_00001\.json: speaker_1, track 'BACKCHANNEL': expected one"
    ):
        first(Corpus(tree))


def test_shipped_anchors_go_before_those_of_the_log(tree, edit):
    edit(tree, "anchors", lambda file: file["anchors"]["speaker_1"]["EOT"].update(positives=[3.99]))
    assert first(Corpus(tree)).anchors["speaker_1"]["eot"]["positives"] == [3.99]


def test_speakers_come_in_the_log_s_order_whatever_the_other_files_say(tree, edit, edit_manifest):
    def flip(mapping):
        return dict(reversed(mapping.items()))

    edit(tree, "anchors", lambda file: {"anchors": flip(file["anchors"])})
    edit_manifest(tree, lambda lines: lines[0].update(audio_noisy=flip(lines[0]["audio_noisy"])))
    conversation = first(Corpus(tree))
    assert list(conversation.anchors) == list(conversation.audio("noisy")) == ["speaker_1", "speaker_2"]


def test_a_relative_root_stays_where_it_was_when_the_program_moves(tree, monkeypatch, tmp_path):
    monkeypatch.chdir(tree.parent)
    corpus = Corpus(tree.name)
    monkeypatch.chdir(tmp_path.parent)
    assert len(corpus.entries("dev")) == 2


def test_the_home_folder_may_be_written_as_a_tilde(tree, monkeypatch):
    monkeypatch.setenv("HOME", str(tree.parent))
    assert Corpus(os.path.join("~", tree.name)).splits == ("dev", "test")


@pytest.mark.parametrize("content", ['{"dev": {"ids": ["a"]}}', '{"dev": [1]}', "[]"])
def test_a_split_file_of_another_shape_says_nothing(tree, content):
    (tree / "metadata").mkdir()
    (tree / "metadata" / "split.json").write_text(content)
    assert Corpus(tree).official_ids("dev") is None


def test_conversations_are_read_in_the_manifest_s_order(tree):
    assert [one.conversation_id for one in Corpus(tree).conversations("test")] == ["test_00001", "test_00002"]
