#!/bin/sh
# Makes .venv exactly as uv.lock says. Needs only python3 (3.11 or later) and a package index.
set -eu
cd "$(dirname "$0")/.."

cache="${XDG_CACHE_HOME:-$HOME/.cache}/decisionmodel"
uv_version=0.13.9

say() { printf '%s\n' "$*" >&2; }

install_venv() {
    by_hand="install the package python3-venv by hand and run this again"
    command -v apt-get >/dev/null || { say "Python's venv is missing and this machine has no apt-get: $by_hand"; exit 1; }
    [ "$(id -u)" -eq 0 ] || { say "Python's venv is missing and only root can install it: $by_hand"; exit 1; }
    say "installing python3-venv"
    # A fresh machine knows no package before the first update.
    { apt_get update && apt_get install python3-venv; } >/dev/null || {
        say "python3-venv could not be installed: $by_hand"
        exit 1
    }
}

apt_get() { DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 "$@"; }

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
        python3 -c 'import ensurepip' 2>/dev/null || install_venv
        say "installing uv $uv_version"
        python3 -m venv "$cache/uv-$uv_version"
        "$cache/uv-$uv_version/bin/pip" install --quiet --disable-pip-version-check "uv==$uv_version"
    fi
fi

"$uv" sync --quiet --locked
