#!/bin/sh
# Write constraints.txt from what is installed. The build of torch (CPU or CUDA) is left to the package index.
set -eu
cd "$(dirname "$0")"
../.venv/bin/python -m pip freeze --exclude hmi | sed -E 's/^(torch==[^+]+)\+.*/\1/' | grep -v '^-e ' > constraints.txt
