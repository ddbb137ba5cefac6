"""Tables by the id of their repository: what is fetched, when, and what is said when that fails."""

import json
from pathlib import Path

import pytest
from loopback_hub import LoopbackHub

from mptb_dataset import sample_dir

MPTB, TURN_END = "puneetUMD/MultiPartyTurnBench", "mazesmazes/turn-end-detection"
SAMPLE = Path(sample_dir("mptb"))

DEV = """
import mptb_dataset
table = mptb_dataset.load_dataset("channels", split="dev", decode=False)
answer = list(table)
"""


def needed_by_dev_channels():
    folders = ["annotations/events", "annotations/anchors", "audio/noisy"]
    files = [path for folder in folders for path in (SAMPLE / "dev" / folder).iterdir()]
    names = [path.relative_to(SAMPLE).as_posix() for path in files]
    return sorted([*names, "dev/manifest.jsonl", "metadata/split.json"])


def test_a_split_fetches_its_manifest_its_annotations_and_its_noisy_audio_and_nothing_else(
    hub, client, comparable, local_rows
):
    rows = client(DEV)
    assert [comparable(row) for row in rows] == local_rows("channels", "dev")
    fetched = [request.file for request in hub.requests if request.file and request.status == 200]
    assert sorted(fetched) == needed_by_dev_channels()
    others = [request.path for request in hub.requests if request.method != "HEAD" and not request.file]
    sha = hub.repo(MPTB).refs["main"]
    assert others == [f"/api/datasets/{MPTB}/revision/main", f"/api/datasets/{MPTB}/tree/{sha}"]


def test_every_table_from_the_hub_is_the_local_one(hub, client, comparable, local_rows):
    tables = [
        ("conversations", "test"),
        ("decision_points", "test"),
        ("observations", "train"),
        ("endpoints", "test"),
    ]
    found = client(
        f"""
        from mptb_dataset import load_dataset
        answer = [list(load_dataset(name, split=split, decode=False)) for name, split in {tables}]
        """
    )
    for (name, split), rows in zip(tables, found, strict=True):
        assert [comparable(row) for row in rows] == local_rows(name, split)


def test_without_audio_columns_no_sound_is_fetched(hub, client):
    client(
        """
        from mptb_dataset import load_dataset
        load_dataset("channels", split="dev", audio="none")
        load_dataset("channels", split="dev", columns=["eot", "int"])
        load_dataset("conversations", split="dev", audio="both", columns=["events"])
        answer = 0
        """
    )
    assert not [name for name in hub.downloads() if name.endswith(".flac")]


def test_a_tree_of_many_pages_is_read_to_its_end(client_of):
    with LoopbackHub(page_size=7) as hub:
        hub.add(MPTB, SAMPLE)
        client_of(hub)(DEV)
        assert hub.downloads() == needed_by_dev_channels()


def test_turns_of_a_split_fetch_only_its_shards(hub, client, comparable, local_rows):
    rows = client(
        """
        import mptb_dataset
        answer = list(mptb_dataset.load_dataset("turns", split="validation", decode=False))
        """
    )
    assert [comparable(row) for row in rows] == local_rows("turns", "validation")
    assert hub.downloads() == ["turns/turns-validation-00000-of-00001.parquet"]


NO_AUDIO = """
import mptb_dataset
answer = len(mptb_dataset.load_dataset("turns", split="validation", audio="none"))
"""


def test_turns_without_audio_fetch_byte_ranges_of_the_other_columns_only(empty_hub, client, big_turns):
    empty_hub.add(TURN_END, big_turns)
    assert client(NO_AUDIO) == 80
    shard = [request for request in empty_hub.requests if (request.file or "").endswith(".parquet")]
    assert all(request.range for request in shard)
    # The audio makes up 4,000,000 bytes; pyarrow reads the file's last 64 KiB to find the footer.
    assert sum(request.sent for request in shard) < 400_000


def changed_sample():
    """The sample's files with another domain in one event log."""
    files = {p.relative_to(SAMPLE).as_posix(): p for p in SAMPLE.rglob("*") if p.is_file()}
    name = "dev/annotations/events/dev_00001.json"
    log = json.loads(files[name].read_bytes())
    log["metadata"]["domain"] = "changed"
    return {**files, name: json.dumps(log)}


DOMAINS = """
import mptb_dataset

def domains(**options):
    return sorted(set(mptb_dataset.load_dataset("channels", split="dev", audio="none", **options)["domain"]))

"""


def test_a_revision_is_honoured(hub, client, local_rows):
    first = hub.repo(MPTB).refs["main"]
    hub.add(MPTB, changed_sample())
    before, now = client(DOMAINS + f"answer = [domains(revision={first!r}), domains()]")
    assert before == sorted({row["domain"] for row in local_rows("channels", "dev", audio="none")})
    assert "changed" in now


def test_an_hf_address_names_repository_revision_and_folder(empty_hub, client):
    files = {f"corpora/mptb/{name}": content for name, content in changed_sample().items()}
    empty_hub.add("org/copy", {"README.md": "nothing yet"})
    empty_hub.add("org/copy", files, ref="v2")
    empty_hub.add("org/copy", files, ref="refs/pr/3")
    found = client(
        DOMAINS
        + """
answer = [
    domains(data_dir="hf://datasets/org/copy@v2/corpora/mptb"),
    domains(data_dir="hf://datasets/org/copy@refs/pr/3/corpora/mptb"),
    domains(data_dir="hf://datasets/org/copy@refs%2Fpr%2F3/corpora/mptb/"),
    domains(data_dir="hf://datasets/org/copy/corpora/mptb", revision="v2"),
]
"""
    )
    assert all("changed" in names for names in found)
    assert all(name.startswith("corpora/mptb/") for name in empty_hub.downloads())


@pytest.fixture(scope="module")
def told(client_of):
    """What is said about calls that cannot work, and the requests that they made."""
    with LoopbackHub() as hub:
        hub.add(MPTB, SAMPLE)
        hub.add("org/private", SAMPLE, private=True)
        client = client_of(hub)
        online = client(
            DOMAINS
            + """
private = "hf://datasets/org/private"
answer = {
    "unknown revision": failure(domains, revision="v9"),
    "no such repository": failure(domains, data_dir="hf://datasets/org/nothing", token="hf_reader"),
    "private": failure(domains, data_dir=private),
    "private stream": failure(domains, data_dir=private, streaming=True),
    "wrong token": failure(domains, token="hf_wrong"),
    "two revisions": failure(domains, data_dir=private + "@v1", revision="v2"),
    "no address": failure(domains, data_dir="hf://models/org/name"),
    "right token": domains(data_dir=private, token="hf_reader"),
}
"""
        )
        fresh = client_of(hub)
        code = DOMAINS + "answer = failure(domains)"
        online["offline"] = fresh(code, HF_HUB_OFFLINE="1")
        online["unreachable"] = fresh(code, HF_ENDPOINT="http://127.0.0.1:9")
        return online


def test_an_unknown_revision_is_said_to_be_unknown(told):
    assert told["unknown revision"] == (
        f"CorpusError: hf://datasets/{MPTB}: no such revision: expected a branch, a tag or a commit of the "
        "repository"
    )


@pytest.mark.parametrize("case", ["no such repository", "private", "private stream"])
def test_a_repository_that_cannot_be_read_says_what_to_pass(told, case):
    assert "none that you may read: pass token=..." in told[case]
    assert told[case].startswith("CorpusError: hf://datasets/org/")


def test_a_private_repository_opens_with_its_token(told):
    assert isinstance(told["right token"], list) and told["right token"]


def test_a_wrong_token_is_said_to_be_refused_and_is_not_shown(told):
    assert "refused the access token (401)" in told["wrong token"]
    assert "hf_wrong" not in told["wrong token"]


def test_two_revisions_are_one_too_many(told):
    assert told["two revisions"].startswith("ValueError: revision: 'v2', but hf://datasets/org/private@v1")


def test_an_address_of_something_else_is_refused(told):
    assert told["no address"].startswith("CorpusError: hf://models/org/name: expected hf://datasets/")


def test_offline_without_a_first_load_says_so(told):
    assert "HF_HUB_OFFLINE is set, and not all that is asked for was fetched before" in told["offline"]


def test_an_unreachable_hub_is_said_to_be_unreachable(told):
    assert f"CorpusError: hf://datasets/{MPTB}: cannot be reached" in told["unreachable"]


def test_after_a_first_load_tables_and_streams_work_offline(hub, client):
    first = client(DEV)
    hub.requests.clear()
    code = """
    from mptb_dataset import load_dataset
    answer = [
        list(load_dataset("channels", split="dev", decode=False)),
        list(load_dataset("channels", split="dev", decode=False, streaming=True)),
    ]
    """
    assert client(code, HF_HUB_OFFLINE="1") == [first, first]
    assert hub.requests == []


def test_after_a_first_load_turns_without_audio_work_offline(hub, client):
    code = """
    from mptb_dataset import load_dataset
    answer = list(load_dataset("turns", split="validation", audio="none"))
    """
    first = client(code)
    hub.requests.clear()
    assert client(code, HF_HUB_OFFLINE="1") == first
    assert hub.requests == []


def test_a_connection_cut_in_the_middle_of_a_file_is_taken_up_again(hub, client, comparable, local_rows):
    hub.cut("dev_00003_speaker_1.flac")
    rows = client(DEV)
    assert [comparable(row) for row in rows] == local_rows("channels", "dev")
    size = (SAMPLE / "dev/audio/noisy/dev_00003_speaker_1.flac").stat().st_size
    sent = [request.sent for request in hub.requests if "/dev_00003_speaker_1.flac" in request.path]
    assert [n for n in sent if n] == [size // 2, size]


def test_a_busy_hub_is_asked_again(hub, client):
    hub.refuse("/api/datasets/.*/revision/main", status=429, times=2)
    hub.refuse("/resolve/.*/dev/manifest.jsonl", status=429, times=2)
    assert len(client(DEV)) == 6
    assert sum(request.status == 429 for request in hub.requests) == 4


def test_a_missing_channel_file_is_an_error_and_not_a_row_less(empty_hub, client):
    files = changed_sample()
    del files["dev/audio/noisy/dev_00003_speaker_2.flac"]
    empty_hub.add(MPTB, files)
    code = """
    from mptb_dataset import load_dataset
    answer = failure(load_dataset, "channels", split="dev")
    """
    said = client(code)
    assert said.startswith("CorpusError") and "dev_00003_speaker_2.flac" in said


def test_a_local_folder_asks_no_hub(hub, client):
    code = """
    import datasets, mptb_dataset
    folder = mptb_dataset.sample_dir("mptb")
    tables = [
        datasets.load_dataset("mptb", "channels", data_dir=folder, split="dev"),
        mptb_dataset.load_dataset("channels", data_dir=folder, split="dev"),
    ]
    answer = [len(table) for table in tables]
    """
    assert client(code) == [6, 6]
    assert hub.requests == []
