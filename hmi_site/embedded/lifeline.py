"""Tie a process's life to its parent's, so that a killed launcher leaves nothing behind (Linux).

Run as a script, this file becomes the program named after `--`, having first taken another identity if
asked (PostgreSQL refuses to run as root) and then tied its life to its parent. It needs the standard library
alone:

    python -I -S lifeline.py --parent PID --death-signal N [--nice N] [--identity userns|UID:GID] -- PROGRAM
"""

import argparse
import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
CLONE_NEWUSER = 0x10000000
UNPRIVILEGED_ID = 65534
SUPERVISED = "HMI_SUPERVISED"
USER_NAMESPACE = "userns"


def die_with_parent(*, by: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send `by` to this process when its parent ends, however it ends.

    The setting does not pass to children of this process and is lost when its user changes: call it in
    every process, last. It follows the *thread* that started this process, so parents start children from
    their main thread.
    """
    libc_call("prctl", PR_SET_PDEATHSIG, int(by), 0, 0, 0)


def die_with_launcher() -> None:
    """The same, in processes that a child of the launcher starts; elsewhere nothing happens."""
    launcher = os.environ.get(SUPERVISED)
    if launcher:
        die_with_parent()
        if not Path("/proc", launcher).exists():  # it ended before the line above
            sys.exit("the launcher has ended")


def enter_user_namespace() -> None:
    """Be an ordinary user in a private namespace; outside of it, this is still the user it was."""
    uid, gid = os.getuid(), os.getgid()
    libc_call("unshare", CLONE_NEWUSER)
    for file, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{UNPRIVILEGED_ID} {uid} 1"),
        ("gid_map", f"{UNPRIVILEGED_ID} {gid} 1"),
    ):
        Path("/proc/self", file).write_text(line, encoding="ascii")


def become(uid: int, gid: int) -> None:
    """Drop root for another user, for good."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def main(arguments: list[str]) -> None:
    """Become the program after `--`."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--death-signal", type=int, required=True)
    parser.add_argument("--identity", default="")
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("program", nargs="+")
    options = parser.parse_args(arguments)
    os.nice(options.nice)
    if options.identity == USER_NAMESPACE:
        enter_user_namespace()
    elif options.identity:
        uid, gid = map(int, options.identity.split(":"))
        become(uid, gid)
    die_with_parent(by=signal.Signals(options.death_signal))
    if os.getppid() != options.parent:  # it ended before the line above
        sys.exit("the parent has ended")
    os.execvp(options.program[0], options.program)  # noqa: S606 - the command is the launcher's own


def libc_call(name: str, *arguments: int | bytes | None) -> None:
    """Call a function of the C library that returns 0; OSError with its reason otherwise."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


if __name__ == "__main__":
    main(sys.argv[1:])
