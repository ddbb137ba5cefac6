"""A small Hugging Face Hub on the loopback address, for tests without a network.

It answers what `huggingface_hub`, `datasets` and `evaluate` ask: repository info, paginated trees,
paths-info, resolve with ETag, redirects to a "CDN" under another host name, range requests, creation of
repositories, pre-upload, large file storage, commits and pull requests. Every request is recorded. It can
refuse requests for a while, and cut a connection in the middle of a file.

Clients read `HF_ENDPOINT` when they are imported, so they run in a process of their own, with the variables
of `hub.environment(...)`. `python tests/hub/loopback_hub.py org/name=FOLDER ...` serves folders until it is
interrupted.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from http.server import ThreadingHTTPServer
from pathlib import Path

from loopback_repos import Blob, Content, Repo, blob, folder_files
from loopback_routes import HubHandler, Seen


class LoopbackHub:
    """The server; a context manager.

    Args:
        page_size: entries of a page of a tree, 1000 on the real Hub.
    """

    def __init__(self, *, page_size: int = 1000):
        self.page_size = page_size
        self.repos: dict[tuple[str, str], Repo] = {}
        self.requests: list[Seen] = []
        self.lock = threading.RLock()
        self._refusals: list[tuple[re.Pattern[str], int, Counter[str], int]] = []
        self._cuts: list[re.Pattern[str]] = []
        handler = type("Handler", (HubHandler,), {"hub": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.cdn = f"http://localhost:{self.port}/cdn"

    def __enter__(self) -> LoopbackHub:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def environment(self, home: Path, **more: str) -> dict[str, str]:
        """The variables of a client: this endpoint, caches of its own, nothing of the user's."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_XET": "1",
            "NO_PROXY": "127.0.0.1,localhost",
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            **more,
        }

    def add(
        self,
        repo_id: str,
        files: Path | Mapping[str, Content],
        *,
        repo_type: str = "dataset",
        private: bool = False,
        ref: str = "main",
    ) -> str:
        """Commit files, or all of a folder, and return the commit; make the repository if needed."""
        contents = folder_files(files) if isinstance(files, Path) else files
        with self.lock:
            repo = self.repos.setdefault((repo_type, repo_id), Repo(repo_type, repo_id))
            repo.private = private
            return repo.commit({path: blob(path, content) for path, content in contents.items()}, ref=ref)

    def repo(self, repo_id: str, repo_type: str = "dataset") -> Repo:
        return self.repos[repo_type, repo_id]

    def refuse(self, pattern: str, *, status: int = 429, times: int = 1) -> None:
        """Answer the next `times` requests whose path matches with `status`."""
        self._refusals.append((re.compile(pattern), status, Counter(), times))

    def cut(self, pattern: str) -> None:
        """Cut the connection in the middle of the next body that is sent for a matching path."""
        self._cuts.append(re.compile(pattern))

    def refusal(self, path: str) -> int | None:
        with self.lock:
            for pattern, status, seen, times in self._refusals:
                if pattern.search(path) and seen["refused"] < times:
                    seen["refused"] += 1
                    return status
        return None

    def is_cut(self, path: str) -> bool:
        with self.lock:
            for pattern in self._cuts:
                if pattern.search(path):
                    self._cuts.remove(pattern)
                    return True
        return False

    def downloads(self) -> list[str]:
        """The files whose content was asked for, each once, sorted."""
        return sorted({request.file for request in self.requests if request.file and request.status < 400})

    def blobs(self) -> Iterator[Blob]:
        for repo in self.repos.values():
            for tree in repo.trees.values():
                yield from tree.values()


if __name__ == "__main__":
    with LoopbackHub() as served:
        for argument in sys.argv[1:]:
            name, _, folder = argument.partition("=")
            served.add(name, Path(folder))
        print(f"HF_ENDPOINT={served.url}", flush=True)
        threading.Event().wait()
