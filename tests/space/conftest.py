"""The page as its visitors meet it: served by a process of its own, driven by a real browser.

`@pytest.mark.needs("gradio", "chromium")` skips a test where one of these is missing and says which. Pictures
of what was seen are kept in the folder that MPTB_SCREENSHOTS names, else in pytest's temporary one.
"""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from mptb_metric.space.gold import load_gold

REPO = Path(__file__).parents[2]
FOLDER = REPO / "mptb_metric"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CHROMIUM_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def _is_missing(name):
    if name == "chromium":
        return CHROMIUM is None or importlib.util.find_spec("playwright") is None
    return importlib.util.find_spec(name) is None


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(*names): skip where gradio, chromium or matplotlib is missing")


def pytest_runtest_setup(item):
    for mark in item.iter_markers("needs"):
        missing = [name for name in mark.args if _is_missing(name)]
        if missing:
            pytest.skip(
                f"{', '.join(missing)} missing: pip install '.[space]' playwright; apt-get install chromium"
            )


@pytest.fixture(scope="session")
def gold():
    return load_gold(None)


@pytest.fixture(scope="session")
def submission(gold):
    """Build the content of a submission: each positive found this late, each trap fired at, or not."""

    def build(split="test", *, delay_s=0.4, every_trap=2, drop_every=5, detector="made up"):
        entries, number = [], 0
        for conversation_id, row in gold.splits[split].conversations.items():
            entry = {"conversation_id": conversation_id}
            entry |= {speaker: {"eot": [], "int": []} for speaker in row["speakers"]}
            for anchor in row["anchors"]:
                times = []
                for positive in anchor["positives"]:
                    number += 1
                    times += [round(positive + delay_s, 3)] * (number % drop_every > 0)
                for span in anchor["negative_spans"]:
                    number += 1
                    times += [round(span["start"] + 0.05, 3)] * (number % every_trap == 0)
                entry[anchor["speaker"]][anchor["track"]] = sorted(set(times))
            entries.append(entry)
        return {"schema_version": 1, "detector": detector, "predictions": entries}

    return build


@pytest.fixture
def saved(tmp_path):
    """Write a file, of bytes or of anything that JSON can hold, and give its path as text."""

    def write(content, name="mine.json"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return str(path)

    return write


class _Tables(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tables, self.cell = {}, None

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td", "caption"):
            self.cell = []
        elif tag == "table":
            self.rows = []

    def handle_endtag(self, tag):
        text = "".join(self.cell or [])
        if tag == "caption":
            self.caption = text
        elif tag in ("th", "td"):
            self.rows[-1].append(text)
        elif tag == "table":
            self.tables[self.caption] = self.rows

    def handle_data(self, data):
        if self.cell is not None:
            self.cell.append(data)


@pytest.fixture(scope="session")
def tables_in():
    """Read the tables of a piece of HTML: rows of texts by caption."""

    def read(html):
        parser = _Tables()
        parser.feed(html)
        return parser.tables

    return read


class Served:
    """The page, served on the loopback address by `python app.py`, or by `python` with other arguments."""

    def __init__(self, folder, *arguments):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.uploads = folder / "uploads"
        self._log = (folder / "log").open("w+")
        kept = {name: value for name, value in os.environ.items() if name != "MPTB_ROOT"}
        told = {
            "GRADIO_ANALYTICS_ENABLED": "False",
            "GRADIO_SERVER_NAME": "127.0.0.1",
            "GRADIO_SERVER_PORT": str(port),
            "GRADIO_TEMP_DIR": str(self.uploads),
            "HF_HUB_OFFLINE": "1",
            "NO_PROXY": "127.0.0.1",
        }
        self.process = subprocess.Popen(
            [sys.executable, *(arguments or [str(FOLDER / "app.py")])],
            cwd=folder,
            env={**kept, **told},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def wait(self):
        for _ in range(600):
            if self.process.poll() is not None:
                break
            try:
                urllib.request.urlopen(self.url, timeout=5).close()
            except OSError:
                time.sleep(0.1)
            else:
                return self
        raise RuntimeError(f"the page is not served: {self.log()}")

    def log(self):
        self._log.seek(0)
        return self._log.read()

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        self._log.close()

    def post(self, path, body, **headers):
        """Give the status and the body of an answer."""
        request = urllib.request.Request(f"{self.url}/gradio_api/{path}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()

    def upload(self, *contents, name="mine.json"):
        """Upload files in one request, as the page does."""
        part = f'--B\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'.encode()
        body = b"".join(part + content + b"\r\n" for content in contents) + b"--B--\r\n"
        return self.post("upload", body, **{"Content-Type": "multipart/form-data; boundary=B"})

    def ask(self, path, *, split="test", protocol="mptb"):
        """Ask for an uploaded file's scores; gives the address of the answer."""
        file = {"path": path, "meta": {"_type": "gradio.FileData"}}
        body = json.dumps({"data": [file, None, split, protocol]}).encode()
        status, answer = self.post("call/score", body, **{"Content-Type": "application/json"})
        assert status == 200, answer
        return f"{self.url}/gradio_api/call/score/{json.loads(answer)['event_id']}"

    def answer(self, address):
        """Wait for an answer and read it as strictly as JSON can be read."""

        def refuse(name):
            raise ValueError(f"{name} is not JSON")

        with urllib.request.urlopen(address, timeout=60) as stream:
            lines = stream.read().decode().splitlines()
        assert "event: complete" in lines, lines
        data = lines[lines.index("event: complete") + 1].removeprefix("data: ")
        return json.loads(data, parse_constant=refuse)


@pytest.fixture(scope="session")
def serve():
    """Serve the page for as long as the block lasts."""

    @contextmanager
    def run(folder, *arguments):
        served = Served(folder, *arguments)
        try:
            yield served.wait()
        finally:
            served.stop()

    return run


@pytest.fixture(scope="session")
def served(serve, tmp_path_factory):
    with serve(tmp_path_factory.mktemp("space")) as served:
        yield served


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, served, tmp_path_factory, request):
    """Open the page in a new window; in the end, nothing was fetched from elsewhere and no script failed."""
    folder = Path(os.environ.get("MPTB_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    contexts, elsewhere, failures = [], [], []

    def guard(route):
        if route.request.url.startswith(served.url):
            route.continue_()
        else:
            elsewhere.append(route.request.url)
            route.abort()

    def open_page(**options):
        context = chromium.new_context(**options)
        contexts.append(context)
        context.route(lambda url: url.startswith("http"), guard)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("dialog", lambda dialog: (failures.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(served.url)
        # By the time its parts have names of their own, the page reacts.
        page.get_by_role("button", name="Submission (JSON): Click to upload").wait_for()
        return page

    def shoot(page, name):
        page.screenshot(path=folder / f"{request.node.name}_{name}.png", full_page=True)

    yield SimpleNamespace(open=open_page, shoot=shoot)
    for context in contexts:
        context.close()
    assert elsewhere == [], "the page fetched from elsewhere"
    assert failures == [], "a script failed"
