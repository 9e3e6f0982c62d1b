#!/bin/sh
# Makes .venv exactly as uv.lock says. Needs only python3 (3.11 or later) and a package index.
set -eu
cd "$(dirname "$0")/.."

cache="${XDG_CACHE_HOME:-$HOME/.cache}/decisionmodel"
uv_version=0.13.9

say() { printf '%s\n' "$*" >&2; }

command -v python3 >/dev/null || { say "python3 is missing: install Python 3.11 or later and run this again"; exit 1; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    say "$(python3 --version) is too old: Python 3.11 or later is needed"
    exit 1
}

if command -v uv >/dev/null; then
    uv=uv
else
    uv="$cache/uv-$uv_version/bin/uv"
    if [ ! -x "$uv" ]; then
        # Debian splits venv from python3.
        if ! python3 -c 'import ensurepip' 2>/dev/null; then
            say "installing python3-venv"
            apt-get install -y -qq python3-venv >/dev/null
        fi
        say "installing uv $uv_version"
        python3 -m venv "$cache/uv-$uv_version"
        "$cache/uv-$uv_version/bin/pip" install --quiet --disable-pip-version-check "uv==$uv_version"
    fi
fi

"$uv" sync --quiet --locked
