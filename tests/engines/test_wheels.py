"""Where pinned packages come from, without any network but a loopback."""

from __future__ import annotations

import datetime as dt
import http.server
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from orchestrator.config.models import StackPins
from orchestrator.engines import index_pages, pip
from orchestrator.engines.pip import PipConfig, explain, parse_config, read_config
from orchestrator.engines.wheels import Target, find_wheel, sources
from orchestrator.errors import DefinitionError, InfrastructureError
from orchestrator.settings import Settings

TARGET = Target(python="3.11", arch="x86_64", glibc=(2, 36))
TORCH = "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
PINS = """\
stacks:
  pytorch:
    packages:
      torch: 2.13.0+cpu
"""


def stack_pins(packages: Mapping[str, str], indexes: Mapping[str, str]) -> StackPins:
    return StackPins(
        proven=dt.date(2026, 1, 1),
        python=("3.11",),
        packages=dict(packages),
        indexes=dict(indexes),
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "pins.yaml").write_text(PINS)
    return tmp_path


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, and no name but addresses of this machine."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def look_up(host: str, port: int, *_: object) -> list[tuple[object, ...]]:
        assert host == "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


class _Index(http.server.BaseHTTPRequestHandler):
    pages: Mapping[str, str]

    def do_GET(self) -> None:
        page = self.pages.get(self.path)
        self.send_response(200 if page is not None else 404)
        self.end_headers()
        self.wfile.write((page or "").encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def serve() -> Iterator[type[_Index]]:
    """Set its `pages`; its `address` is where they are."""
    handler = type("Handler", (_Index,), {"pages": {}, "address": ""})
    server = http.server.HTTPServer(("127.0.0.1", 0), handler)
    handler.address = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield handler
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def closed() -> str:
    """An address where nobody answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def torch_sources(
    root: Path, index: str, settings: Settings | None = None, config: PipConfig | None = None
) -> list[str]:
    found = sources(
        root,
        "pytorch",
        stack_pins({"torch": "2.13.0+cpu", "numpy": "2.4.6"}, {"torch": index}),
        target=TARGET,
        settings=settings or Settings(),
        config=config or PipConfig(),
    )
    return found.pip_args()


# --- wheels in folders ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "name", "version"),
    [
        (TORCH, "torch", "2.13.0+cpu"),
        (
            "PyYAML-6.0.3-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
            "pyyaml",
            "6.0.3",
        ),
        ("typing_extensions-4.16.0-py3-none-any.whl", "typing-extensions", "4.16.0"),
        ("torch_mlir-20261001-cp310-abi3-linux_x86_64.whl", "torch-mlir", "20261001"),
        ("numpy-2.4.6-1-cp311-cp311-manylinux_2_27_x86_64.whl", "numpy", "2.4.6"),
    ],
)
def test_a_usable_wheel_is_found(tmp_path: Path, file: str, name: str, version: str) -> None:
    (tmp_path / file).touch()
    assert find_wheel([tmp_path], name, version, TARGET.tags()) == tmp_path / file


@pytest.mark.parametrize(
    "file",
    [
        "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl",
        "torch-2.13.0+cu126-cp311-cp311-manylinux_2_28_x86_64.whl",
        "torch-2.13.0+cpu-cp312-cp312-manylinux_2_28_x86_64.whl",
        "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_aarch64.whl",
        "torch-2.13.0+cpu-cp311-cp311-manylinux_2_39_x86_64.whl",
        "torch-2.13.0+cpu-cp311-cp311-win_amd64.whl",
        "torch-2.13.0+cpu.tar.gz",
        "torch-nonsense.whl",
        "torchvision-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
    ],
)
def test_a_wheel_that_does_not_fit_is_none(tmp_path: Path, file: str) -> None:
    (tmp_path / file).touch()
    assert find_wheel([tmp_path], "torch", "2.13.0+cpu", TARGET.tags()) is None


def test_the_target_of_this_machine_takes_a_wheel_for_it() -> None:
    host = Target.host("3.11")
    assert f"manylinux_2_17_{host.arch}" in {tag.platform for tag in host.tags()}


def test_folders_come_before_any_index(root: Path, tmp_path: Path, closed: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / TORCH).touch()
    config = PipConfig(find_links=("https://mirror.example/links", f"file://{second}"))
    by_setting = torch_sources(root, closed, Settings(wheels=(first,)), config)
    assert by_setting[-2:] == [str(first / TORCH), "numpy==2.4.6"]
    by_pip = torch_sources(root, closed, Settings(), config)
    assert by_pip[-2:] == [str(second / TORCH), "numpy==2.4.6"]


def test_wheels_may_be_staged_elsewhere(root: Path, tmp_path: Path) -> None:
    (tmp_path / TORCH).touch()
    found = sources(
        root,
        "pytorch",
        stack_pins({"torch": "2.13.0+cpu"}, {}),
        target=TARGET,
        settings=Settings(wheels=(tmp_path,)),
        config=PipConfig(),
    )
    assert found.wheels == {"torch": tmp_path / TORCH}
    assert found.pip_args("/wheels")[-1] == f"/wheels/{TORCH}"


# --- indexes --------------------------------------------------------------------------------------


def test_an_index_that_lists_the_wheel_is_given_to_pip(root: Path, serve: type[_Index]) -> None:
    address = vars(serve)["address"]
    serve.pages = {"/torch/": f'<a href="/files/{TORCH.replace("+", "%2B")}#sha256=0">torch</a>'}
    assert torch_sources(root, address) == [
        *("--no-deps", "--only-binary=:all:", "--extra-index-url", address),
        *("torch==2.13.0+cpu", "numpy==2.4.6"),
    ]


def test_an_index_that_pip_is_configured_with_counts_too(
    root: Path, serve: type[_Index], closed: str
) -> None:
    address = vars(serve)["address"]
    serve.pages = {"/mirror/torch/": f"<a href='{TORCH}'>torch</a>"}
    config = PipConfig(indexes=(f"{address}/mirror/",))
    assert f"{address}/mirror/" in torch_sources(root, closed, config=config)


@pytest.mark.parametrize("pages", [{}, {"/torch/": '<a href="torch-2.12.0+cpu-py3-none-any.whl">'}])
def test_an_index_without_the_pin_is_a_wrong_pin(
    root: Path, serve: type[_Index], pages: Mapping[str, str]
) -> None:
    serve.pages = pages
    with pytest.raises(DefinitionError) as caught:
        torch_sources(root, vars(serve)["address"])
    assert str(caught.value) == (
        f"images/pins.yaml:4:7  stacks.pytorch.packages.torch: {vars(serve)['address']} has no "
        "wheel of 2.13.0+cpu for Python 3.11 on x86_64. Pin one that it has."
    )


def test_nobody_answers(root: Path, tmp_path: Path, closed: str) -> None:
    with pytest.raises(InfrastructureError) as caught:
        torch_sources(root, closed.replace("//", "//user:secret@"), Settings(wheels=(tmp_path,)))
    assert str(caught.value) == (
        "stack pytorch: torch 2.13.0+cpu for Python 3.11 on x86_64 was found nowhere. Folders of "
        f"wheels: {tmp_path}. No answer: {closed}/torch/ (cannot connect). Name a folder that has "
        "the wheel in LH_WHEELS (or in pip's find-links), or an index that has it in "
        "LH_PIP_ARGS=--extra-index-url=…"
    )


def test_a_silent_index_does_not_hold_anybody_up(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()

    def hang(*_: object) -> str:
        answered.wait(60)
        return ""

    monkeypatch.setattr(index_pages, "_fetch", hang)
    monkeypatch.setattr(index_pages, "_DEADLINE_S", 0.01)
    with pytest.raises(InfrastructureError, match=r"/torch/ \(no answer in time\)"):
        torch_sources(root, "https://index.example")
    answered.set()


# --- pip ------------------------------------------------------------------------------------------


def test_pip_config_is_read_with_its_quotes_and_our_arguments() -> None:
    listed = (
        ":env:.find-links='/wheels /more'\n"
        "global.cert='/etc/ssl/certs/ca-certificates.crt'\n"
        "global.extra-index-url='https://a.example/simple\\nhttps://b.example/simple'\n"
        "user.find-links='/wheels'\n"
    )
    arguments = [
        "--find-links=/third",
        "-f",
        "/fourth",
        "-i",
        "https://c.example",
        "--no-cache-dir",
    ]
    assert parse_config(listed, arguments) == PipConfig(
        find_links=("/wheels", "/more", "/third", "/fourth"),
        indexes=("https://c.example", "https://a.example/simple", "https://b.example/simple"),
    )


def test_pip_is_asked(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho \":env:.find-links='$PIP_FIND_LINKS'\"\n")
    python.chmod(0o755)
    environ = {"PIP_FIND_LINKS": "/wheels"}
    assert read_config(python, Settings(), environ) == PipConfig(find_links=("/wheels",))


def test_a_python_without_pip_has_no_configuration(tmp_path: Path) -> None:
    assert read_config(tmp_path / "none", Settings(), {}) == PipConfig()


NO_MATCH = (
    "ERROR: Could not find a version that satisfies the requirement torch==2.13.0+cpu"
    " (from versions: {})\nERROR: No matching distribution found for torch==2.13.0+cpu\n"
)
RETRY = (
    "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after"
    " connection broken by 'NewConnectionError(...)': /simple/torch/\n"
)


def test_a_version_that_no_index_has_is_a_wrong_pin(root: Path) -> None:
    error = explain(NO_MATCH.format("2.9.0, 2.10.0, 2.11.0, 2.12.0"), root, "pytorch")
    assert isinstance(error, DefinitionError)
    assert str(error) == (
        "images/pins.yaml:4:7  stacks.pytorch.packages.torch: no index has a wheel of 2.13.0+cpu "
        "for this Python. Newest that it has: 2.10.0, 2.11.0, 2.12.0."
    )


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            RETRY + NO_MATCH.format("none"),
            "stack pytorch: no package index answered for torch 2.13.0+cpu. Check the network,",
        ),
        (
            "ERROR: Could not install packages: OSError: [Errno 28] No space left on device\n",
            "stack pytorch: the disk is full. Make room",
        ),
        (
            RETRY + "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'\n",
            "stack pytorch: pip does not trust the index's certificate. Name the CA certificates",
        ),
        (
            "ERROR: torch.whl is not a supported wheel on this platform.\n",
            "stack pytorch: pip failed: torch.whl is not a supported wheel on this platform.",
        ),
        ("", "stack pytorch: pip failed: it said nothing"),
    ],
)
def test_what_is_no_fault_of_the_pins(root: Path, output: str, message: str) -> None:
    error = explain(output, root, "pytorch")
    assert isinstance(error, InfrastructureError)
    assert str(error).startswith(message)


def test_pip_never_retries_for_minutes() -> None:
    assert {"--retries=1", "--timeout=10"} <= set(pip.PIP_OPTIONS)
