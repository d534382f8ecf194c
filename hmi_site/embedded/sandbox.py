"""Run a program where it reaches little, for files of strangers (Linux).

    python -S -m hmi_site.embedded.sandbox [--hide FOLDER] [--keep FOLDER] [--write FOLDER] -- PROGRAM

Each option may stand there often. The program sees no network, no processes but its own, and nothing below
the hidden folders except those that are kept (to read) and to be written. That needs namespaces, which not
every machine grants ordinary users: `--check` tells, by its exit code, whether this one does. It needs the
standard library alone.

It begins once a first byte stands in its input, so that who starts it can set limits, which all it starts
then have.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from hmi_site.embedded.lifeline import die_with_parent, enter_user_namespace, libc_call

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x08000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1, 2, 4, 8, 32, 4096, 16384, 1 << 18,
)  # fmt: skip
KILLED = 128
"""What exit codes of shells begin at for programs that a signal ended."""


def enter(*, hidden: Sequence[Path], kept: Sequence[Path], written: Sequence[Path]) -> None:
    """Leave what the machine shares, for this process and those it starts. Raises OSError where that is not
    granted, or a folder cannot be reached."""
    enter_user_namespace()
    libc_call("unshare", CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET)
    libc_call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    shown = {folder.resolve(strict=True): folder in written for folder in (*kept, *written)}
    if unreachable := [folder for folder in shown if not os.access(folder, os.R_OK | os.X_OK)]:
        raise PermissionError(f"{unreachable[0]} cannot be read in a namespace of its own")
    handles = {folder: os.open(folder, os.O_PATH | os.O_DIRECTORY) for folder in shown}
    here = Path.cwd()
    os.chdir("/")  # a folder that is open leads to what is above it
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
    """Show only those of the new namespace, for its first process to call; none at all where that is not
    granted, as in some containers."""
    try:
        libc_call("mount", b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None)
    except OSError:
        libc_call("mount", b"tmpfs", b"/proc", b"tmpfs", MS_RDONLY, b"size=4k")


def run(program: Sequence[str]) -> NoReturn:
    """Run the program as the second process of the new namespace, and end as it does: what is sent to the
    first one does not end it."""
    first = os.fork()
    if first == 0:
        die_with_parent()
        hide_processes()
        second = os.fork()
        if second == 0:
            os.execvp(program[0], list(program))  # noqa: S606 - the command is the installation's own
        os._exit(_code(second))
    code = _code(first)
    if code > KILLED:
        os.kill(os.getpid(), code - KILLED)
    sys.exit(code)


def _code(child: int) -> int:
    """Wait for its end; how it ended, as shells say it."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else KILLED - code


def main(arguments: Sequence[str]) -> None:
    """Become the program after `--`, apart from the rest."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for option in ("--hide", "--keep", "--write"):
        parser.add_argument(option, type=Path, action="append", default=[])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("program", nargs="*")
    options = parser.parse_args(arguments)
    if not options.check:
        os.read(0, 1)
    enter(hidden=options.hide, kept=options.keep, written=options.write)
    run([sys.executable, "-S", "-c", ""] if options.check else options.program)


if __name__ == "__main__":
    main(sys.argv[1:])
