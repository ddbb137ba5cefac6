"""What the loopback Hub answers: a handler of HTTP requests and its routes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import yaml
from loopback_repos import LFS_SUFFIXES, HubRefusalError, Repo

if TYPE_CHECKING:
    from loopback_hub import LoopbackHub

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


class HubHandler(BaseHTTPRequestHandler):
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
                raise HubRefusalError(status, "", f"refused with {status}")
            if self.token not in (None, READER, WRITER):
                raise HubRefusalError(401, "", "Invalid credentials in Authorization header")
            for pattern, method in ROUTES:
                match = pattern.fullmatch(self.raw_path)
                if match:
                    method(self, *(unquote(group or "") for group in match.groups()))
                    return
            raise HubRefusalError(404, "", f"no such route: {self.command} {self.path}")
        except HubRefusalError as fault:
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
            raise HubRefusalError(404 if self.token else 401, "RepoNotFound", "Repository not found")
        if write and self.token != WRITER:
            raise HubRefusalError(403 if self.token else 401, "", "You don't have the rights to write here")
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
            raise HubRefusalError(400, "", "a token must not leave the Hub")
        found = next(found for found in self.hub.blobs() if found.is_lfs and found.sha256 == sha256)
        self.send_range(found.read(), {"ETag": f'"{sha256}"', "Accept-Ranges": "bytes"})

    def send_range(self, content: bytes, headers: Mapping[str, str]) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if match is None:
            self.send_body(content, headers=headers)
            return
        start, end = int(match[1]), min(int(match[2] or len(content) - 1), len(content) - 1)
        if start >= len(content):
            raise HubRefusalError(416, "", "Requested range not satisfiable")
        span = f"bytes {start}-{end}/{len(content)}"
        self.send_body(content[start : end + 1], status=206, headers={**headers, "Content-Range": span})

    def create(self) -> None:
        asked = json.loads(self.body)
        if self.token != WRITER:
            raise HubRefusalError(403 if self.token else 401, "", "You don't have the rights to create it")
        repo_id = "/".join(filter(None, [asked.get("organization") or "writer", asked["name"]]))
        kind = asked.get("type", "model")
        answer = {"url": f"{self.hub.url}/{PREFIXES[kind]}{repo_id}"}
        if (kind, repo_id) in self.hub.repos:
            self.send_json({**answer, "error": "You already created this repo"}, status=409)
            return
        private = asked.get("private") is True or asked.get("visibility") == "private"
        self.hub.add(repo_id, {".gitattributes": "*.parquet filter=lfs\n"}, repo_type=kind, private=private)
        self.send_json(answer)

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
            raise HubRefusalError(401, "", "Log in to commit")
        repo = self.find(kind, repo_id, write=not create_pr)
        with self.hub.lock:
            made = repo.apply(self.body.splitlines(), revision, create_pr=create_pr)
        page = f"{self.hub.url}/{PREFIXES[kind]}{repo_id}"
        answer = {
            "success": True,
            "commitOid": made["commitOid"],
            "commitUrl": f"{page}/commit/{made['commitOid']}",
        }
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
            raise HubRefusalError(401, "", "Invalid username or password.")
        self.send_json({"type": "user", "name": self.token.removeprefix("hf_"), "orgs": []})

    def validate_yaml(self) -> None:
        header = re.match(r"---\n(.*?)\n---", json.loads(self.body)["content"], re.S)
        try:
            valid = header is None or isinstance(yaml.safe_load(header[1]), dict)
        except yaml.YAMLError:
            valid = False
        errors = [] if valid else [{"message": "the header is no YAML mapping"}]
        self.send_json({"errors": errors, "warnings": []}, status=200 if valid else 400)


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


ROUTES = [
    (_route("/api/whoami-v2"), HubHandler.whoami),
    (_route("/api/validate-yaml"), HubHandler.validate_yaml),
    (_route("/api/repos/create"), HubHandler.create),
    *_kinds("/api/{kind}/{id}", HubHandler.repo_info),
    *_kinds("/api/{kind}/{id}/revision/{rev}", HubHandler.repo_info),
    *_kinds("/api/{kind}/{id}/tree/{rev}(?:/(.*))?", HubHandler.tree),
    *_kinds("/api/{kind}/{id}/paths-info/{rev}", HubHandler.paths_info),
    *_kinds("/api/{kind}/{id}/preupload/{rev}", HubHandler.preupload),
    *_kinds("/api/{kind}/{id}/commit/{rev}", HubHandler.commit),
    (_route(r"/(datasets/|spaces/)?{id}\.git/info/lfs/objects/batch"), HubHandler.lfs_batch),
    (_route("/lfs/([^/]+)/{id}/([^/]+)"), HubHandler.lfs_put),
    (_route("/cdn/([^/]+)/(.+)"), HubHandler.content),
    (_route("/(datasets/|spaces/)?{id}/resolve/{rev}/(.+)"), HubHandler.resolve),
]
