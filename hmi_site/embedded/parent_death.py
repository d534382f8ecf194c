"""End processes with their parent, so that a killed launcher leaves none running (Linux).

Run as a script, this file changes the identity if asked (PostgreSQL refuses to run as root), asks the kernel
for a signal at the parent's death, and executes the program after `--`. It uses only the standard library:

    python -IS parent_death.py --parent PID --death-signal N [--nice N] [--identity userns|UID:GID] -- PROGRAM
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
SUPERVISOR_PID = "HMI_SUPERVISED"
USER_NAMESPACE = "userns"


def die_with_parent(*, by: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send the signal ``by`` to this process when its parent ends.

    Children do not inherit the setting, and a change of user resets it: call this in every process, last. It
    follows the *thread* that started this process, so parents start children from their main thread.
    """
    libc_call("prctl", PR_SET_PDEATHSIG, int(by), 0, 0, 0)


def die_with_launcher() -> None:
    """End with the launcher, in processes that a child of it starts. Without a launcher, do nothing."""
    launcher = os.environ.get(SUPERVISOR_PID)
    if launcher:
        die_with_parent()
        if not Path("/proc", launcher).exists():  # it ended before prctl
            sys.exit("the launcher has ended")


def enter_user_namespace() -> None:
    """Become an unprivileged user in a new user namespace. Outside of it, the user is unchanged."""
    uid, gid = os.getuid(), os.getgid()
    libc_call("unshare", CLONE_NEWUSER)
    for file, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{UNPRIVILEGED_ID} {uid} 1"),
        ("gid_map", f"{UNPRIVILEGED_ID} {gid} 1"),
    ):
        Path("/proc/self", file).write_text(line, encoding="ascii")


def drop_privileges(uid: int, gid: int) -> None:
    """Change from root to another user permanently."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def main(arguments: list[str]) -> None:
    """Execute the program after `--`."""
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
        drop_privileges(uid, gid)
    die_with_parent(by=signal.Signals(options.death_signal))
    if os.getppid() != options.parent:  # it ended before prctl
        sys.exit("the parent has ended")
    os.execvp(options.program[0], options.program)  # noqa: S606 - the launcher's own command


def libc_call(name: str, *arguments: int | bytes | None) -> None:
    """Call a function of the C library. OSError with its errno if it does not return 0."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


if __name__ == "__main__":
    main(sys.argv[1:])
