"""Virtual environments, made by a fake Python that records what it was asked."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.engines import interpreters, venv_build
from orchestrator.engines.interpreters import Interpreter
from orchestrator.engines.locks import exclusive
from orchestrator.engines.venv import VenvEngine
from orchestrator.errors import DefinitionError, InfrastructureError, UsageError
from orchestrator.settings import Settings

PINS = """\
schema: 1
base: debian:bookworm-slim
base_suite: bookworm
llvm:
  version: 22.1.8
  packages: {mlir-22-tools: "22"}
stacks:
  pytorch:
    proven: 2026-11-21
    python: ["3.11", "3.12"]
    packages:
      torch: 2.13.0+cpu
      numpy: 2.4.6
"""
FAKE_PYTHON = """\
#!/bin/sh
# Answers as Python VERSION would, in the ways that an engine asks.
PATH=/usr/bin:/bin
case "$*" in
*"-m venv "*)
    for folder; do :; done
    mkdir -p "$folder/bin"
    cp "$0" "$folder/bin/python"
    ;;
*"-m pip install "*)
    echo "$*" >> "LOG/installs"
    env >> "LOG/environment"
    cat "LOG/pip-says" 2>/dev/null
    test -e "LOG/pip-hangs" && exec sleep 600
    test ! -e "LOG/pip-says"
    ;;
*"pip config list") ;;
*"import ensurepip"*) test ! -e "LOG/no-ensurepip" ;;
*)
    echo '{"version": "VERSION", "implementation": "cpython", "free_threaded": FREE,'
    echo '"base": "LOG"}'
    ;;
esac
"""
Make = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "images").mkdir(parents=True)
    (root / "images" / "pins.yaml").write_text(PINS)
    return root


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").mkdir()
    return tmp_path / "log"


@pytest.fixture
def python(tmp_path: Path, log: Path) -> Make:
    """Makes a fake Python."""

    def make(version: str = "3.11.9", name: str = "python", free: str = "false") -> Path:
        path = tmp_path / "pythons" / name
        path.parent.mkdir(exist_ok=True)
        text = FAKE_PYTHON.replace("VERSION", version).replace("FREE", free)
        path.write_text(text.replace("LOG", str(log)))
        path.chmod(0o755)
        return path

    return make


def engine(root: Path, python: Path | None, **environ: str) -> VenvEngine:
    settings = Settings(python=python, llvm_prefix="none")
    return VenvEngine(root, settings, {"PATH": os.environ["PATH"], **environ})


def installs(log: Path) -> list[str]:
    file = log / "installs"
    return file.read_text().splitlines() if file.exists() else []


def prepared(engine: VenvEngine, *, force: bool = False) -> list[str]:
    said: list[str] = []
    engine.prepare("pytorch", said.append, force=force)
    return said


# --- making them ----------------------------------------------------------------------------------


def test_the_pins_are_installed_exactly_and_once(root: Path, log: Path, python: Make) -> None:
    venv = engine(root, python())
    said: list[str] = []
    first = venv.prepare("pytorch", said.append)
    assert said == [
        "stack pytorch: making a virtual environment with Python 3.11.9",
        "stack pytorch: installing 2 pinned packages",
    ]
    assert (first.stack, first.engine, first.cached) == ("pytorch", "venv", False)
    assert first.facts == {
        "python": "3.11.9",
        "llvm": "",
        "llvm_note": "turned off by LH_LLVM_PREFIX=none",
        "llvm_prefix": "",
        "sysroot": "",
        "sysroot_note": "",
    }
    (install,) = installs(log)
    assert install.endswith("--no-deps --only-binary=:all: torch==2.13.0+cpu numpy==2.4.6")
    second = venv.prepare("pytorch", said.append)
    assert (second.cached, second.reference, second.digest) == (
        True,
        first.reference,
        first.digest,
    )
    assert len(installs(log)) == 1


def test_other_pins_are_another_environment(root: Path, python: Make) -> None:
    venv = engine(root, python())
    first = venv.prepare("pytorch", lambda _: None)
    pins = root / "images" / "pins.yaml"
    pins.write_text(pins.read_text().replace("2.4.6", "2.4.7"))
    second = venv.prepare("pytorch", lambda _: None)
    assert not second.cached
    assert (second.reference, second.digest) != (first.reference, first.digest)


def test_a_failure_leaves_nothing(root: Path, log: Path, python: Make) -> None:
    (log / "pip-says").write_text("ERROR: the wheel is broken\n")
    with pytest.raises(InfrastructureError, match=r"pip failed: the wheel is broken"):
        prepared(engine(root, python()))
    assert [path.suffix for path in (root / ".lh" / "venvs").iterdir()] == [".lock"]


def test_an_environment_that_was_not_finished_is_made_again(
    root: Path, log: Path, python: Make
) -> None:
    venv = engine(root, python())
    folder = Path(venv.prepare("pytorch", lambda _: None).reference)
    (folder / venv_build._MARKER).unlink()
    (folder / "half").touch()
    assert not venv.prepare("pytorch", lambda _: None).cached
    assert not (folder / "half").exists()
    assert len(installs(log)) == 2


def test_an_environment_whose_python_is_gone_is_made_again(
    root: Path, log: Path, python: Make
) -> None:
    venv = engine(root, python())
    made = venv.prepare("pytorch", lambda _: None)
    Path(made.reference, "bin", "python").unlink()
    assert not venv.prepare("pytorch", lambda _: None).cached
    assert len(installs(log)) == 2


def test_force_makes_it_again(root: Path, log: Path, python: Make) -> None:
    venv = engine(root, python())
    prepared(venv)
    prepared(venv, force=True)
    assert len(installs(log)) == 2


def test_two_runs_at_once_install_once(root: Path, log: Path, python: Make) -> None:
    first = engine(root, python())
    threads = [threading.Thread(target=prepared, args=(each,)) for each in [first] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(installs(log)) == 1


def test_waiting_for_another_run_is_told(tmp_path: Path) -> None:
    file, said = tmp_path / "a.lock", threading.Event()
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        said.set()

    def wait() -> None:
        with exclusive(file, "stack pytorch", tell):
            pass

    with exclusive(file, "stack pytorch", told.append):
        thread = threading.Thread(target=wait)
        thread.start()
        assert said.wait(60)
    thread.join(60)
    assert told == ["stack pytorch: waiting for another run that prepares it"]
    assert not thread.is_alive()


def test_nothing_sends_the_packages_elsewhere_and_pips_own_settings_stay(
    root: Path, log: Path, python: Make
) -> None:
    venv = engine(
        root,
        python(),
        PIP_TARGET="/elsewhere",
        PIP_USER="1",
        PYTHONPATH="/elsewhere",
        LH_WHEELS="/wheels",
        PIP_INDEX_URL="https://mirror.example/simple",
    )
    prepared(venv)
    environment = (log / "environment").read_text()
    assert "PIP_INDEX_URL=https://mirror.example/simple" in environment
    assert not {"PIP_TARGET", "PIP_USER", "PYTHONPATH", "LH_WHEELS"} & {
        line.partition("=")[0] for line in environment.splitlines()
    }


def test_our_settings_reach_pip(root: Path, log: Path, python: Make, tmp_path: Path) -> None:
    wheel = tmp_path / "numpy-2.4.6-py3-none-any.whl"
    wheel.touch()
    settings = Settings(
        python=python(),
        llvm_prefix="none",
        ca_bundle=tmp_path / "ca.pem",
        pip_args=("--proxy=proxy.example",),
        wheels=(tmp_path,),
    )
    VenvEngine(root, settings, dict(os.environ)).prepare("pytorch", lambda _: None)
    (install,) = installs(log)
    assert f"--cert {tmp_path}/ca.pem --proxy=proxy.example " in install
    assert install.endswith(f" {wheel} torch==2.13.0+cpu")


# --- what goes wrong ------------------------------------------------------------------------------


def test_a_pin_that_does_not_exist(root: Path, log: Path, python: Make) -> None:
    (log / "pip-says").write_text(
        "ERROR: Could not find a version that satisfies the requirement numpy==2.4.6 "
        "(from versions: 2.4.4, 2.4.5)\nERROR: No matching distribution found for numpy==2.4.6\n"
    )
    with pytest.raises(DefinitionError) as caught:
        prepared(engine(root, python()))
    assert str(caught.value) == (
        "images/pins.yaml:13:7  stacks.pytorch.packages.numpy: no index has a wheel of 2.4.6 for "
        "this Python. Newest that it has: 2.4.4, 2.4.5."
    )


def test_an_index_that_is_silent_for_every_package_is_given_up(
    root: Path, log: Path, python: Make
) -> None:
    retry = "WARNING: Retrying (Retry(total=0)) after connection broken by 'ReadTimeoutError'\n"
    (log / "pip-says").write_text(retry * 6)
    (log / "pip-hangs").touch()
    with pytest.raises(InfrastructureError, match="stack pytorch: no package index answered"):
        prepared(engine(root, python()))


def test_a_full_disk(root: Path, log: Path, python: Make) -> None:
    (log / "pip-says").write_text("ERROR: OSError: [Errno 28] No space left on device\n")
    with pytest.raises(InfrastructureError, match=r"stack pytorch: the disk is full\. Make room"):
        prepared(engine(root, python()))


def test_a_state_folder_that_cannot_be_written(root: Path, python: Make) -> None:
    (root / ".lh").write_text("a file where a folder should be")
    with pytest.raises(InfrastructureError, match=r"\.lh/venvs/pytorch-\w+\.lock cannot be"):
        prepared(engine(root, python()))


def test_a_python_that_cannot_make_environments(root: Path, log: Path, python: Make) -> None:
    (log / "no-ensurepip").touch()
    with pytest.raises(InfrastructureError) as caught:
        prepared(engine(root, python()))
    assert "(Debian and Ubuntu: apt-get install python3.11-venv)" in str(caught.value)


def test_no_such_stack(root: Path, python: Make) -> None:
    with pytest.raises(UsageError, match=r"no stack `pytroch`\. Did you mean `pytorch`\?"):
        engine(root, python()).prepare("pytroch", lambda _: None)


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        (None, "images/pins.yaml: No such file or directory"),
        ("schema: [", "images/pins.yaml: while parsing"),
        (PINS.replace("base:", "bass:"), "images/pins.yaml  base: Field required"),
    ],
)
def test_pins_that_cannot_be_read(root: Path, python: Make, pins: str | None, message: str) -> None:
    file = root / "images" / "pins.yaml"
    file.unlink() if pins is None else file.write_text(pins)
    with pytest.raises(DefinitionError) as caught:
        prepared(engine(root, python()))
    assert str(caught.value).startswith(message)


# --- finding a Python -----------------------------------------------------------------------------


def pretend(monkeypatch: pytest.MonkeyPatch, version: str, **changes: object) -> None:
    """That another Python runs this."""
    other = {"implementation": "cpython", "free_threaded": False, "base": "/usr", **changes}
    running = Interpreter(path=Path("/usr/bin/python3"), version=version, **other)  # type: ignore[arg-type]
    monkeypatch.setattr(interpreters, "running", lambda: running)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"version": "3.9.2"}, "3.9.2 at /usr/bin/python3"),
        ({"version": "3.11.9", "implementation": "pypy"}, "3.11.9 (pypy) at /usr/bin/python3"),
        (
            {"version": "3.12.1", "free_threaded": True},
            "3.12.1 (free-threaded) at /usr/bin/python3",
        ),
    ],
)
def test_a_python_without_wheels_is_refused(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], found: str
) -> None:
    pretend(monkeypatch, **changes)
    with pytest.raises(InfrastructureError) as caught:
        prepared(engine(root, None, PATH=str(tmp_path)))
    assert str(caught.value) == (
        "stack pytorch: its pinned wheels exist for Python 3.11, 3.12; found "
        f"{found}, and none of those on PATH. Install one of them, or name it in LH_PYTHON."
    )


def test_a_declared_python_on_path_is_used(
    root: Path, python: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, "3.9.2")
    dead_shim = python("3.11.1", "python3.11")
    dead_shim.write_text("#!/bin/sh\necho 'version 3.11 is not installed' >&2\nexit 127\n")
    python("3.12.4", "python3.12")
    path = f"/nowhere:{dead_shim.parent}"
    made = engine(root, None, PATH=path).prepare("pytorch", lambda _: None)
    assert made.facts["python"] == "3.12.4"


def test_path_is_searched_in_the_order_of_the_pins(tmp_path: Path, python: Make) -> None:
    newer, older = python("3.12.4", "python3.12"), python("3.11.9", "python3.11")
    environ = {"PATH": f"/nowhere:{tmp_path / 'pythons'}"}
    assert list(interpreters._on_path(["3.11", "3.12"], environ)) == [older, newer]


def test_the_running_python_needs_no_search(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "3.12.4")
    monkeypatch.setattr(interpreters, "ask", lambda _: pytest.fail("it was asked"))
    found = interpreters.find("pytorch", ["3.11", "3.12"], Settings(), {})
    assert next(found).version == "3.12.4"


@pytest.mark.parametrize(("version", "free"), [("3.9.2", "false"), ("3.12.4", "true")])
def test_lh_python_that_does_not_serve(root: Path, python: Make, version: str, free: str) -> None:
    kind = " (free-threaded)" if free == "true" else ""
    with pytest.raises(UsageError) as caught:
        prepared(engine(root, python(version, free=free)))
    assert str(caught.value).startswith(
        f"stack pytorch: its pinned wheels exist for Python 3.11, 3.12; LH_PYTHON is {version}"
        f"{kind} at "
    )


def test_lh_python_that_is_no_python(root: Path) -> None:
    with pytest.raises(UsageError, match="LH_PYTHON is /bin/true"):
        prepared(engine(root, Path("/bin/true")))


def test_the_running_python_is_described_as_it_is() -> None:
    running = interpreters.running()
    assert interpreters.ask(running.path) == running


# --- what is left behind --------------------------------------------------------------------------


def test_unfinished_environments_are_swept_but_not_under_a_builder(
    root: Path, log: Path, python: Make
) -> None:
    venv = engine(root, python())
    done = Path(venv.prepare("pytorch", lambda _: None).reference)
    half, busy = done.with_name("pytorch-half"), done.with_name("pytorch-busy")
    half.mkdir()
    busy.mkdir()
    with exclusive(busy.with_suffix(".lock"), "", lambda _: None):
        assert venv.sweep() == (str(half),)
    assert busy.is_dir()
    assert done.is_dir()
    assert json.loads((done / venv_build._MARKER).read_text())
