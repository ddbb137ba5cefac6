"""The Space: upload a submission to MultiPartyTurnBench and see how it does. `python app.py` serves it.

MPTB_ROOT in the environment says which gold it scores against, see `space.gold.load_gold`. The folder is a
package of relative imports that may have any name on a Space, so it is made known as what it is first.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

if "mptb_metric" not in sys.modules:
    _here = Path(__file__).resolve().parent
    _spec = importlib.util.spec_from_file_location(
        "mptb_metric", _here / "__init__.py", submodule_search_locations=[str(_here)]
    )
    if _spec is None or _spec.loader is None:
        raise ImportError(f"{_here} is not the metric's folder")
    _package = importlib.util.module_from_spec(_spec)
    sys.modules["mptb_metric"] = _package
    _spec.loader.exec_module(_package)
    sys.path.append(str(_here.parent))  # in a checkout, mptb_dataset lies beside this folder

from mptb_metric.space.gold import ROOT_VARIABLE, load_gold
from mptb_metric.space.uploads import own_folder

uploads = own_folder()

from mptb_metric.space.page import build, launch  # noqa: E402

demo = build(load_gold(os.environ.get(ROOT_VARIABLE)))

if __name__ == "__main__":
    launch(demo, uploads)
