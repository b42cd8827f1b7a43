#!/bin/sh
# Prints the first Python of at least 3.11 that can make a virtual environment, or says once what is missing.
# $PYTHON, when set, is the only one tried.
set -eu

usable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

found=""
for name in ${PYTHON:-python3.11 python3.12 python3.13 python3.14 python3}; do
    if command -v "$name" >/dev/null 2>&1 && usable "$name"; then
        if "$name" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            echo "$name"
            exit 0
        fi
        found="$name"
    fi
done

if [ -n "$found" ]; then
    echo "hostler: $found has no venv module; on Debian and Ubuntu: apt-get install $found-venv" >&2
else
    echo "hostler: no Python 3.11 or newer on the PATH (tried: ${PYTHON:-python3.11 to python3.14, python3})" >&2
fi
exit 1
