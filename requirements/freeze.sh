#!/bin/sh
# Write constraints.txt from what is installed. The build of torch (CPU or CUDA) is left to the package index. A CUDA
# build requires its own Triton and CUDA libraries, which the versions of this machine must not contradict.
set -eu
cd "$(dirname "$0")"
../.venv/bin/python -m pip freeze --exclude hmi --exclude uv | sed -E 's/^(torch==[^+]+)\+.*/\1/' \
    | grep -v -E '^(-e |triton==|nvidia-|cuda-)' > constraints.txt
