"""The command as a user runs it: its entry point, a folder of its own, no colours."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from mptb_cli.main import main
from mptb_cli.render import console
from mptb_dataset import sample_dir


@pytest.fixture(scope="session")
def sample() -> Path:
    return sample_dir("mptb")


@pytest.fixture
def mptb(tmp_path, monkeypatch, capsys):
    """Run `mptb ...` in a temporary folder through its real entry point; gives exit code and output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(console, "width", 140)

    def run(*arguments: object, env: dict[str, str] | None = None) -> SimpleNamespace:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["mptb", *map(str, arguments)])
            patch.setattr(warnings, "showwarning", warnings.showwarning)
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            capsys.readouterr()
            with pytest.raises(SystemExit) as ended:
                main()
        captured = capsys.readouterr()
        return SimpleNamespace(returncode=ended.value.code, stdout=captured.out, stderr=captured.err)

    return run


@pytest.fixture(scope="session")
def finished_demo(tmp_path_factory) -> Path:
    """The folder of one demo, for all tests that only look at it."""
    folder = tmp_path_factory.mktemp("demo_run")
    done = subprocess.run(
        [sys.executable, "-c", "from mptb_cli.main import main; main()", "demo"],
        cwd=folder,
        env={**os.environ, "COLUMNS": "140", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (folder / "printed.txt").write_text(done.stdout, encoding="utf-8")
    return folder
