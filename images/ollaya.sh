#!/bin/sh
# -P: what lies in the directory where the program is started must not be imported.
PYTHONPATH=/opt/standin exec python3 -P -m tools.standin.runtime "$@"
