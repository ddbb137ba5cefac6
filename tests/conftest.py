"""Caches in a folder of their own, and no way out of this machine."""

from __future__ import annotations

import os
import socket
import tempfile

import pytest

# Before anything imports datasets or huggingface_hub, which read it once.
os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="mptb_tests_")
os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
for name in ("HF_DATASETS_CACHE", "HF_HUB_CACHE", "HF_MODULES_CACHE", "HF_ENDPOINT", "HF_TOKEN"):
    os.environ.pop(name, None)

_connect = socket.socket.connect


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch):
    """A test that would reach for the network fails and says so."""

    def connect(self, address):
        if isinstance(address, tuple) and str(address[0]) not in ("127.0.0.1", "localhost", "::1"):
            raise AssertionError(f"a test tried to reach {address}")
        return _connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)


def pytest_sessionfinish(session, exitstatus):
    import shutil

    shutil.rmtree(os.environ["HF_HOME"], ignore_errors=True)
