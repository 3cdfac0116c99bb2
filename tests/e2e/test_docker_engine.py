"""The docker engine, for real: what a container can reach, and what is left of it. Small images."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import docker
import pytest
from docker.errors import ImageNotFound, NotFound

from orchestrator.engines import docker_host
from orchestrator.engines.base import Environment
from orchestrator.engines.container import NOBODY
from orchestrator.engines.docker import DockerEngine
from orchestrator.engines.docker_session import DockerSession
from orchestrator.engines.images import llvm_tag
from orchestrator.engines.pins import read_pins
from orchestrator.job import Alive, Cell, Job, Workload
from orchestrator.settings import Settings

pytestmark = pytest.mark.docker

REPOSITORY = Path(__file__).parents[2]
SCRATCH = 64 << 20
LIMIT = SCRATCH + (1 << 30) + (16 << 20)
PINS = """\
schema: 1
base: {base}
base_suite: {suite}
base_python: "{python}"
llvm: {{version: 0.0.0, packages: {{none: "0"}}}}
stacks:
  tiny:
    proven: 2026-11-21
    python: ["{python}"]
    packages: {{packaging: "26.3"}}
"""
Start = Callable[[str], DockerSession]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose images are the real ones without LLVM and with one small package."""
    root = tmp_path_factory.mktemp("repository")
    real = read_pins(REPOSITORY)
    (root / "images/tiny").mkdir(parents=True)
    shutil.copytree(REPOSITORY / "images/llvm", root / "images/llvm")
    llvm = (REPOSITORY / "images/llvm/Dockerfile").read_text().partition("ARG LLVM_MAJOR")[0]
    llvm = f"{llvm.replace('${PACKAGES}', '')}USER harness\nWORKDIR /tmp\n"
    (root / "images/llvm/Dockerfile").write_text(llvm)
    jax = (REPOSITORY / "images/jax/Dockerfile").read_text()
    tiny = re.sub(r"python -c '[^']*'", "python -c 'import packaging'", jax)
    (root / "images/tiny/Dockerfile").write_text(tiny)
    (root / "images/pins.yaml").write_text(
        PINS.format(base=real.base, suite=real.base_suite, python=real.base_python)
    )
    return root


@pytest.fixture(scope="module")
def engine(root: Path) -> DockerEngine:
    usual = Settings.from_environment(os.environ)
    return DockerEngine(
        root,
        Settings(
            **{name: getattr(usual, name) for name in ("ca_bundle", "pip_args", "docker_cli")},
            **{name: getattr(usual, name) for name in ("base_image", "apt_sources", "build_args")},
            scratch_bytes=SCRATCH,
        ),
    )


@pytest.fixture(scope="module")
def client() -> Iterator[docker.APIClient]:
    client = docker_host.connect(docker_host.find_host(os.environ))
    yield client
    client.close()


@pytest.fixture(scope="module")
def environment(
    engine: DockerEngine, root: Path, client: docker.APIClient
) -> Iterator[Environment]:
    """The tiny stack's image; gone afterwards, what its layers were made from stays cached."""
    made = engine.prepare("tiny", print)
    yield made
    base = made.facts["base_id"]
    for name in (made.reference, llvm_tag(root, read_pins(root), base)):
        client.remove_image(name)


def job_dir(root: Path, name: str, script: str) -> Path:
    """A job's folder whose harness is `script`."""
    folder = root / ".lh" / "runs" / "r" / "jobs" / name
    harness = folder / "orchestrator" / "harness"
    harness.mkdir(parents=True)
    (folder / "orchestrator" / "__init__.py").touch()
    (harness / "__init__.py").touch()
    # in one write, so that lines of several processes do not mix
    tell = """\
import json, os
def tell(*said):
    line = json.dumps({"event": "alive", "running": [*map(str, said)]}) + "\\n"
    os.write(1, line.encode())
"""
    (harness / "__main__.py").write_text(tell + dedent(script))
    return folder


def job(name: str) -> Job:
    cell = Cell(
        id="c",
        pipeline="p",
        workload=Workload(name="w", file="w.py", sha256="0"),
        variant="f32",
        pool="intel-cpu",
        ingress="none",
        memory_bytes=16 << 20,
    )
    return Job(id=name, stack="tiny", pool="intel-cpu", cells=(cell,))


@pytest.fixture
def start(
    engine: DockerEngine, environment: Environment, tmp_path: Path, request: pytest.FixtureRequest
) -> Start:
    def start(script: str) -> DockerSession:
        name = re.sub(r"\W+", "-", request.node.name)
        return engine.start(job(name), job_dir(tmp_path, name, script), environment)

    return start


def told(session: DockerSession) -> list[str]:
    """All that the harness told, until it ended."""
    events = [event for event in session.events(1.0) if event is not None]
    return [line for event in events if isinstance(event, Alive) for line in event.running]


def left_over(client: docker.APIClient, root: Path) -> list[str]:
    label = f"lh-ci.workspace={root.resolve()}"
    found = client.containers(all=True, filters={"label": [label]})
    return [name for entry in found for name in entry["Names"]]


@pytest.fixture(autouse=True)
def _nothing_is_left(client: docker.APIClient, root: Path) -> Iterator[None]:
    yield
    assert left_over(client, root) == []


def test_an_image_is_built_once(engine: DockerEngine, environment: Environment) -> None:
    lines: list[str] = []
    again = engine.prepare("tiny", lines.append)
    assert again.cached
    assert again.digest == environment.digest
    assert lines == []


def test_an_image_knows_nothing_of_this_machine(
    environment: Environment, client: docker.APIClient
) -> None:
    history = json.dumps(client.history(environment.digest))  # type: ignore[no-untyped-call]
    settings = Settings.from_environment(os.environ)
    secrets = [str(settings.ca_bundle or "/no/such/file"), *settings.pip_args]
    assert not [word for word in secrets if word in history]


def test_there_is_no_network(start: Start) -> None:
    script = """
        import os, socket
        tell(*os.listdir("/sys/class/net"))
        for address in (("192.0.2.1", 80), ("172.17.0.1", 80)):
            try:
                socket.create_connection(address, timeout=5)
                tell("connected")
            except OSError as error:
                tell(error.strerror)
        try:
            socket.getaddrinfo("example.org", 80)
            tell("resolved")
        except socket.gaierror:
            tell("no name")
        """
    with start(script) as session:
        assert told(session) == ["lo", *["Network is unreachable"] * 2, "no name"]
        assert session.exit().reason == "exit 0"


def test_nothing_can_be_written_but_the_scratch_folder(start: Start) -> None:
    script = """
        import os
        for folder in ("/", "/etc", "/usr/bin", "/opt/stack/bin", "/var/tmp", "/job", "/tmp"):
            try:
                with open(f"{folder}/written", "w") as file:
                    file.write("x")
                tell(folder, "written")
            except OSError as error:
                tell(folder, error.strerror)
        os.chmod("/tmp/written", 0o755)
        try:
            with open("/tmp/much", "wb") as file:
                for _ in range(100):
                    file.write(bytes(1 << 20))
            tell("much", "written")
        except OSError as error:
            tell("much", error.strerror)
        """
    with start(script) as session:
        lines = told(session)
    said = dict(zip(lines[::2], lines[1::2], strict=True))
    assert said.pop("/tmp") == "written"
    assert said.pop("much") == "No space left on device"
    assert set(said.values()) == {"Read-only file system"}


def test_it_runs_without_any_privilege(start: Start) -> None:
    script = """
        import os, subprocess
        tell(f"{os.getuid()}:{os.getgid()}")
        status = dict(line.split(":\\t", 1) for line in open("/proc/self/status"))
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"):
            tell(name, int(status[name], 16))
        tell(subprocess.run(["su", "-c", "true"], capture_output=True).returncode != 0)
        tell("PROXY", *[name for name in os.environ if "proxy" in name.lower()])
        """
    with start(script) as session:
        user, *lines = told(session)
        assert user == session.isolation.user
    assert user == (NOBODY if os.geteuid() == 0 else f"{os.geteuid()}:{os.getegid()}")
    capabilities = [w for n in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") for w in (n, "0")]
    assert lines == [*capabilities, "NoNewPrivs", "1", "True", "PROXY"]


def test_a_kill_ends_everything_in_it(start: Start, client: docker.APIClient) -> None:
    script = """
        import os, signal, sys, time
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
        tell("ready")
        while True:
            time.sleep(3600)
        """
    with start(script) as session:
        ready = 0
        for event in session.events(1.0):
            ready += isinstance(event, Alive)
            if ready == 2:
                session.kill()
                ready += 1
        end = session.exit()
        assert (end.code, end.reason) == (137, "killed by the orchestrator")
        name = session._container.name
    with pytest.raises(NotFound):
        client.inspect_container(name)


def test_too_much_memory_is_told(start: Start) -> None:
    script = """
        hoard = []
        while True:
            hoard.append(bytearray(b"x" * (64 << 20)))
        """
    with start(script) as session:
        assert session.isolation.limits["memory_bytes"] == LIMIT
        assert told(session) == []
        assert session.exit().reason == f"killed: out of memory (limit {LIMIT / (1 << 30):.1f} GiB)"


def test_an_exit_and_its_last_words(start: Start) -> None:
    with start("import sys; print('not an event'); sys.exit('dead\\nfor good')") as session:
        assert told(session) == []
        end = session.exit()
    assert (end.code, end.reason) == (1, "exit 1")
    assert "not an event" in end.stderr_tail
    assert "for good" in end.stderr_tail


def test_one_that_is_removed_by_others(start: Start, client: docker.APIClient) -> None:
    with start("import time; tell('ready'); time.sleep(3600)") as session:
        for event in session.events(1.0):
            if event is not None:
                client.remove_container(session._container.name, force=True)
        end = session.exit()
    assert (end.code, end.reason) == (None, "its container was removed from outside")


def test_an_image_that_is_not_there(
    engine: DockerEngine, environment: Environment, tmp_path: Path, client: docker.APIClient
) -> None:
    gone = Environment(**{**vars(environment), "digest": "sha256:" + "0" * 64})
    with pytest.raises(ImageNotFound):
        client.inspect_image(gone.digest)  # type: ignore[no-untyped-call]
    session = engine.start(job("gone"), job_dir(tmp_path, "gone", ""), gone)
    with pytest.raises(Exception, match="no longer there"):
        session.__enter__()


ORCHESTRATOR = """
import json, os, sys, time
from pathlib import Path
from orchestrator import records
from orchestrator.engines.base import Environment
from orchestrator.engines.docker import DockerEngine
from orchestrator.job import Job
from orchestrator.settings import Settings

root, folder, environment, job = sys.argv[1:]
engine = DockerEngine(Path(root), Settings())
made = records.decode(Environment, json.loads(environment))
with engine.start(records.decode(Job, json.loads(job)), Path(folder), made) as session:
    for event in session.events(1.0):
        if event is not None:
            print(session._container.name, flush=True)
"""


def test_what_a_killed_orchestrator_left_is_swept(
    engine: DockerEngine,
    environment: Environment,
    root: Path,
    tmp_path: Path,
    start: Start,
    client: docker.APIClient,
) -> None:
    script = "import time; tell('ready'); time.sleep(3600)"
    from orchestrator import records

    folder = job_dir(tmp_path, "orphan", script)
    argv = [sys.executable, "-c", ORCHESTRATOR, str(root), str(folder)]
    argv += [records.dumps(environment), records.dumps(job("orphan"))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        assert process.stdout is not None
        orphan = process.stdout.readline().strip()
        process.send_signal(signal.SIGKILL)
    assert left_over(client, root) == [f"/{orphan}"]
    with start(script) as session:
        stream = session.events(1.0)
        while next(stream) is None:
            pass
        assert engine.sweep() == (orphan,)
        assert left_over(client, root) == [f"/{session._container.name}"]
        assert engine.sweep() == ()
