"""Settings of this machine: environment variables that start with `LH_`, each declared once.

What belongs to the project is in its YAML files; what belongs to a machine (a proxy's CA bundle,
a folder of wheels, where Docker's client is) is here. The table in `docs/settings.md` and the
command line's help are made from the declarations below.
"""

from __future__ import annotations

import hmac
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from orchestrator.config.models import Bytes
from orchestrator.config.suggest import listing, nearest
from orchestrator.errors import UsageError

PREFIX = "LH_"
NO_LLVM = "none"
"""Value of `LH_LLVM_PREFIX` that means: use no LLVM release, fetch none."""

_PAIR = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9_.-]*[A-Za-z0-9_-]")
_AGENT = re.compile(r"[a-z][a-z0-9]*-[a-z0-9][a-z0-9-]*")
_CA_FALLBACKS = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")


class Secret:
    """A text that is shown nowhere: not by `repr`, not by `str`, not in messages."""

    def __init__(self, text: str) -> None:
        """Keeps the text."""
        self._text = text

    def reveal(self) -> str:
        """The text itself, for whom it is meant for."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(
            self._text.encode(), other.reveal().encode()
        )

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(…)"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting, as declared; a field of `Settings` is annotated with it."""

    variable: str
    parse: Callable[[str, str], object]
    """Takes the variable's name, for messages, and its value."""
    kind: str
    """What the value is, in a word or two."""
    default: str
    """In words, as shown to people."""
    help: str


def _text(variable: str, value: str) -> str:  # noqa: ARG001  all parsers look alike
    return value


def _secret(variable: str, value: str) -> Secret:
    if not value.isascii() or not value.isprintable() or " " in value:
        raise UsageError(f"{variable}: a token has no spaces and no control characters.")
    return Secret(value)


def parse_pair(variable: str, value: str) -> str:
    """`owner/name`, as it is. Raises UsageError, which names the variable."""
    if not _PAIR.fullmatch(value):
        raise UsageError(f"{variable}: expected two names such as `owner/name`, got `{value}`.")
    return value


def _agent(variable: str, value: str) -> str:
    if not _AGENT.fullmatch(value):
        raise UsageError(
            f"{variable}: expected an agent's name such as `amd-lab-1`, got `{value}`."
        )
    return value


def _words(variable: str, value: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise UsageError(f"{variable}: {str(error).lower()} in `{value}`.") from error


def _path(variable: str, value: str) -> Path:  # noqa: ARG001
    return Path(value).expanduser()


def _file(variable: str, value: str) -> Path:
    path = Path(value).expanduser()
    if not _is(Path.is_file, path):
        raise UsageError(f"{variable}: there is no file {path} that can be read.")
    return path.absolute()


def _is(kind: Callable[[Path], bool], path: Path) -> bool:
    try:
        return kind(path) and os.access(path, os.R_OK)
    except OSError:  # in a folder of somebody else's
        return False


def _program(variable: str, value: str) -> Path:
    path = _file(variable, value)
    if not os.access(path, os.X_OK):
        raise UsageError(f"{variable}: {path} cannot be executed.")
    return path


def _folders(variable: str, value: str) -> tuple[Path, ...]:
    return tuple(_folder(variable, part) for part in value.split(os.pathsep) if part)


def _folder(variable: str, value: str) -> Path:
    path = Path(value).expanduser()
    if not _is(Path.is_dir, path):
        raise UsageError(f"{variable}: there is no folder {path} that can be read.")
    return path.absolute()


def _url(variable: str, value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise UsageError(
            f"{variable}: expected an address such as http://host:8010/, got `{value}`."
        )
    return value


def _size(variable: str, value: str) -> int:
    try:
        return TypeAdapter(Bytes).validate_python(value)
    except ValidationError:
        wanted = "a size such as `512MiB` or `2GiB`"
        raise UsageError(f"{variable}: expected {wanted}, got `{value}`.") from None


def _llvm(variable: str, value: str) -> str:
    if value == NO_LLVM:
        return value
    prefix = Path(value).expanduser().absolute()
    if not _is(Path.is_file, prefix / "bin" / "mlir-opt"):
        raise UsageError(
            f"{variable}: {prefix} has no bin/mlir-opt. Name the folder of an LLVM release, such "
            f"as /usr/lib/llvm-22, or `{NO_LLVM}`."
        )
    return str(prefix)


def has_hip(rocm: Path) -> bool:
    """Whether a ROCm's folder has a HIP runtime that programs can load."""
    return any(_is(Path.is_file, each) for each in rocm.glob("lib/libamdhip64.so*"))


def _rocm(variable: str, value: str) -> Path:
    folder = _folder(variable, value)
    if not has_hip(folder):
        raise UsageError(
            f"{variable}: {folder} has no lib/libamdhip64.so. Name the folder of a ROCm with its "
            "HIP runtime, such as /opt/rocm."
        )
    return folder.resolve()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of this machine. Paths are absolute, apart from `state`."""

    state: Annotated[
        Path,
        Setting(
            variable="LH_STATE",
            parse=_path,
            kind="folder",
            default="`.lh` in the repository",
            help="Where runs, virtual environments and caches are kept.",
        ),
    ] = Path(".lh")
    root: Annotated[
        Path | None,
        Setting(
            variable="LH_ROOT",
            parse=_folder,
            kind="folder",
            default="the nearest folder upwards with a `matrix.yaml`",
            help="The checkout of the repository to work in, where commands are started elsewhere: "
            "by an agent, in a folder of its own.",
        ),
    ] = None
    agent: Annotated[
        str | None,
        Setting(
            variable="LH_AGENT",
            parse=_agent,
            kind="vendor-name",
            default="none: the machine is nobody's agent",
            help="The registered agent that this machine is, as in `agents/<vendor>-<name>.yaml`: "
            "it runs only what the orchestrator signed for it, and signs what comes of it.",
        ),
    ] = None
    orchestrator_key: Annotated[
        Secret | None,
        Setting(
            variable="LH_ORCHESTRATOR_KEY",
            parse=_secret,
            kind="secret",
            default="the keys of `orchestrator` in the state folder",
            help="The orchestrator's private key, where a service keeps it as a secret: the one "
            "line between the first and the last of its file.",
        ),
    ] = None
    python: Annotated[
        Path | None,
        Setting(
            variable="LH_PYTHON",
            parse=_program,
            kind="program",
            default="the running Python if the pins declare it, else the first declared on `PATH`",
            help="The Python interpreter that virtual environments are made from.",
        ),
    ] = None
    wheels: Annotated[
        tuple[Path, ...],
        Setting(
            variable="LH_WHEELS",
            parse=_folders,
            kind="folders",
            default="none",
            help="Folders of wheels to take pinned packages from before any index is asked, "
            "separated like `PATH`. Folders that pip's own `find-links` names count too.",
        ),
    ] = ()
    pip_args: Annotated[
        tuple[str, ...],
        Setting(
            variable="LH_PIP_ARGS",
            parse=_words,
            kind="arguments",
            default="none",
            help="More arguments for `pip install`, on this machine and in images: "
            "a mirror, a proxy, a trusted host.",
        ),
    ] = ()
    ca_bundle: Annotated[
        Path | None,
        Setting(
            variable="LH_CA_BUNDLE",
            parse=_file,
            kind="file",
            default=", else ".join(f"`{name}`" for name in _CA_FALLBACKS),
            help="CA certificates (PEM) to trust when downloading, on this machine and while "
            "images are built.",
        ),
    ] = None
    llvm_prefix: Annotated[
        str | None,
        Setting(
            variable="LH_LLVM_PREFIX",
            parse=_llvm,
            kind="folder, or `none`",
            default="the pinned release: as installed, else fetched with apt into the state folder",
            help="The LLVM release for the `venv` engine, such as `/usr/lib/llvm-22`. `none`: use "
            "and fetch no release, lower with the MLIR bindings of the frontend's wheel.",
        ),
    ] = None
    docker_cli: Annotated[
        Path | None,
        Setting(
            variable="LH_DOCKER_CLI",
            parse=_program,
            kind="program",
            default="the first `docker` on `PATH` that can build with BuildKit",
            help="Docker's command-line client, used to build images.",
        ),
    ] = None
    base_image: Annotated[
        str | None,
        Setting(
            variable="LH_BASE_IMAGE",
            parse=_text,
            kind="image",
            default="`base` in `images/pins.yaml`",
            help="The image that all stacks are built on: a mirror's copy of the pinned base.",
        ),
    ] = None
    apt_sources: Annotated[
        str | None,
        Setting(
            variable="LH_APT_SOURCES",
            parse=_text,
            kind="file, or mirror",
            default="the distribution's own",
            help="Where LLVM's packages and the base image come from: an apt sources file, "
            "or the address of a mirror.",
        ),
    ] = None
    build_args: Annotated[
        tuple[str, ...],
        Setting(
            variable="LH_BUILD_ARGS",
            parse=_words,
            kind="arguments",
            default="none",
            help="More arguments for `docker build`, such as `--network=host`.",
        ),
    ] = ()
    scratch_bytes: Annotated[
        int,
        Setting(
            variable="LH_SCRATCH",
            parse=_size,
            kind="size",
            default="`2GiB`",
            help="How much a job may write to its scratch folder; without a container, the largest "
            "file that it may write.",
        ),
    ] = 2 << 30
    store: Annotated[
        str | None,
        Setting(
            variable="LH_STORE",
            parse=_text,
            kind="folder, or address",
            default="`archive` in the state folder",
            help="Where `lh-ci results` keeps results for years: a folder, or an address such as "
            "`s3://bucket/mlir` or `gs://bucket/mlir`.",
        ),
    ] = None
    buildbot_master: Annotated[
        str | None,
        Setting(
            variable="LH_BUILDBOT_MASTER",
            parse=_url,
            kind="address",
            default="none",
            help="Of the Buildbot master that `--backend buildbot` submits jobs to, when "
            "`--master` does not say.",
        ),
    ] = None
    buildbot_password: Annotated[
        Path | None,
        Setting(
            variable="LH_BUILDBOT_PASSWORD",
            parse=_file,
            kind="file",
            default="none",
            help="The dispatcher's password: a copy of the master's "
            "`secrets/dispatcher.password`, which only its owner can read.",
        ),
    ] = None
    github_repository: Annotated[
        str | None,
        Setting(
            variable="LH_GITHUB_REPOSITORY",
            parse=parse_pair,
            kind="owner/name",
            default="none",
            help="Of the repository whose runners `--backend github` submits jobs to, when "
            "`--master` does not say.",
        ),
    ] = None
    github_token: Annotated[
        Secret | None,
        Setting(
            variable="LH_GITHUB_TOKEN",
            parse=_secret,
            kind="secret",
            default="none",
            help="A fine-grained token for that repository: actions (read and write) and contents "
            "(read).",
        ),
    ] = None
    github_api: Annotated[
        str,
        Setting(
            variable="LH_GITHUB_API",
            parse=_url,
            kind="address",
            default="`https://api.github.com`",
            help="Of GitHub's REST API, where it is another one.",
        ),
    ] = "https://api.github.com"
    buildkite_pipeline: Annotated[
        str | None,
        Setting(
            variable="LH_BUILDKITE_PIPELINE",
            parse=parse_pair,
            kind="organization/pipeline",
            default="none",
            help="That `--backend buildkite` submits jobs to, when `--master` does not say.",
        ),
    ] = None
    buildkite_token: Annotated[
        Secret | None,
        Setting(
            variable="LH_BUILDKITE_TOKEN",
            parse=_secret,
            kind="secret",
            default="none",
            help="An API access token of that organization: read and write builds, read artifacts.",
        ),
    ] = None
    buildkite_api: Annotated[
        str,
        Setting(
            variable="LH_BUILDKITE_API",
            parse=_url,
            kind="address",
            default="`https://api.buildkite.com/v2`",
            help="Of Buildkite's REST API, where it is another one.",
        ),
    ] = "https://api.buildkite.com/v2"
    locks: Annotated[
        Path | None,
        Setting(
            variable="LH_LOCKS",
            parse=_folder,
            kind="folder",
            default="`/run/lock`, else the folder for temporary files",
            help="Where jobs lock this machine's GPUs, one job at a time: the same for all who "
            "use them, workers in containers included.",
        ),
    ] = None
    gpu_device: Annotated[
        str,
        Setting(
            variable="LH_GPU_DEVICE",
            parse=_text,
            kind="number",
            default="`0`",
            help="Which of several GPUs bundles are executed on, counted as their driver does.",
        ),
    ] = "0"
    rocm: Annotated[
        Path | None,
        Setting(
            variable="LH_ROCM",
            parse=_rocm,
            kind="folder",
            default="`/opt/rocm`, where that has a HIP runtime",
            help="The ROCm whose HIP runtime executes on AMD GPUs; containers that are handed one "
            "see it, read-only.",
        ),
    ] = None

    @staticmethod
    def from_environment(environ: Mapping[str, str]) -> Settings:
        """Settings from environment variables; an empty variable is not set.

        Raises:
            UsageError: an unknown `LH_` variable, or a value that is wrong; names it.
        """
        for variable in sorted(environ):
            if variable.startswith(PREFIX) and variable not in {s.variable for s in SETTINGS}:
                raise UsageError(_unknown(variable))
        values: dict[str, Any] = {
            name: setting.parse(setting.variable, environ[setting.variable])
            for name, setting in _DECLARED.items()
            if environ.get(setting.variable)
        }
        if "ca_bundle" not in values:
            values["ca_bundle"] = _usual_ca_bundle(environ)
        return Settings(**values)


def _unknown(variable: str) -> str:
    known = [setting.variable for setting in SETTINGS]
    meant = nearest(variable, known)
    hint = f"Did you mean {meant}?" if meant else f"Settings: {listing(known)}."
    return f"{variable} is not a setting. {hint}"


def _usual_ca_bundle(environ: Mapping[str, str]) -> Path | None:
    """What other tools on this machine trust. A stale variable of theirs is no error of ours."""
    for name in _CA_FALLBACKS:
        if (value := environ.get(name)) and _is(Path.is_file, Path(value)):
            return Path(value).absolute()
    return None


_DECLARED: Mapping[str, Setting] = {
    name: next(item for item in get_args(annotated) if isinstance(item, Setting))
    for name, annotated in get_type_hints(Settings, include_extras=True).items()
}

SETTINGS: tuple[Setting, ...] = tuple(_DECLARED.values())
"""All settings, in the order in which they are shown."""


def markdown_table() -> str:
    """The table in `docs/settings.md`."""
    rows = [f"| `{s.variable}` | {s.kind} | {s.default} | {s.help} |" for s in SETTINGS]
    return "\n".join(
        ["| variable | value | default | what for |", "| --- | --- | --- | --- |", *rows]
    )
