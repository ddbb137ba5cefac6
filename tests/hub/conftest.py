"""A Hub on the loopback address, clients of it in processes of their own, and rows that compare."""

import hashlib
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from loopback_hub import LoopbackHub
from loopback_repos import folder_files

from mptb_dataset import load_dataset, sample_dir

REPO = Path(__file__).parents[2]
MPTB, TURN_END = "puneetUMD/MultiPartyTurnBench", "mazesmazes/turn-end-detection"

PRELUDE = """
import hashlib, json, sys

def plain(value):
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    raise TypeError(type(value))

def failure(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

"""

WITHOUT_US = """
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mptb_dataset", "mptb_metric", "mptb_cli", "turn_end_prefix"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
"""


class Client:
    """Runs code in new processes that share one Hugging Face home; the code leaves its result in `answer`."""

    def __init__(self, server, home, environment):
        self.server, self.home, self.environment = server, home, environment
        self.folder = home.parent / "work"
        self.folder.mkdir(exist_ok=True)

    def __call__(self, code, *, without_us=False, **variables):
        code = PRELUDE + (WITHOUT_US if without_us else "") + textwrap.dedent(code)
        out, err = self.folder / "stdout", self.folder / "stderr"
        job = {
            "code": code + "\nprint()\nprint(json.dumps(answer, default=plain))\n",
            "environment": self.environment(
                self.home, **({} if without_us else {"PYTHONPATH": str(REPO)}), **variables
            ),
            "folder": str(self.folder),
            "stdout": str(out),
            "stderr": str(err),
        }
        self.server.stdin.write(json.dumps(job) + "\n")
        self.server.stdin.flush()
        assert self.server.stdout.readline().strip() == "0", err.read_text()
        return json.loads(out.read_text().splitlines()[-1])


@pytest.fixture(scope="session")
def client_server():
    command = [sys.executable, str(Path(__file__).parent / "client_server.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def empty_hub():
    with LoopbackHub() as hub:
        yield hub


UNWANTED = {
    "viewer/index.html": "<html>",
    "viewer/mix/dev_00001.mp3": b"mp3",
    "data/dev.parquet": b"a preview",
    "generation/generation_config.json": "{}",
    "dev/audio/extra.flac": b"not of a scene",
}
"""What the published corpus holds beside the tables' files."""


@pytest.fixture
def hub(empty_hub):
    """The Hub with both corpora's samples under the published names."""
    empty_hub.add(MPTB, {**folder_files(Path(sample_dir("mptb"))), **UNWANTED})
    empty_hub.add(TURN_END, Path(sample_dir("turn_end")))
    return empty_hub


@pytest.fixture
def client(client_server, empty_hub, tmp_path_factory):
    return Client(client_server, tmp_path_factory.mktemp("client") / "home", empty_hub.environment)


@pytest.fixture(scope="module")
def client_of(client_server, tmp_path_factory):
    """A client with a home of its own: of another Hub than the test's, or with `None` of no Hub."""

    def offline(home, **more):
        return {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", **more}

    def make(hub):
        home = tmp_path_factory.mktemp("client") / "home"
        return Client(client_server, home, hub.environment if hub else offline)

    return make


@pytest.fixture
def big_turns(tmp_path):
    """A shard of 4 MB of audio in 8 row groups: much to lose by reading ahead."""
    source = pq.read_table(Path(sample_dir("turn_end")) / "turns/turns-validation-00000-of-00001.parquet")
    noise = np.random.default_rng(0)
    rows = [
        {**row, "turn_key": f"turn-{n}", "audio": {"bytes": noise.bytes(50_000), "path": f"{n}.flac"}}
        for n, row in enumerate(source.to_pylist() * 10)
    ]
    (tmp_path / "corpus" / "turns").mkdir(parents=True)
    path = tmp_path / "corpus" / "turns" / "turns-validation-00000-of-00001.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=source.schema), path, row_group_size=10)
    (tmp_path / "corpus" / "README.md").write_text("# turns\n")
    return tmp_path / "corpus"


@pytest.fixture(scope="session")
def comparable():
    """A row with audio as (file name, SHA-256 of its bytes), so that rows of any origin compare as JSON."""

    def of(value):
        if isinstance(value, dict) and set(value) == {"bytes", "path"}:
            data = Path(value["path"]).read_bytes() if value["bytes"] is None else value["bytes"]
            return [
                Path(value["path"]).name,
                data if isinstance(data, str) else hashlib.sha256(data).hexdigest(),
            ]
        if isinstance(value, dict):
            return {key: of(inner) for key, inner in value.items()}
        return [of(inner) for inner in value] if isinstance(value, list) else value

    return of


@pytest.fixture(scope="session")
def local_rows(comparable, tmp_path_factory):
    """Rows as the builder gives them from the sample on disk."""
    cache = str(tmp_path_factory.mktemp("datasets"))

    def rows(config, split, **options):
        corpus = "mptb" if config in ("conversations", "channels", "decision_points") else "turn_end"
        table = load_dataset(
            config, split=split, data_dir=sample_dir(corpus), decode=False, cache_dir=cache, **options
        )
        return [comparable(row) for row in table]

    return rows
