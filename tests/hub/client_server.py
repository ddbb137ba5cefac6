"""Starts clients quickly: a process that has imported what takes long forks one child for each piece of code.

Nothing that reads `HF_*` variables is imported here: each child imports `huggingface_hub` and `datasets`.
Jobs come as JSON lines on stdin: `code`, `environment`, `folder`, `stdout`, `stderr`; answers are exit codes.
"""

import importlib
import json
import os
import signal
import sys
import traceback
from contextlib import suppress

SLOW_IMPORTS = (
    "pandas",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "soundfile",
    "fsspec",
    "dill",
    "multiprocess",
    "requests",
    "httpx",
    "httpx2",
    "yaml",
    "asyncio",
    "aiohttp",
)

TIMEOUT_S = 120


def run(job):
    """Run a job in this process, which ends with it."""
    signal.alarm(TIMEOUT_S)
    for number, name in ((0, os.devnull), (1, job["stdout"]), (2, job["stderr"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    sys.path[0] = job["environment"].get("PYTHONPATH") or job["folder"]
    code = 0
    try:
        exec(compile(job["code"], "<client>", "exec"), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    for module in SLOW_IMPORTS:
        with suppress(ImportError):
            importlib.import_module(module)
    assert not {"huggingface_hub", "datasets"} & set(sys.modules)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(json.loads(line))
        print(os.waitpid(child, 0)[1], flush=True)
