"""Every snippet of the README runs and prints what the README says."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mptb_dataset import sample_dir

README = Path(__file__).resolve().parent.parent / "README.md"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_python_snippets_print_what_the_readme_says(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the README trains with a DataLoader")
    pytest.importorskip("soxr", reason="the README resamples")
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(README), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert found.attempted > 30
    assert found.failed == 0


def commands():
    """Each command of a console block with the output that follows it."""
    for block in re.findall(r"```console\n(.*?)```", README.read_text(encoding="utf-8"), re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, expected = part.partition("\n")
            yield command, expected


@pytest.mark.slow
def test_commands_print_what_the_readme_says(tmp_path):
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "ROOT": str(sample_dir("mptb")),
        "TURN_END": str(sample_dir("turn_end")),
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }
    ran = 0
    for command, expected in commands():
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        checker = doctest.OutputChecker()
        assert checker.check_output(expected, done.stdout, OPTIONS), f"{command}\n{done.stdout}"
        ran += 1
    assert ran >= 8


def test_the_commands_of_the_first_section_are_targets_of_the_makefile():
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make (\w+)", README.read_text(encoding="utf-8"), re.M)
    assert targets == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M)
