"""Run a program in a sandbox, for untrusted files (Linux).

    python -S -m hmi_site.embedded.sandbox [--hide FOLDER] [--keep FOLDER] [--write FOLDER] -- PROGRAM

Options can be repeated. The program has no network, sees only its own processes, and nothing below the hidden
folders except those to keep (read-only) and to write. This needs namespaces, which not every machine allows:
the exit code of `--check` tells whether this one does. It uses only the standard library.

The program starts after a first byte of input, so that the caller can set resource limits before.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from hmi_site.embedded.parent_death import die_with_parent, enter_user_namespace, libc_call

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x08000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1, 2, 4, 8, 32, 4096, 16384, 1 << 18,
)  # fmt: skip
SIGNAL_EXIT_CODE = 128
"""Added to the number of a signal that ended the program, as shells do."""


def enter_namespaces(*, hidden: Sequence[Path], kept: Sequence[Path], written: Sequence[Path]) -> None:
    """Move this process and its children to new namespaces. OSError if that is not allowed or a folder cannot
    be read."""
    enter_user_namespace()
    libc_call("unshare", CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET)
    libc_call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    shown = {folder.resolve(strict=True): folder in written for folder in (*kept, *written)}
    if unreachable := [folder for folder in shown if not os.access(folder, os.R_OK | os.X_OK)]:
        raise PermissionError(f"{unreachable[0]} cannot be read in a user namespace")
    handles = {folder: os.open(folder, os.O_PATH | os.O_DIRECTORY) for folder in shown}
    here = Path.cwd()
    os.chdir("/")  # an open folder would give access to its parents
    for covered in sorted({folder.resolve() for folder in hidden if folder.is_dir()}):
        if any(folder == covered for folder in shown) or not covered.is_dir():
            continue
        libc_call(
            "mount", b"tmpfs", os.fsencode(covered), b"tmpfs", MS_NOSUID | MS_NODEV, b"size=1m,mode=755"
        )
        for folder in sorted(shown):
            if folder.is_relative_to(covered):
                _show(folder, handles[folder], writable=shown[folder])
    for handle in handles.values():
        os.close(handle)
    os.chdir(here)


def _show(folder: Path, handle: int, *, writable: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    at = os.fsencode(folder)
    libc_call("mount", f"/proc/self/fd/{handle}".encode(), at, None, MS_BIND | MS_REC, None)
    if not writable:
        flags = os.statvfs(folder).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
        libc_call("mount", None, at, None, MS_BIND | MS_REMOUNT | MS_RDONLY | flags, None)


def hide_processes() -> None:
    """Mount a /proc of the new namespace, or an empty one where that is not allowed, as in some containers.

    Its first process must call this.
    """
    try:
        libc_call("mount", b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None)
    except OSError:
        libc_call("mount", b"tmpfs", b"/proc", b"tmpfs", MS_RDONLY, b"size=4k")


def run(program: Sequence[str]) -> NoReturn:
    """Run the program as the second process of the new namespace, and exit with its code.

    The first process of a namespace ignores signals without a handler.
    """
    first = os.fork()
    if first == 0:
        die_with_parent()
        hide_processes()
        second = os.fork()
        if second == 0:
            os.execvp(program[0], list(program))  # noqa: S606 - the installation's own command
        os._exit(_wait(second))
    code = _wait(first)
    if code > SIGNAL_EXIT_CODE:
        os.kill(os.getpid(), code - SIGNAL_EXIT_CODE)
    sys.exit(code)


def _wait(child: int) -> int:
    """Wait for a child and return its exit code as shells do."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else SIGNAL_EXIT_CODE - code


def main(arguments: Sequence[str]) -> None:
    """Run the program after `--` in a sandbox."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for option in ("--hide", "--keep", "--write"):
        parser.add_argument(option, type=Path, action="append", default=[])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("program", nargs="*")
    options = parser.parse_args(arguments)
    if not options.check:
        os.read(0, 1)
    enter_namespaces(hidden=options.hide, kept=options.keep, written=options.write)
    run([sys.executable, "-S", "-c", ""] if options.check else options.program)


if __name__ == "__main__":
    main(sys.argv[1:])
