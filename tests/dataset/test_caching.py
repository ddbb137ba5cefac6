"""A cached table is used again exactly as long as nothing that it is made from has changed."""

import os
import shutil

import pytest

import mptb_dataset


def arrow_files(tmp_path):
    return sorted((tmp_path / "cache").rglob("*.arrow"))


def positives(load, tree):
    return load("channels", data_dir=tree, split="dev", audio="none")[0]["eot"]["positives"]


def change(file):
    file["anchors"]["speaker_1"]["EOT"]["positives"] = [3.5, 8.0]


def test_an_unchanged_corpus_is_built_once(load, tree, tmp_path):
    positives(load, tree)
    built = {path: path.stat().st_mtime_ns for path in arrow_files(tmp_path)}
    assert positives(load, tree) == [4.0, 8.0]
    assert {path: path.stat().st_mtime_ns for path in arrow_files(tmp_path)} == built


def test_an_edited_annotation_gives_its_new_value(load, tree, edit):
    assert positives(load, tree) == [4.0, 8.0]
    edit(tree, "anchors", change)
    assert positives(load, tree) == [3.5, 8.0]


def test_an_edit_of_the_same_size_with_the_time_put_back_gives_its_new_value(load, tree):
    path = tree / "dev/annotations/anchors/dev_00001.json"
    assert positives(load, tree) == [4.0, 8.0]
    before = path.stat()
    path.write_text(path.read_text().replace("[4.0, 8.0]", "[3.5, 8.0]"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert positives(load, tree) == [3.5, 8.0]


def test_a_script_counts_for_conversations_alone(load, tree, edit, tmp_path):
    load("channels", data_dir=tree, split="dev")
    assert load("conversations", data_dir=tree, split="dev")[0]["utterances"][0]["text"] == "Hello."
    built = arrow_files(tmp_path)
    edit(tree, "script", lambda script: script["utterances"][0].update(text="Good morning."))
    load("channels", data_dir=tree, split="dev")
    assert arrow_files(tmp_path) == built
    assert load("conversations", data_dir=tree, split="dev")[0]["utterances"][0]["text"] == "Good morning."


def test_another_split_does_not_count(load, tree, edit, tmp_path):
    positives(load, tree)
    built = arrow_files(tmp_path)
    edit(tree, "anchors", change, split="test", conversation_id="test_00001")
    positives(load, tree)
    assert arrow_files(tmp_path) == built


def test_a_conversation_more_in_the_manifest_gives_its_rows(load, tree):
    manifest = tree / "dev" / "manifest.jsonl"
    whole = manifest.read_text()
    manifest.write_text(whole.splitlines()[0] + "\n")
    assert len(load("conversations", data_dir=tree, split="dev")) == 1
    manifest.write_text(whole)
    assert len(load("conversations", data_dir=tree, split="dev")) == 2


def test_a_changed_channel_gives_a_new_table_so_that_nothing_derived_from_it_survives(load, tree, make_flac):
    first = load("channels", data_dir=tree, split="dev")
    path = tree / "dev/audio/noisy/dev_00001_speaker_1.flac"
    path.write_bytes(make_flac(level=0.5))
    second = load("channels", data_dir=tree, split="dev")
    assert first._fingerprint != second._fingerprint
    assert second._fingerprint == load("channels", data_dir=tree, split="dev")._fingerprint


def test_a_table_without_audio_does_not_care_for_changed_channels(load, tree, tmp_path, make_flac):
    positives(load, tree)
    built = arrow_files(tmp_path)
    (tree / "dev/audio/noisy/dev_00001_speaker_1.flac").write_bytes(make_flac(level=0.5))
    positives(load, tree)
    assert arrow_files(tmp_path) == built


def test_a_copy_of_the_corpus_has_rows_of_its_own(load, tree, tmp_path):
    load("channels", data_dir=tree, split="dev")
    shutil.copytree(tree, tmp_path / "copy", copy_function=shutil.copy2)
    row = load("channels", data_dir=tmp_path / "copy", split="dev")[0]
    assert row["audio"]["path"].startswith(str(tmp_path / "copy"))


@pytest.mark.parametrize(
    "options", [{"delay_s": 0.2}, {"include_excluded": True}, {"columns": ["key", "at_s"]}, {"audio": "none"}]
)
def test_other_options_give_another_table(load, tree, options):
    plain = load("decision_points", data_dir=tree, split="dev").to_list()
    assert load("decision_points", data_dir=tree, split="dev", **options).to_list() != plain
    assert load("decision_points", data_dir=tree, split="dev").to_list() == plain


def test_a_changed_parser_gives_its_new_rows(run_python, tree, tmp_path):
    """The package is copied and its source edited, as an upgrade would."""
    package = tmp_path / "site" / "mptb_dataset"
    shutil.copytree(
        os.path.dirname(mptb_dataset.__file__),
        package,
        ignore=shutil.ignore_patterns("mini_*", "__pycache__"),
    )
    program = f"""
        import mptb_dataset
        assert mptb_dataset.__file__.startswith({str(package)!r}), mptb_dataset.__file__
        table = mptb_dataset.load_dataset("channels", data_dir={str(tree)!r}, split="dev", audio="none")
        print(table[0]["conversation_id"])
    """
    assert run_python(program, path=[package.parent]).strip() == "dev_00001"
    source = package / "tables.py"
    code = source.read_text()
    line = '"conversation_id": conversation.conversation_id,'
    assert code.count(line) == 1
    source.write_text(code.replace(line, '"conversation_id": "new_" + conversation.conversation_id,'))
    assert run_python(program, path=[package.parent]).strip() == "new_dev_00001"


def test_a_table_can_be_built_anew_on_demand(load, tree, tmp_path):
    positives(load, tree)
    built = {path: path.stat().st_mtime_ns for path in arrow_files(tmp_path)}
    load("channels", data_dir=tree, split="dev", audio="none", download_mode="force_redownload")
    assert {path: path.stat().st_mtime_ns for path in arrow_files(tmp_path)} != built
