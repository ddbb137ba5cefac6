"""`load_dataset`: what is asked for is what is read, and what comes back."""

import os
import shutil
import warnings

import datasets
import numpy as np
import pytest
import soundfile

import mptb_dataset
from mptb_dataset import CorpusError

MPTB_TABLES = ("conversations", "channels", "decision_points")


@pytest.mark.parametrize("name", MPTB_TABLES)
def test_a_split_is_loaded_where_the_other_one_is_not_on_disk(load, tree, name):
    shutil.rmtree(tree / "test")
    table = load(name, data_dir=tree, split="dev")
    assert set(table["conversation_id"]) == {"dev_00001", "dev_00002"}


@pytest.mark.parametrize("name", MPTB_TABLES)
def test_a_split_is_loaded_where_the_other_one_cannot_be_read(load, tree, name):
    for path in (tree / "test").rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    table = load(name, data_dir=tree, split="dev")
    assert set(table["conversation_id"]) == {"dev_00001", "dev_00002"}


def test_no_split_gives_all_that_are_there(load, tree):
    assert {split: len(table) for split, table in load("channels", data_dir=tree).items()} == {
        "dev": 5,
        "test": 4,
    }
    shutil.rmtree(tree / "dev")
    assert {split: len(table) for split, table in load("channels", data_dir=tree).items()} == {"test": 4}


@pytest.mark.parametrize(
    ("split", "ids"),
    [
        ("dev[:1]", ["dev_00001"]),
        ("dev[1:]", ["dev_00002"]),
        ("dev[50%:]", ["dev_00002"]),
        ("dev+test", ["dev_00001", "dev_00002", "test_00001", "test_00002"]),
        ("test[:1]+dev[:1]", ["test_00001", "dev_00001"]),
        ("all", ["dev_00001", "dev_00002", "test_00001", "test_00002"]),
        (datasets.ReadInstruction("dev", from_=1, unit="abs"), ["dev_00002"]),
        (datasets.NamedSplit("test"), ["test_00001", "test_00002"]),
    ],
)
def test_a_split_is_written_as_in_datasets(load, tree, split, ids):
    assert load("conversations", data_dir=tree, split=split)["conversation_id"][:] == ids


def test_a_list_of_splits_gives_a_list_of_tables(load, tree):
    one, two = load("channels", data_dir=tree, split=["dev", "test[:1]"])
    assert (len(one), len(two)) == (5, 1)


def test_a_dev_slice_does_not_need_test(load, tree):
    shutil.rmtree(tree / "test")
    assert len(load("conversations", data_dir=tree, split="dev[:1]")) == 1


@pytest.mark.parametrize("split", ["train", "dev+train", ["dev", "valid"]])
def test_a_split_that_the_corpus_does_not_know_is_named(load, tree, split):
    with pytest.raises(CorpusError, match=r"no split '(train|valid)' of channels: expected one of dev, test"):
        load("channels", data_dir=tree, split=split)


def test_a_split_that_is_not_on_disk_is_named(load, tree):
    shutil.rmtree(tree / "test")
    with pytest.raises(CorpusError, match=r"no split 'test' of channels: expected one of dev"):
        load("channels", data_dir=tree, split="test")


@pytest.mark.parametrize(
    ("audio", "columns"),
    [
        ("noisy", {"audio": "noisy"}),
        ("clean", {"audio_clean": "clean"}),
        ("both", {"audio": "noisy", "audio_clean": "clean"}),
        ("none", {}),
    ],
)
@pytest.mark.parametrize("name", ["channels", "decision_points"])
def test_a_row_refers_to_the_channels_of_the_scenes_that_were_asked_for(load, tree, name, audio, columns):
    table = load(name, data_dir=tree, split="dev", audio=audio)
    assert {c for c in table.column_names if c.startswith("audio")} == set(columns)
    for row in table:
        for column, scene in columns.items():
            path = tree / "dev" / "audio" / scene / f"{row['conversation_id']}_{row['speaker']}.flac"
            assert row[column] == {"bytes": None, "path": str(path)}


@pytest.mark.parametrize(
    ("audio", "scenes"), [("noisy", ["noisy"]), ("both", ["noisy", "clean"]), ("none", [])]
)
def test_a_conversation_lists_its_channels_in_the_order_of_its_speakers(load, tree, audio, scenes):
    table = load("conversations", data_dir=tree, split="dev", audio=audio)
    assert {c for c in table.column_names if c.startswith("audio")} == {f"audio_{s}" for s in scenes}
    for row in table:
        for scene in scenes:
            folder = tree / "dev" / "audio" / scene
            paths = [str(folder / f"{row['conversation_id']}_{speaker}.flac") for speaker in row["speakers"]]
            assert [audio["path"] for audio in row[f"audio_{scene}"]] == paths


def test_annotations_alone_need_no_audio_on_disk(load, tree):
    shutil.rmtree(tree / "dev" / "audio")
    assert len(load("channels", data_dir=tree, split="dev", audio="none")) == 5


def test_columns_without_audio_need_no_audio_on_disk(load, tree):
    shutil.rmtree(tree / "dev" / "audio")
    table = load("decision_points", data_dir=tree, split="dev", columns=["key", "label", "at_s"])
    assert set(table.column_names) == {"key", "label", "at_s"}


@pytest.mark.parametrize("name", MPTB_TABLES)
def test_columns_keep_their_values_when_others_are_left_out(load, tree, name):
    everything = load(name, data_dir=tree, split="dev")
    for column in everything.column_names:
        some = load(name, data_dir=tree, split="dev", columns=[column])
        assert some.column_names == [column]
        assert some[column][:] == everything[column][:]


@pytest.mark.parametrize("scene", ["noisy", "clean"])
def test_a_missing_channel_is_an_error_not_a_conversation_with_fewer_speakers(load, tree, scene):
    (tree / f"dev/audio/{scene}/dev_00002_speaker_3.flac").unlink()
    message = (
        rf"dev_00002: field 'audio_{scene}\.speaker_3': dev/audio/{scene}/dev_00002_speaker_3\.flac: No such"
    )
    with pytest.raises(CorpusError, match=message):
        load("channels", data_dir=tree, split="dev", audio=scene)


def test_an_empty_channel_is_named(load, tree):
    (tree / "dev/audio/noisy/dev_00001_speaker_1.flac").write_bytes(b"")
    with pytest.raises(
        CorpusError, match=r"'audio_noisy\.speaker_1': .*dev_00001_speaker_1\.flac: the file is empty"
    ):
        load("channels", data_dir=tree, split="dev")


@pytest.mark.parametrize("name", MPTB_TABLES)
def test_a_fault_of_the_corpus_arrives_as_it_is(load, tree, edit, name):
    edit(tree, "events", lambda log: log["events"][0].update(label="SPEECH"))
    with pytest.raises(
        CorpusError, match=r"events/dev_00001\.json: events\[0\] \(id 'e0'\): field 'label': 'SPEECH'"
    ):
        load(name, data_dir=tree, split="dev")


def test_a_fault_of_the_corpus_arrives_as_it_is_from_several_processes(load, tree, edit):
    edit(tree, "events", lambda log: log["events"][0].update(offset=0.1), conversation_id="dev_00002")
    with pytest.raises(CorpusError, match=r"events/dev_00002\.json: .*field 'offset': ends at 0\.1 s"):
        load("channels", data_dir=tree, split="dev", num_proc=2)


def test_a_value_of_the_wrong_type_names_the_file_and_the_column(load, tree, edit):
    edit(tree, "events", lambda log: log["events"][1].update(sublabel=5), conversation_id="dev_00002")
    with pytest.raises(CorpusError, match=r"events/dev_00002\.json: field 'events': .*int"):
        load("conversations", data_dir=tree, split="dev")


def test_free_form_parts_of_other_shapes_are_kept_as_json(load, tree, edit):
    edit(tree, "events", lambda log: log["metadata"].update(domain={"name": "x"}, voices=["v"], tone=3))
    edit(
        tree, "script", lambda s: s["utterances"][0].update(timing_hint={"gap_s": 0.2}, target=["speaker_2"])
    )
    edit(tree, "render", lambda r: r["clips"][0].update(overlaps=1))
    row = load("conversations", data_dir=tree, split="dev")[0]
    assert (row["domain"], row["tone"], row["voices"][0]["voice"]) == ('{"name":"x"}', "3", None)
    assert row["utterances"][0]["timing_hint"] == '{"gap_s":0.2}'
    assert row["utterances"][0]["target"] == '["speaker_2"]'
    assert row["utterances"][0]["overlaps"] is True


def test_metadata_that_is_nested_too_deeply_is_named(load, tree, edit):
    deep = []
    for _ in range(900):
        deep = [deep]
    edit(tree, "events", lambda log: log["metadata"].update(noise_profile=deep))
    with pytest.raises(
        CorpusError, match=r"events/dev_00001\.json: a free-form part cannot be written as JSON"
    ):
        load("conversations", data_dir=tree, split="dev")


def test_several_processes_build_the_same_rows_in_the_same_order_without_a_word(load, many, tmp_path, caplog):
    for name in MPTB_TABLES:
        one = load(name, data_dir=many, split="test")
        two = load(name, data_dir=many, split="test", num_proc=2, cache_dir=str(tmp_path / "two"))
        assert two.to_list() == one.to_list()
    assert "Setting num_proc" not in caplog.text


def test_two_conversations_are_enough_for_two_processes(load, tree, caplog):
    with caplog.at_level("WARNING", logger="datasets"):
        load("channels", data_dir=tree, num_proc=2)
    assert "num_proc" not in caplog.text


def test_a_relative_folder_is_that_of_the_working_folder(load, tree, monkeypatch):
    absolute = load("channels", data_dir=tree, split="dev").to_list()
    monkeypatch.chdir(tree.parent)
    assert load("channels", data_dir="tree", split="dev").to_list() == absolute
    assert load("channels", data_dir=os.path.join(".", "tree", ""), split="dev").to_list() == absolute


def test_two_copies_under_one_relative_name_do_not_share_rows(tree, tmp_path, monkeypatch):
    for folder in ("one", "two"):
        shutil.copytree(tree, tmp_path / folder / "tree", copy_function=shutil.copy2)
        monkeypatch.chdir(tmp_path / folder)
        table = datasets.load_dataset(
            "mptb", "channels", data_dir="tree", split="dev", cache_dir=str(tmp_path / "cache")
        )
        path = table.cast_column("audio", datasets.Audio(decode=False))[0]["audio"]["path"]
        assert path.startswith(str(tmp_path / folder))


def test_a_folder_may_be_a_path_object_or_start_with_a_tilde(load, tree, monkeypatch):
    monkeypatch.setenv("HOME", str(tree.parent))
    assert load("channels", data_dir=tree).num_rows == load("channels", data_dir="~/tree").num_rows


def test_a_folder_that_does_not_exist_is_named(load, tmp_path):
    with pytest.raises(CorpusError, match=r"nowhere: no such folder"):
        load("channels", data_dir=tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("preview", {}, r"unknown table 'preview': expected one of conversations, channels"),
        ("channels", {"audio": "mix"}, r"audio: 'mix': expected one of noisy, clean, both, none"),
        ("channels", {"columns": "key"}, r"columns: 'key': expected a list of column names"),
        ("channels", {"columns": []}, r"columns: \[\]: expected a list of column names"),
        ("channels", {"columns": ["key"]}, r"columns: 'key': expected some of conversation_id"),
        ("channels", {"columns": ["audio"], "audio": "none"}, r"columns: 'audio': expected some of"),
        ("channels", {"revision": "main"}, r"revision: 'main' means nothing for the local folder"),
        ("channels", {"streaming": True, "num_proc": 2}, r"num_proc does not go with streaming"),
    ],
)
def test_an_option_that_means_nothing_is_refused(load, tree, name, options, message):
    with pytest.raises(ValueError, match=message):
        load(name, data_dir=tree, **options)


def test_a_misspelt_option_is_refused(tree):
    with pytest.raises(TypeError, match="speakers"):
        mptb_dataset.load_dataset("channels", data_dir=tree, speakers=["a"])


def test_fewer_conversations_than_the_official_split_load_with_a_warning(load, tree):
    (tree / "metadata").mkdir()
    (tree / "metadata" / "split.json").write_text(
        '{"dev": ["dev_00001", "dev_00002", "dev_00003"], "test": []}'
    )
    with pytest.warns(
        UserWarning, match=r"dev has 2 conversations, but metadata/split\.json lists 3: dev_00003 is"
    ):
        assert len(load("conversations", data_dir=tree, split="dev")) == 2


def test_a_whole_split_loads_without_a_warning(load, sample):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(load("conversations", data_dir=sample, split="dev")) == 2


@pytest.mark.parametrize("changes", [{"onset": 0}, {"onset": 0, "offset": 2}])
def test_whole_numbers_and_fractions_may_be_mixed_in_one_column(load, tree, edit, changes):
    edit(tree, "events", lambda log: log["events"][0].update(changes))
    event = load("conversations", data_dir=tree, split="dev")[0]["events"][0]
    assert event["onset"] == 0.0
    assert type(event["onset"]) is float


def test_empty_lists_stay_empty_lists_and_unknown_keys_are_ignored(load, tree, edit):
    edit(tree, "events", lambda log: log["events"][0].update(extra={"deep": [1]}))
    row = load("channels", data_dir=tree, split="dev")[1]
    assert row["int"]["positives"] == []
    assert row["eot"]["negative_spans"] == []


def test_datasets_own_call_takes_the_same_options(tree, tmp_path):
    points = datasets.load_dataset(
        "mptb",
        "decision_points",
        data_dir=str(tree),
        split="dev[:1]",
        audio="none",
        delay_s=0.5,
        include_excluded=True,
        columns=["key", "at_s"],
        cache_dir=str(tmp_path / "cache"),
    )
    assert points.to_list() == [{"key": "dev_00001/speaker_1/eot/e0", "at_s": 2.5}]


def test_a_table_can_be_kept_in_memory(load, tree):
    assert load("channels", data_dir=tree, split="dev").cache_files
    assert not load("channels", data_dir=tree, split="dev", keep_in_memory=True).cache_files


def test_a_saved_table_is_loaded_after_the_corpus_is_gone(load, tree, tmp_path):
    load("channels", data_dir=tree, split="dev").save_to_disk(tmp_path / "saved")
    shutil.rmtree(tree)
    table = datasets.load_from_disk(tmp_path / "saved")
    assert table[0]["eot"]["positives"] == [4.0, 8.0]
    assert table[0]["audio"]["path"].endswith("dev_00001_speaker_1.flac")


def test_a_parquet_written_by_the_builder_holds_the_audio_itself(tree, tmp_path):
    builder = mptb_dataset.MPTB(
        config_name="decision_points", data_dir=str(tree), cache_dir=str(tmp_path / "cache")
    )
    builder.download_and_prepare(str(tmp_path / "parquet"), file_format="parquet")
    table = datasets.Dataset.from_parquet(str(tmp_path / "parquet" / "*dev*.parquet"))
    row = table.cast_column("audio", datasets.Audio(decode=False))[0]
    assert row["audio"]["bytes"] == (tree / "dev/audio/noisy/dev_00001_speaker_1.flac").read_bytes()


def test_preparing_many_decision_points_as_parquet_embeds_few_channels_at_once(tree, tmp_path, monkeypatch):
    """2,000 rows of one conversation may refer to gigabytes of audio: tables stay small enough to embed."""
    builder = mptb_dataset.MPTB(
        config_name="decision_points", data_dir=str(tree), cache_dir=str(tmp_path / "cache")
    )
    monkeypatch.setattr(builder, "_file_format", "parquet")
    monkeypatch.setattr(type(builder), "DEFAULT_WRITER_BATCH_SIZE", 4)
    (dev, _) = builder._split_generators(None)
    tables = [table for _, table in builder._generate_tables(**dev.gen_kwargs)]
    assert max(len(table) for table in tables) <= 4
    assert sum(len(table) for table in tables) == 14


def test_a_writer_batch_stays_small_where_rows_hold_audio():
    assert mptb_dataset.MPTB.DEFAULT_WRITER_BATCH_SIZE <= 32


def test_speakers_are_never_mixed(load, tree):
    for row in load("channels", data_dir=tree, split="dev"):
        samples, rate = soundfile.read(row["audio"]["path"])
        level = 0.1 * int(row["speaker"][-1])
        assert rate == 24_000
        np.testing.assert_allclose(samples, level, atol=1e-4)


def test_audio_columns_are_at_24_khz(load, tree):
    features = load("conversations", data_dir=tree, split="dev", audio="both", decode=True).features
    assert features["audio_noisy"].feature.sampling_rate == 24_000
    assert features["audio_clean"].feature.decode


def test_torchcodec_decodes_a_channel_to_the_samples_of_its_file(load, sample):
    if not mptb_dataset.loading.torchcodec_works():
        pytest.skip("torchcodec cannot be imported here")
    row = load("channels", data_dir=sample, split="dev", decode=None)[0]
    expected, rate = soundfile.read(sample / "dev/audio/noisy/dev_00001_speaker_1.flac", dtype="float32")
    assert row["audio"]["sampling_rate"] == rate
    np.testing.assert_array_equal(row["audio"]["array"], expected)
