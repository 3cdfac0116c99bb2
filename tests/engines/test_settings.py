"""Settings: each read, each wrong value answered, none undocumented."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import UsageError
from orchestrator.settings import SETTINGS, Secret, Settings, markdown_table

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"


def from_environment(**environ: str) -> Settings:
    return Settings.from_environment(environ)


def program(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_nothing_set_gives_the_defaults() -> None:
    assert from_environment(PATH="/bin", HOME="/root") == Settings()


def test_every_setting_is_read(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.touch()
    python, docker = program(tmp_path / "python"), program(tmp_path / "docker")
    (tmp_path / "more").mkdir()
    (tmp_path / "rocm" / "lib").mkdir(parents=True)
    (tmp_path / "rocm" / "lib" / "libamdhip64.so.7").touch()
    (tmp_path / "llvm" / "bin").mkdir(parents=True)
    (tmp_path / "llvm" / "bin" / "mlir-opt").touch()
    assert from_environment(
        LH_STATE="/var/lh",
        LH_ROOT=str(tmp_path),
        LH_AGENT="amd-lab-1",
        LH_ORCHESTRATOR_KEY="three",
        LH_PYTHON=str(python),
        LH_WHEELS=f"{tmp_path}:{tmp_path / 'more'}",
        LH_PIP_ARGS="--index-url 'https://mirror.example/a b'",
        LH_CA_BUNDLE=str(bundle),
        LH_LLVM_PREFIX=str(tmp_path / "llvm"),
        LH_DOCKER_CLI=str(docker),
        LH_BASE_IMAGE="mirror.example/debian:bookworm-slim",
        LH_APT_SOURCES="https://mirror.example/debian",
        LH_BUILD_ARGS="--network=host",
        LH_SCRATCH="512MiB",
        LH_STORE="s3://bucket/mlir",
        LH_BUILDBOT_MASTER="https://ci.example/",
        LH_BUILDBOT_PASSWORD=str(bundle),
        LH_GITHUB_REPOSITORY="owner/name",
        LH_GITHUB_TOKEN="one",
        LH_GITHUB_API="https://git.example/api/v3",
        LH_BUILDKITE_PIPELINE="organization/pipeline",
        LH_BUILDKITE_TOKEN="two",
        LH_BUILDKITE_API="https://kite.example/v2",
        LH_LOCKS=str(tmp_path),
        LH_GPU_DEVICE="1",
        LH_ROCM=str(tmp_path / "rocm"),
    ) == Settings(
        state=Path("/var/lh"),
        root=tmp_path,
        agent="amd-lab-1",
        orchestrator_key=Secret("three"),
        python=python,
        wheels=(tmp_path, tmp_path / "more"),
        pip_args=("--index-url", "https://mirror.example/a b"),
        ca_bundle=bundle,
        llvm_prefix=str(tmp_path / "llvm"),
        docker_cli=docker,
        base_image="mirror.example/debian:bookworm-slim",
        apt_sources="https://mirror.example/debian",
        build_args=("--network=host",),
        scratch_bytes=512 << 20,
        store="s3://bucket/mlir",
        buildbot_master="https://ci.example/",
        buildbot_password=bundle,
        github_repository="owner/name",
        github_token=Secret("one"),
        github_api="https://git.example/api/v3",
        buildkite_pipeline="organization/pipeline",
        buildkite_token=Secret("two"),
        buildkite_api="https://kite.example/v2",
        locks=tmp_path,
        gpu_device="1",
        rocm=tmp_path / "rocm",
    )


def test_the_test_above_sets_every_setting() -> None:
    assert {s.variable for s in SETTINGS} == {
        *("LH_STATE", "LH_PYTHON", "LH_WHEELS", "LH_PIP_ARGS", "LH_CA_BUNDLE", "LH_LLVM_PREFIX"),
        *("LH_DOCKER_CLI", "LH_BASE_IMAGE", "LH_APT_SOURCES", "LH_BUILD_ARGS", "LH_SCRATCH"),
        *("LH_ROOT", "LH_BUILDBOT_MASTER", "LH_BUILDBOT_PASSWORD", "LH_LOCKS", "LH_GPU_DEVICE"),
        *("LH_GITHUB_REPOSITORY", "LH_GITHUB_TOKEN", "LH_GITHUB_API"),
        *("LH_BUILDKITE_PIPELINE", "LH_BUILDKITE_TOKEN", "LH_BUILDKITE_API"),
        *("LH_AGENT", "LH_ORCHESTRATOR_KEY", "LH_ROCM", "LH_STORE"),
    }


def test_an_empty_variable_is_not_set() -> None:
    assert from_environment(LH_WHEELS="", LH_BASE_IMAGE="") == Settings()


def test_llvm_can_be_turned_off() -> None:
    assert from_environment(LH_LLVM_PREFIX="none").llvm_prefix == "none"


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("LH_WHEEL", "/x", "LH_WHEEL is not a setting. Did you mean LH_WHEELS?"),
        ("LH_XYZZY", "1", "LH_XYZZY is not a setting. Settings: LH_AGENT, LH_APT_"),
        ("LH_AGENT", "lab", "LH_AGENT: expected an agent's name such as `amd-lab-1`, got `lab`."),
        ("LH_ROOT", "/nowhere", "LH_ROOT: there is no folder /nowhere that can be read."),
        ("LH_BUILDBOT_MASTER", "ci:80", "LH_BUILDBOT_MASTER: expected an address such as http://"),
        ("LH_WHEELS", "/nowhere", "LH_WHEELS: there is no folder /nowhere that can be read."),
        ("LH_CA_BUNDLE", "/no.pem", "LH_CA_BUNDLE: there is no file /no.pem that can be read."),
        ("LH_PYTHON", "/no/python", "LH_PYTHON: there is no file /no/python that can be read."),
        ("LH_PYTHON", "/proc/self/status", "LH_PYTHON: /proc/self/status cannot be executed."),
        ("LH_SCRATCH", "2GB", "LH_SCRATCH: expected a size such as `512MiB` or `2GiB`, got `2GB`."),
        ("LH_PIP_ARGS", "'open", "LH_PIP_ARGS: no closing quotation in `'open`."),
        ("LH_LLVM_PREFIX", "/opt/x", "LH_LLVM_PREFIX: /opt/x has no bin/mlir-opt. Name the folder"),
    ],
)
def test_a_wrong_setting_is_answered(variable: str, value: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Settings.from_environment({variable: value})
    assert str(caught.value).startswith(message)


def test_a_file_in_somebody_elses_folder_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(UsageError, match="there is no file"):
        from_environment(LH_CA_BUNDLE=str(tmp_path / "ca.pem"))
    assert from_environment(SSL_CERT_FILE=str(tmp_path / "ca.pem")).ca_bundle is None


def test_ca_bundle_falls_back_to_what_other_tools_trust(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs.pem", tmp_path / "ours.pem"
    theirs.touch()
    ours.touch()
    stale = {"SSL_CERT_FILE": "/stale.pem", "PIP_CERT": str(theirs)}
    assert Settings.from_environment(stale).ca_bundle == theirs
    assert Settings.from_environment({**stale, "LH_CA_BUNDLE": str(ours)}).ca_bundle == ours


def test_the_documentation_has_the_table_of_the_declarations() -> None:
    assert markdown_table() in DOCS.read_text(encoding="utf-8"), (
        "docs/settings.md: its table differs from orchestrator/settings.py. Put in what "
        "`python -c 'from orchestrator.settings import *; print(markdown_table())'` prints."
    )
