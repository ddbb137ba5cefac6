"""Exports and the metric on a Hub: pushed, read back by their id, by code that knows nothing of us."""

import re
from pathlib import Path

import pytest

import mptb_metric
from mptb_dataset import sample_dir

MPTB = "puneetUMD/MultiPartyTurnBench"

EXPORT = """
from mptb_dataset.export import export, push
export({root!r}, {out!r}, configs={configs!r}, splits={splits!r}, row_group_bytes=1_500_000,
       max_shard_bytes={max_shard_bytes}, overwrite=True)
answer = push({out!r}, "org/mptb-parquet", token={token!r}, create_pr={create_pr})
"""


@pytest.fixture
def push(client, tmp_path):
    def run(**options):
        given = {
            "root": str(sample_dir("mptb")),
            "configs": ["channels"],
            "splits": None,
            "max_shard_bytes": 10**9,
            "token": "hf_writer",
            "create_pr": False,
            **options,
        }
        return client(EXPORT.format(out=str(tmp_path / "out"), **given))

    return run


def test_a_pushed_export_loads_by_its_id_without_this_package(
    empty_hub, client, push, comparable, local_rows
):
    url = push(configs=["channels", "decision_points"])
    assert re.fullmatch(rf"{empty_hub.url}/datasets/org/mptb-parquet/commit/[0-9a-f]{{40}}", url)
    rows = client(
        """
        from datasets import Audio, load_dataset
        table = load_dataset("org/mptb-parquet", "channels", split="test")
        answer = list(table.cast_column("audio", Audio(decode=False)))
        """,
        without_us=True,
    )
    assert [comparable(row) for row in rows] == local_rows("channels", "test")
    assert empty_hub.repo("org/mptb-parquet").file("main", "eval.yaml")


def test_a_pushed_export_replaces_the_shards_of_an_earlier_one(empty_hub, push):
    push(max_shard_bytes=1)
    repo = empty_hub.repo("org/mptb-parquet")
    many = [name for name in repo.trees[repo.refs["main"]] if name.startswith("channels/dev-")]
    push()
    few = [name for name in repo.trees[repo.refs["main"]] if name.startswith("channels/dev-")]
    assert len(many) > 1
    assert few == ["channels/dev-00000-of-00001.parquet"]


def test_an_export_can_be_offered_in_a_pull_request(empty_hub, push):
    before = empty_hub.add("org/mptb-parquet", {"README.md": "theirs"})
    url = push(create_pr=True, splits=["dev"])
    repo = empty_hub.repo("org/mptb-parquet")
    assert url == f"{empty_hub.url}/datasets/org/mptb-parquet/discussions/1"
    assert repo.refs["main"] == before
    assert "channels/dev-00000-of-00001.parquet" in repo.pull_requests[0].added


def test_without_the_right_to_write_nothing_is_pushed(empty_hub, client, tmp_path):
    code = """
    from mptb_dataset.export import export, push
    export({root!r}, {out!r}, configs=["channels"], splits=["dev"], audio="none")
    answer = failure(push, {out!r}, "org/mptb-parquet", token="hf_reader")
    """
    said = client(code.format(root=str(sample_dir("mptb")), out=str(tmp_path / "out")))
    assert said.startswith("HfHubHTTPError") and "403" in said
    assert empty_hub.repos == {}


def test_only_an_export_is_pushed(empty_hub, client, tmp_path):
    (tmp_path / "README.md").write_text("# Holiday pictures\n")
    said = client(
        f"""
        from mptb_dataset.export import push
        answer = failure(push, {str(tmp_path)!r}, "org/pictures", token="hf_writer")
        """
    )
    assert said.startswith("ValueError") and "expected a folder that export() made" in said
    assert empty_hub.requests == []


def test_the_published_corpus_is_exported_from_the_hub(hub, client, tmp_path, comparable, local_rows):
    rows = client(
        f"""
        from mptb_dataset.export import export
        done = export(None, {str(tmp_path / "out")!r}, configs=["channels"], splits=["dev"])
        from datasets import Audio, load_dataset
        table = load_dataset(str(done.folder), "channels", split="dev")
        answer = list(table.cast_column("audio", Audio(decode=False)))
        """
    )
    assert [comparable(row) for row in rows] == local_rows("channels", "dev")
    assert not [name for name in hub.downloads() if name.startswith("test/")]


def test_turns_without_audio_are_exported_from_the_hub_without_fetching_audio(
    empty_hub, client, tmp_path, big_turns
):
    empty_hub.add("mazesmazes/turn-end-detection", big_turns)
    rows = client(
        f"""
        from mptb_dataset.export import export
        done = export(None, {str(tmp_path / "out")!r}, configs=["turns"], splits=["validation"], audio="none")
        answer = done.rows
        """
    )
    assert rows == {"turns": {"validation": 80}}
    assert sum(request.sent for request in empty_hub.requests) < 400_000


def test_the_metric_loads_from_its_space_and_scores(empty_hub, client):
    empty_hub.add("org/mptb_metric", Path(mptb_metric.__file__).parent, repo_type="space")
    result = client(
        """
        import evaluate
        metric = evaluate.load("org/mptb_metric")
        gold = {"positives": [2.0], "negative_spans": [{"start": 5.0, "end": 6.0}], "excluded_spans": []}
        channel = {"conversation_id": "c", "speaker": "speaker_1"}
        result = metric.compute(
            predictions=[{**channel, "eot": [2.5], "int": [5.5]}],
            references=[{**channel, "eot": gold, "int": gold}],
        )
        counts = ("tp", "fn", "fp", "tn")
        answer = [result[f"{track}_{count}"] for track in ("eot", "int") for count in counts]
        """,
        without_us=True,
    )
    assert result == [1, 0, 0, 1, 0, 1, 1, 0]
