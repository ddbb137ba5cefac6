"""The metric's folder is a whole Space, and what the page needs is not needed by the metric."""

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from huggingface_hub import SpaceCardData

FOLDER = Path(__file__).parents[2] / "mptb_metric"
OURS = {"mptb_metric", "mptb_dataset"}

ALONE = """
import json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in ("mptb_dataset", "mptb_metric", "turn_end_prefix", "mptb_cli"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import app
from mptb_metric.space.gold import load_gold
from mptb_metric.space.scoring import score
one = score(sys.argv[1], load_gold(None).splits["test"], protocol="mptb", name="mine.json")
print(json.dumps([sys.modules["mptb_metric"].__file__, one.result["eot_recall"], type(app.demo).__name__]))
"""


def header():
    return yaml.safe_load(re.match(r"---\n(.*?)\n---\n", (FOLDER / "README.md").read_text(), re.S)[1])


def pins():
    lines = (FOLDER / "requirements.txt").read_text().split()
    return dict(line.split("==") for line in lines)


def imported_roots():
    """What the folder's files import by its full name, wherever in the file."""
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield node.module.split(".")[0]


def test_the_header_is_one_that_the_hub_understands_and_names_files_that_are_there():
    card = SpaceCardData(**header())
    assert card.sdk == "gradio"
    assert (FOLDER / card.app_file).is_file()
    assert card.license == "apache-2.0"


def test_the_gradio_that_the_hub_installs_is_the_one_that_is_pinned():
    assert header()["sdk_version"] == pins()["gradio"]


def test_every_package_that_is_imported_is_pinned():
    roots = set(imported_roots()) - set(sys.stdlib_module_names) - OURS
    # huggingface_hub is held by the pins of datasets and gradio, and must be one that both agree on.
    assert roots - set(pins()) == {"huggingface_hub"}
    assert set(pins()) - roots == set()


def test_the_pinned_numpy_runs_on_the_pinned_python():
    assert tuple(map(int, header()["python_version"].split("."))) >= (3, 11)


@pytest.mark.parametrize("statement", ["import mptb_metric.mptb_metric", "import mptb_metric.scoring"])
def test_the_metric_imports_nothing_of_the_page(statement):
    ask = f"{statement}; import sys; print([m for m in sys.modules if m in ('gradio', 'matplotlib')"
    ask += " or m.startswith('mptb_metric.space')])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.needs("gradio", "matplotlib")
def test_the_folder_works_alone_and_under_another_name(tmp_path, submission, saved):
    folder = tmp_path / "my-space"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ALONE, saved(submission())],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GRADIO_ANALYTICS_ENABLED": "False"},
    )
    assert done.returncode == 0, done.stderr
    file, recall, page = json.loads(done.stdout.splitlines()[-1])
    assert (file, page) == (str(folder / "__init__.py"), "Blocks")
    assert 0 < recall < 1
