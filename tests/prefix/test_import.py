"""The package's public names come at their first use, and nothing heavy before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import turn_end_prefix

HEAVY = ("torch", "torchcodec", "datasets", "evaluate", "soundfile", "soxr", "pyarrow", "fsspec")


def run(script: str) -> None:
    subprocess.run([sys.executable, "-c", script], check=True)


def test_importing_the_package_and_its_names_loads_nothing_heavy():
    run(
        "import sys, turn_end_prefix\n"
        "for name in turn_end_prefix.__all__: getattr(turn_end_prefix, name)\n"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "assert not loaded, loaded\n"
    )


def test_reading_a_prefix_loads_soundfile_alone(tmp_path, encode, noise):
    (tmp_path / "a.flac").write_bytes(encode(noise(1600), 16000))
    run(
        "import sys, turn_end_prefix\n"
        f"assert len(turn_end_prefix.read_prefix({str(tmp_path / 'a.flac')!r}, 0.05)[0]) == 800\n"
        "assert not {'torch', 'torchcodec', 'datasets', 'soxr', 'pyarrow'} & set(sys.modules)\n"
    )


@pytest.mark.parametrize(
    "first", ["turn_end_prefix.replay", "turn_end_prefix.causality", "turn_end_prefix.transform"]
)
def test_replay_is_the_function_whatever_is_imported_first(first):
    run(f"import {first}, turn_end_prefix\nassert callable(turn_end_prefix.replay)\n")


def test_every_public_name_is_there_and_listed():
    assert set(turn_end_prefix.__all__) <= set(dir(turn_end_prefix))
    for name in turn_end_prefix.__all__:
        assert callable(getattr(turn_end_prefix, name))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'prefix_of'"):
        _ = turn_end_prefix.prefix_of
