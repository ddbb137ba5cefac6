"""A small Hugging Face Hub on the loopback address, for tests without a network.

It answers what `huggingface_hub`, `datasets` and `evaluate` ask: repository info, paginated trees, paths-info,
resolve with ETag, redirects to a "CDN" under another host name, range requests, creation of repositories, pre-upload,
large file storage, commits and pull requests. Every request is recorded. It can refuse requests for a while, and cut
a connection in the middle of a file.

Clients read `HF_ENDPOINT` when they are imported, so they run in a process of their own with `hub.environment(...)`.
`python tests/hub/loopback_hub.py org/name=FOLDER ...` serves folders until it is interrupted.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from loopback_repos import LFS_SUFFIXES, Blob, Content, HubFault, Repo, blob, folder_files

READER, WRITER = "hf_reader", "hf_writer"
"""The two tokens that the Hub knows."""

PREFIXES = {"dataset": "datasets/", "space": "spaces/", "model": ""}


@dataclass(frozen=True)
class Seen:
    """A request that was answered; `sent` counts the body's bytes."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    range: str | None
    token: str | None
    status: int
    sent: int

    @property
    def file(self) -> str | None:
        """The path in the repository of a request for a file's content."""
        match = re.search(r"/resolve/[^/]+/(.+)|/cdn/[^/]+/(.+)", self.path)
        return unquote(match[1] or match[2]) if match and self.method == "GET" else None


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
        handler = type("Handler", (_Handler,), {"hub": self})
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
        """Commit a folder's files, or the given ones, and return the commit; a new repository where needed."""
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


class _Handler(BaseHTTPRequestHandler):
    """Answers one request; `hub` is set by the server that owns the class."""

    hub: LoopbackHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def handle_any(self) -> None:
        parts = urlsplit(self.path)
        self.query = parse_qs(parts.query)
        self.raw_path = parts.path
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        bearer = self.headers.get("Authorization")
        self.token = bearer.removeprefix("Bearer ") if bearer else None
        try:
            status = self.hub.refusal(self.raw_path)
            if status is not None:
                raise HubFault(status, "", f"refused with {status}")
            if self.token not in (None, READER, WRITER):
                raise HubFault(401, "", "Invalid credentials in Authorization header")
            for pattern, method in _ROUTES:
                match = pattern.fullmatch(self.raw_path)
                if match:
                    method(self, *(unquote(group or "") for group in match.groups()))
                    return
            raise HubFault(404, "", f"no such route: {self.command} {self.path}")
        except HubFault as fault:
            headers = {"X-Error-Code": fault.code, "X-Error-Message": fault.message}
            if fault.status == 429:
                headers["Retry-After"] = "0"
            self.send_json({"error": fault.message}, status=fault.status, headers=headers)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815

    def send_json(self, content: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.send_body(json.dumps(content).encode(), status=status, headers=headers)

    def send_body(self, body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        cut = self.command == "GET" and len(body) > 1 and self.hub.is_cut(self.raw_path)
        sent = 0 if self.command == "HEAD" else len(body) // 2 if cut else len(body)
        with self.hub.lock:
            self.hub.requests.append(
                Seen(
                    self.command,
                    self.raw_path,
                    self.query,
                    self.headers.get("Range"),
                    self.token,
                    status,
                    sent,
                )
            )
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(body[:sent])
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        if cut:
            self.close_connection = True
            self.connection.shutdown(2)

    def find(self, kind: str, repo_id: str, *, write: bool = False) -> Repo:
        repo = self.hub.repos.get((kind, repo_id))
        if repo is None or (repo.private and self.token is None):
            raise HubFault(404 if self.token else 401, "RepoNotFound", "Repository not found")
        if write and self.token != WRITER:
            raise HubFault(403 if self.token else 401, "", "You don't have the rights to write to this repository")
        return repo

    def repo_info(self, kind: str, repo_id: str, revision: str = "main") -> None:
        self.send_json(self.find(kind, repo_id).info(revision or "main"))

    def tree(self, kind: str, repo_id: str, revision: str, folder: str) -> None:
        recursive = self.query.get("recursive", ["false"])[0].lower() == "true"
        entries = self.find(kind, repo_id).listing(revision, folder, recursive=recursive)
        start = int(self.query.get("cursor", ["0"])[0])
        end = start + self.hub.page_size
        headers = {}
        if end < len(entries):
            flag = "true" if recursive else "false"
            headers["Link"] = f'<{self.hub.url}{self.raw_path}?recursive={flag}&cursor={end}>; rel="next"'
        self.send_json(entries[start:end], headers=headers)

    def paths_info(self, kind: str, repo_id: str, revision: str) -> None:
        if self.headers.get("Content-Type", "").startswith("application/json"):
            paths = json.loads(self.body)["paths"]
        else:
            paths = parse_qs(self.body.decode()).get("paths", [])
        self.send_json(self.find(kind, repo_id).paths_info(revision, paths))

    def resolve(self, prefix: str, repo_id: str, revision: str, path: str) -> None:
        kind = {"datasets/": "dataset", "spaces/": "space"}.get(prefix, "model")
        sha, found = self.find(kind, repo_id).file(revision, path)
        headers = {"X-Repo-Commit": sha, "ETag": f'"{found.etag}"', "Accept-Ranges": "bytes"}
        if not found.is_lfs:
            self.send_range(found.read(), headers)
            return
        headers |= {
            "X-Linked-ETag": f'"{found.etag}"',
            "X-Linked-Size": str(found.size),
            "Location": f"{self.hub.cdn}/{found.sha256}/{quote(path)}",
        }
        self.send_body(b"", status=302, headers=headers)

    def content(self, sha256: str, _path: str) -> None:
        if self.token is not None:
            raise HubFault(400, "", "a token must not leave the Hub")
        found = next(found for found in self.hub.blobs() if found.is_lfs and found.sha256 == sha256)
        self.send_range(found.read(), {"ETag": f'"{sha256}"', "Accept-Ranges": "bytes"})

    def send_range(self, content: bytes, headers: Mapping[str, str]) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if match is None:
            self.send_body(content, headers=headers)
            return
        start, end = int(match[1]), min(int(match[2] or len(content) - 1), len(content) - 1)
        if start >= len(content):
            raise HubFault(416, "", "Requested range not satisfiable")
        span = f"bytes {start}-{end}/{len(content)}"
        self.send_body(content[start : end + 1], status=206, headers={**headers, "Content-Range": span})

    def create(self) -> None:
        asked = json.loads(self.body)
        if self.token != WRITER:
            raise HubFault(403 if self.token else 401, "", "You don't have the rights to create a repository")
        repo_id = "/".join(filter(None, [asked.get("organization") or "writer", asked["name"]]))
        kind = asked.get("type", "model")
        if (kind, repo_id) in self.hub.repos:
            raise HubFault(409, "", "You already created this repo")
        private = asked.get("private") is True or asked.get("visibility") == "private"
        self.hub.add(repo_id, {".gitattributes": "*.parquet filter=lfs\n"}, repo_type=kind, private=private)
        self.send_json({"url": f"{self.hub.url}/{PREFIXES[kind]}{repo_id}"})

    def preupload(self, kind: str, repo_id: str, revision: str) -> None:
        repo = self.find(kind, repo_id, write="create_pr" not in self.query)
        files = repo.trees[repo.resolve(revision)]
        self.send_json(
            {
                "files": [
                    {
                        "path": asked["path"],
                        "uploadMode": "lfs" if asked["path"].endswith(LFS_SUFFIXES) else "regular",
                        "shouldIgnore": False,
                        "oid": files[asked["path"]].etag if asked["path"] in files else None,
                    }
                    for asked in json.loads(self.body)["files"]
                ]
            }
        )

    def commit(self, kind: str, repo_id: str, revision: str) -> None:
        create_pr = "create_pr" in self.query
        if self.token is None:
            raise HubFault(401, "", "Log in to commit")
        repo = self.find(kind, repo_id, write=not create_pr)
        with self.hub.lock:
            made = repo.apply(self.body.splitlines(), revision, create_pr=create_pr)
        page = f"{self.hub.url}/{PREFIXES[kind]}{repo_id}"
        answer = {"success": True, "commitOid": made["commitOid"], "commitUrl": f"{page}/commit/{made['commitOid']}"}
        if create_pr:
            answer["pullRequestUrl"] = f"{page}/discussions/{made['number']}"
        self.send_json(answer)

    def lfs_batch(self, prefix: str, repo_id: str) -> None:
        kind = {"datasets/": "dataset", "spaces/": "space"}.get(prefix, "model")
        repo = self.find(kind, repo_id)
        objects = json.loads(self.body)["objects"]
        for asked in objects:
            if asked["oid"] not in repo.large_files:
                href = f"{self.hub.url}/lfs/{kind}/{repo_id}/{asked['oid']}"
                asked["actions"] = {"upload": {"href": href}}
        self.send_json({"transfer": "basic", "objects": objects})

    def lfs_put(self, kind: str, repo_id: str, oid: str) -> None:
        self.hub.repo(repo_id, kind).large_files[oid] = self.body
        self.send_body(b"")

    def whoami(self) -> None:
        if self.token is None:
            raise HubFault(401, "", "Invalid username or password.")
        self.send_json({"type": "user", "name": self.token.removeprefix("hf_"), "orgs": []})

    def validate_yaml(self) -> None:
        self.send_json({"errors": [], "warnings": []})


def _route(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("{id}", "([^/]+/[^/]+)").replace("{rev}", "([^/]+)"))


def _kinds(pattern: str, method: Any) -> list[tuple[re.Pattern[str], Any]]:
    """A route of the API for each kind of repository."""
    return [
        (
            _route(pattern.replace("{kind}", f"{kind}s")),
            lambda handler, *found, kind=kind: method(handler, kind, *found),
        )
        for kind in PREFIXES
    ]


_ROUTES = [
    (_route("/api/whoami-v2"), _Handler.whoami),
    (_route("/api/validate-yaml"), _Handler.validate_yaml),
    (_route("/api/repos/create"), _Handler.create),
    *_kinds("/api/{kind}/{id}", _Handler.repo_info),
    *_kinds("/api/{kind}/{id}/revision/{rev}", _Handler.repo_info),
    *_kinds("/api/{kind}/{id}/tree/{rev}(?:/(.*))?", _Handler.tree),
    *_kinds("/api/{kind}/{id}/paths-info/{rev}", _Handler.paths_info),
    *_kinds("/api/{kind}/{id}/preupload/{rev}", _Handler.preupload),
    *_kinds("/api/{kind}/{id}/commit/{rev}", _Handler.commit),
    (_route(r"/(datasets/|spaces/)?{id}\.git/info/lfs/objects/batch"), _Handler.lfs_batch),
    (_route("/lfs/([^/]+)/{id}/([^/]+)"), _Handler.lfs_put),
    (_route("/cdn/([^/]+)/(.+)"), _Handler.content),
    (_route("/(datasets/|spaces/)?{id}/resolve/{rev}/(.+)"), _Handler.resolve),
]


if __name__ == "__main__":
    with LoopbackHub() as served:
        for argument in sys.argv[1:]:
            name, _, folder = argument.partition("=")
            served.add(name, Path(folder))
        print(f"HF_ENDPOINT={served.url}", flush=True)
        threading.Event().wait()
