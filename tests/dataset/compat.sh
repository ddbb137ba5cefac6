#!/bin/sh
# The tests of loading on the oldest release of `datasets` that setup.cfg allows, in an environment of its own.
set -eu
cd "$(dirname "$0")/../.."
venv=${1:-.venv/oldest}
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install -q "datasets==4.0.0" -e . pytest hypothesis
exec "$venv/bin/python" -m pytest tests/dataset
