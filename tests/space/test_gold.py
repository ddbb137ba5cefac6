"""The gold comes from a folder or a repository, and is the same from each."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mptb_dataset
from mptb_dataset.export import export
from mptb_metric.space.gold import COLUMNS, load_gold

sys.path.insert(0, str(Path(__file__).parents[1] / "hub"))

from loopback_hub import LoopbackHub

MPTB = "puneetUMD/MultiPartyTurnBench"
TELL = """
import json, sys
from mptb_metric.space.gold import load_gold
gold = load_gold(sys.argv[1])
print(json.dumps([gold.source, {name: split.conversations for name, split in gold.splits.items()}]))
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """An export with its audio, which is what must not be fetched."""
    folder = tmp_path_factory.mktemp("export") / "corpus"
    export(mptb_dataset.sample_dir("mptb"), folder, configs=["conversations"])
    return folder


@pytest.fixture
def told_by_hub(tmp_path):
    """Read gold from a Hub in a process of its own, which has no other network."""

    def read(hub, root):
        environment = hub.environment(tmp_path / "home", PYTHONPATH=os.pathsep.join(sys.path))
        done = subprocess.run(
            [sys.executable, "-c", TELL, root], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return read


def test_the_miniature_is_what_the_builder_gives_for_the_embedded_sample(gold, tmp_path):
    root = mptb_dataset.sample_dir("mptb")
    for name, split in gold.splits.items():
        rows = mptb_dataset.load_dataset(
            "conversations", split=name, data_dir=root, audio="none", columns=COLUMNS, cache_dir=str(tmp_path)
        )
        assert list(split.conversations.values()) == rows.to_list()


def test_its_references_are_the_rows_of_the_table_channels(gold, tmp_path):
    root = mptb_dataset.sample_dir("mptb")
    for name, split in gold.splits.items():
        rows = mptb_dataset.load_dataset(
            "channels", split=name, data_dir=root, audio="none", cache_dir=str(tmp_path)
        )
        assert split.references == rows.select_columns(list(split.references[0])).to_list()


def test_a_tree_and_an_export_of_it_give_the_same_gold(gold, exported):
    tree = load_gold(str(mptb_dataset.sample_dir("mptb")))
    assert tree.splits == load_gold(str(exported)).splits == gold.splits


def test_a_tree_of_one_split_is_gold_for_that_split(tmp_path):
    root = mptb_dataset.sample_dir("mptb")
    (tmp_path / "dev").symlink_to(Path(root) / "dev")
    assert list(load_gold(str(tmp_path)).splits) == ["dev"]


def test_a_tree_on_the_hub_is_read_without_its_audio(gold, told_by_hub):
    with LoopbackHub() as hub:
        hub.add(MPTB, Path(mptb_dataset.sample_dir("mptb")))
        source, splits = told_by_hub(hub, MPTB)
        assert source == MPTB
        assert splits == {name: split.conversations for name, split in gold.splits.items()}
        assert not [file for file in hub.downloads() if file.endswith(".flac")]


def test_an_export_on_the_hub_is_read_at_the_revision_that_is_named(gold, exported, told_by_hub):
    with LoopbackHub() as hub:
        commit = hub.add("org/bench", exported)
        hub.add("org/bench", {"README.md": "moved on"})
        source, splits = told_by_hub(hub, f"hf://datasets/org/bench@{commit}")
        assert source == f"org/bench@{commit}"
        assert splits == {name: split.conversations for name, split in gold.splits.items()}


@pytest.mark.parametrize("root", ["/nowhere/at/all", "not a repository", "https://example.org/x"])
def test_what_is_no_corpus_is_refused_by_name(root):
    with pytest.raises(ValueError, match=f"MPTB_ROOT: {root}: no such folder"):
        load_gold(root)


def test_a_folder_of_something_else_is_refused_with_what_is_in_it(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"expected a folder `conversations`.*found notes\.txt"):
        load_gold(str(tmp_path))


def test_a_conversation_without_a_type_is_in_the_group_unknown(gold, tmp_path):
    root = Path(mptb_dataset.sample_dir("mptb"))
    for path in (root / "dev").rglob("*"):
        if path.is_file() and path.suffix != ".flac":
            copy = tmp_path / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    events = tmp_path / "dev/annotations/events/dev_00001.json"
    log = json.loads(events.read_text())
    del log["conversation_type"]
    events.write_text(json.dumps(log))
    split = load_gold(str(tmp_path)).splits["dev"]
    kinds = {row["conversation_id"]: row["conversation_type"] for row in split.references}
    assert kinds == {"dev_00001": "unknown", "dev_00003": "instructional"}
