"""Exports: the builder's rows in files that need nothing of this package, whole or not at all."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile
import yaml
from datasets import Audio, ClassLabel, Features, List, Value
from huggingface_hub import DatasetCard

from mptb_dataset import CorpusError, load_dataset, sample_dir
from mptb_dataset.export import export

ROOTS = {"mptb": sample_dir("mptb"), "turn_end": sample_dir("turn_end")}
TABLES = {
    "mptb": ["conversations", "channels", "decision_points"],
    "turn_end": ["observations", "turns", "endpoints"],
}

PLAIN = """
from datasets import Audio, List, get_dataset_config_names, load_dataset

def undecoded(feature):
    if isinstance(feature, Audio):
        return Audio(sampling_rate=feature.sampling_rate, decode=False)
    if isinstance(feature, List) and isinstance(feature.feature, Audio):
        return List(undecoded(feature.feature))
    return feature

def rows(table):
    for name, feature in table.features.items():
        if undecoded(feature) is not feature:
            table = table.cast_column(name, undecoded(feature))
    return list(table)

answer = {}
for config in get_dataset_config_names(FOLDER):
    for streaming in (False, True):
        loaded = load_dataset(FOLDER, config, streaming=streaming)
        answer[config + " streamed" * streaming] = {split: rows(table) for split, table in loaded.items()}
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Both samples, exported with small shards and row groups."""
    out = tmp_path_factory.mktemp("exports")
    return {
        name: export(root, out / name, row_group_bytes=1_500_000, max_shard_bytes=2_500_000)
        for name, root in ROOTS.items()
    }


@pytest.fixture(scope="module")
def plain_rows(exported, client_of):
    """The exports' rows as plain `datasets` gives them, in a process that can import none of our packages."""
    found = {}
    for done in exported.values():
        found |= client_of(None)(f"FOLDER = {str(done.folder)!r}\n" + PLAIN, without_us=True)
    return found


@pytest.mark.parametrize("config", TABLES["mptb"] + TABLES["turn_end"])
@pytest.mark.parametrize("way", ["", " streamed"])
def test_an_export_loads_without_this_package_with_the_rows_of_the_builder(
    plain_rows, comparable, local_rows, config, way
):
    splits = ["dev", "test"] if config in TABLES["mptb"] else ["train", "validation", "test"]
    expected = {split: local_rows(config, split) for split in (["test"] if config == "endpoints" else splits)}
    found = {split: [comparable(row) for row in rows] for split, rows in plain_rows[config + way].items()}
    assert found == expected


def test_exported_audio_is_the_channel_sample_by_sample(exported):
    folder = exported["mptb"].folder / "channels"
    n_compared = 0
    for shard in sorted(folder.iterdir()):
        for audio in pq.read_table(shard, columns=["audio"])["audio"].to_pylist():
            found, _ = soundfile.read(io.BytesIO(audio["bytes"]), dtype="int16")
            split = audio["path"].split("_")[0]
            expected, _ = soundfile.read(
                f"{ROOTS['mptb']}/{split}/audio/noisy/{audio['path']}", dtype="int16"
            )
            assert np.array_equal(found, expected)
            n_compared += 1
    assert n_compared == 16


def test_features_survive_and_labels_get_names(exported):
    def features(name, config):
        shard = next((exported[name].folder / config).iterdir())
        return Features.from_arrow_schema(pq.read_schema(shard))

    assert features("mptb", "channels")["audio"] == Audio(sampling_rate=24_000)
    assert features("mptb", "conversations")["audio_noisy"] == List(Audio(sampling_rate=24_000))
    assert features("turn_end", "turns")["audio"] == Audio(sampling_rate=16_000)
    points = features("mptb", "decision_points")
    assert points["label"] == ClassLabel(names=["hard negative", "positive"])
    assert points["kind"] == points["track"] == Value("string")
    assert features("turn_end", "observations")["label"] == ClassLabel(names=["unfinished", "finished"])


def test_label_minus_one_survives_as_no_label(tmp_path):
    done = export(
        ROOTS["mptb"], tmp_path / "out", configs=["decision_points"], audio="none", include_excluded=True
    )
    table = pq.read_table(done.folder / "decision_points", partitioning=None)
    source = load_dataset(
        "decision_points",
        data_dir=ROOTS["mptb"],
        audio="none",
        include_excluded=True,
        cache_dir=str(tmp_path / "cache"),
    )
    assert sorted(table["label"].to_pylist()) == sorted([*source["dev"]["label"], *source["test"]["label"]])
    assert -1 in table["label"].to_pylist()


def test_shards_and_row_groups_are_bounded(exported):
    for name in exported["mptb"].files + exported["turn_end"].files:
        root = exported["mptb" if name.split("/")[0] in TABLES["mptb"] else "turn_end"].folder
        if not name.endswith(".parquet"):
            continue
        about = pq.read_metadata(root / name)
        assert about.num_row_groups == 1 or (root / name).stat().st_size <= 2_500_000
        for group in range(about.num_row_groups):
            n_bytes = sum(
                len(audio["bytes"] or b"")
                for column in pq.ParquetFile(root / name).read_row_group(group).columns
                for cell in column.to_pylist()
                for audio in (cell if isinstance(cell, list) else [cell])
                if isinstance(audio, dict) and "bytes" in audio
            )
            assert about.row_group(group).num_rows == 1 or n_bytes <= 1_500_000


def test_many_small_shards_stay_below_their_limit(tmp_path):
    done = export(
        ROOTS["turn_end"], tmp_path / "out", configs=["turns"], row_group_bytes=1, max_shard_bytes=200_000
    )
    sizes = {name: (done.folder / name).stat().st_size for name in done.files if name.startswith("turns/")}
    assert len(sizes) > 10
    assert all(
        size <= 200_000 or pq.read_metadata(done.folder / name).num_row_groups == 1
        for name, size in sizes.items()
    )
    assert done.rows == {"turns": {"train": 8, "validation": 8, "test": 16}}


def test_decision_points_store_a_channel_once_per_row_group(tmp_path):
    done = export(ROOTS["mptb"], tmp_path / "out", configs=["decision_points"], splits=["dev"])
    shard = done.folder / "decision_points/dev-00000-of-00001.parquet"
    audio = pq.read_table(shard, columns=["audio"])["audio"].to_pylist()
    once = sum(len(data) for data in {one["bytes"] for one in audio})
    assert sum(len(one["bytes"]) for one in audio) > 2 * once
    assert shard.stat().st_size < 1.1 * once


def test_audio_none_leaves_the_columns_out(tmp_path):
    done = export(ROOTS["mptb"], tmp_path / "out", audio="none")
    for config in TABLES["mptb"]:
        names = pq.read_schema(next((done.folder / config).iterdir())).names
        assert not [name for name in names if name.startswith("audio")]
    assert done.n_bytes < 500_000


def test_the_card_declares_every_config_and_split(exported):
    for name, tables in TABLES.items():
        card = DatasetCard.load(exported[name].folder / "README.md")
        declared = {
            config["config_name"]: {files["split"] for files in config["data_files"]}
            for config in card.data.configs
        }
        assert declared == {config: set(exported[name].rows[config]) for config in tables}


def test_a_benchmark_has_its_two_tasks_on_the_test_split(exported):
    content = yaml.safe_load((exported["mptb"].folder / "eval.yaml").read_text())
    assert {"name", "description", "evaluation_framework", "tasks"} == set(content)
    assert content["tasks"] == [
        {"id": "eot", "config": "channels", "split": "test"},
        {"id": "int", "config": "channels", "split": "test"},
    ]
    assert "eval.yaml" not in exported["turn_end"].files


def test_without_the_test_split_there_is_no_benchmark(tmp_path):
    done = export(ROOTS["mptb"], tmp_path / "out", configs=["channels"], splits=["dev"], audio="none")
    assert "eval.yaml" not in done.files
    assert done.rows == {"channels": {"dev": 6}}


def test_the_same_corpus_gives_the_same_bytes(tmp_path, exported):
    again = export(ROOTS["mptb"], tmp_path / "out", row_group_bytes=1_500_000, max_shard_bytes=2_500_000)
    assert again.files == exported["mptb"].files
    for name in again.files:
        assert (again.folder / name).read_bytes() == (exported["mptb"].folder / name).read_bytes()


def test_progress_counts_the_rows_of_every_split(tmp_path):
    seen = []
    done = export(
        ROOTS["mptb"],
        tmp_path / "out",
        configs=["channels"],
        row_group_bytes=1_500_000,
        progress=lambda *step: seen.append(step),
    )
    last = {(config, split): n for config, split, n in seen}
    assert last == {("channels", split): n for split, n in done.rows["channels"].items()}
    assert len(seen) > 2


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_an_export_that_stops_half_way_leaves_nothing_behind(tmp_path, stop):
    def interrupt(config, split, n_rows):
        if config == "channels":
            raise stop

    with pytest.raises(stop):
        export(ROOTS["mptb"], tmp_path / "out", progress=interrupt)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import sys, time
from mptb_dataset.export import export
export({root!r}, {out!r}, progress=lambda *step: (print(*step, flush=True), time.sleep(60)))
"""


@pytest.fixture
def stuck_export(tmp_path):
    """An export in another process that has written a row group and goes no further."""
    code = KILLED.format(root=str(ROOTS["mptb"]), out=str(tmp_path / "out"))
    repo = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env={**os.environ, "HF_HOME": str(tmp_path / "home"), "PYTHONPATH": str(repo)},
    )
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()


def test_a_killed_export_leaves_no_folder_and_the_next_one_clears_up(tmp_path, stuck_export):
    stuck_export.send_signal(signal.SIGKILL)
    stuck_export.wait()
    assert not (tmp_path / "out").exists()
    export(ROOTS["mptb"], tmp_path / "out", configs=["channels"], splits=["dev"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "out"]


def test_two_exports_do_not_write_the_same_folder(tmp_path, stuck_export):
    with pytest.raises(RuntimeError, match="another process is writing it"):
        export(ROOTS["mptb"], tmp_path / "out")
    assert stuck_export.poll() is None


def test_a_folder_that_is_there_is_not_replaced_unasked(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    with pytest.raises(FileExistsError, match="is there already"):
        export(ROOTS["mptb"], tmp_path / "out")


def test_overwrite_replaces_an_earlier_export_only(tmp_path):
    export(ROOTS["mptb"], tmp_path / "out", configs=["conversations"], splits=["dev"], audio="none")
    export(
        ROOTS["mptb"],
        tmp_path / "out",
        configs=["channels"],
        splits=["dev"],
        audio="none",
        overwrite=True,
    )
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "LICENSE.md",
        "README.md",
        "channels",
    ]
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    with pytest.raises(FileExistsError, match="no earlier export"):
        export(ROOTS["mptb"], tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "thesis.tex").exists()


def test_a_corpus_is_never_replaced(tmp_path):
    root = tmp_path / "corpus"
    for path in Path(ROOTS["turn_end"]).rglob("*"):
        target = root / path.relative_to(ROOTS["turn_end"])
        target.mkdir(parents=True, exist_ok=True) if path.is_dir() else target.write_bytes(path.read_bytes())
    with pytest.raises(FileExistsError, match="no earlier export"):
        export(root, root, overwrite=True)


def test_an_empty_folder_may_be_filled(tmp_path):
    (tmp_path / "out").mkdir()
    assert export(ROOTS["turn_end"], tmp_path / "out", configs=["endpoints"]).rows == {
        "endpoints": {"test": 96}
    }


@pytest.fixture
def observations(tmp_path):
    """A corpus of observations with the given labels, for each split."""

    def make(**labels_by_split):
        source = pq.read_table(f"{ROOTS['turn_end']}/observations/observations-test-00000-of-00001.parquet")
        (tmp_path / "corpus/observations").mkdir(parents=True)
        for split, labels in labels_by_split.items():
            rows = [{**source.slice(0, 1).to_pylist()[0], "label": label} for label in labels]
            path = tmp_path / f"corpus/observations/observations-{split}-00000-of-00001.parquet"
            pq.write_table(source.from_pylist(rows, schema=source.schema), path)
        return tmp_path / "corpus"

    return make


def test_a_label_that_is_none_is_refused(tmp_path, observations):
    with pytest.raises(CorpusError, match=r"observations test: field 'label': 7: expected 1, 0 or -1"):
        export(observations(test=[1, 7]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_split_without_rows_is_left_out_as_datasets_cannot_read_one(tmp_path, observations):
    done = export(observations(train=[1, 0], test=[]), tmp_path / "out")
    assert done.rows == {"observations": {"train": 2}}
    assert done.files == ("README.md", "observations/train-00000-of-00001.parquet")
    assert "test" not in (done.folder / "README.md").read_text().split("# turn-end")[0]


def test_a_table_without_rows_is_refused(tmp_path, observations):
    with pytest.raises(CorpusError, match="observations: no rows in test"):
        export(observations(test=[]), tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"configs": ["channels", "turns"]}, ValueError, "belong to two corpora"),
        ({"configs": ["chanels"]}, ValueError, "chanels"),
        ({"configs": "channels"}, ValueError, "expected a list"),
        ({"configs": []}, ValueError, "expected some of"),
        ({"splits": ["train"]}, CorpusError, "train"),
        ({"max_shard_bytes": 0}, ValueError, "expected > 0"),
        ({"row_group_bytes": -1}, ValueError, "expected > 0"),
        ({"audio": "loud"}, ValueError, "loud"),
    ],
)
def test_options_that_mean_nothing_are_refused_before_anything_is_written(tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        export(ROOTS["mptb"], tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []


def test_tables_of_an_hf_address_have_to_be_named(tmp_path):
    with pytest.raises(ValueError, match="name the tables of hf://datasets/org/name"):
        export("hf://datasets/org/name", tmp_path / "out")


def test_a_missing_sound_file_is_named(tmp_path):
    root = tmp_path / "corpus"
    for path in Path(ROOTS["mptb"]).rglob("*"):
        target = root / path.relative_to(ROOTS["mptb"])
        target.mkdir(parents=True, exist_ok=True) if path.is_dir() else target.write_bytes(path.read_bytes())
    (root / "dev/audio/noisy/dev_00003_speaker_2.flac").unlink()
    with pytest.raises(CorpusError, match=r"dev_00003_speaker_2\.flac"):
        export(root, tmp_path / "out", configs=["channels"])
    assert not (tmp_path / "out").exists()
