"""Images of stacks: named after everything they are made of, built when that name is missing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import docker

from orchestrator.config.models import Pins, StackPins
from orchestrator.engines import build_log, pip
from orchestrator.engines.apt import setting_sources
from orchestrator.engines.base import Progress
from orchestrator.engines.base_image import Base, find_base, get_base
from orchestrator.engines.buildkit import Build, Cli, build_argv, build_environment, find_cli
from orchestrator.engines.commands import follow
from orchestrator.engines.docker_host import Host, Image, engine_errors, engine_info, find_image
from orchestrator.engines.pins import pin_problem
from orchestrator.engines.wheels import Sources, Target, sources
from orchestrator.errors import DefinitionError, InfrastructureError
from orchestrator.settings import Settings

IMAGES = "images"
LLVM = "llvm"
"""The folder of the image that all stacks share."""
CONTEXT = "context"
GLIBC = (2, 36)
"""Of Debian 12; later releases run the same wheels."""
_QUIET_S = 1800.0
"""A build that says nothing for so long is stuck: a big download or compilation says something."""


# --- Names ------------------------------------------------------------------------------------


def llvm_tag(root: Path, pins: Pins, base_id: str) -> str:
    """Name of the shared image: equal exactly when it would be built from the same."""
    parts = [
        folder_digest(root / IMAGES / LLVM),
        pins.llvm.model_dump(mode="json"),
        pins.base_python,
        base_id,
    ]
    return f"lh/{LLVM}:{_digest(parts)}"


def stack_tag(root: Path, pins: Pins, stack: str, base_id: str) -> str:
    """Name of a stack's image: its folder, its pins, and the LLVM image under it.

    The date on which pins were proven, and the Pythons that they allow elsewhere, change nothing.
    """
    chosen = pins.stacks[stack]
    parts: list[object] = [
        folder_digest(root / IMAGES / stack),
        dict(chosen.packages),
        dict(chosen.indexes),
        dict(chosen.system),
        llvm_tag(root, pins, base_id),
    ]
    if chosen.system_of:
        parts.append({arch: dict(packages) for arch, packages in chosen.system_of.items()})
    return f"lh/{stack}:{_digest(parts)}"


def stack_definition(root: Path, pins: Pins, stack: str) -> str:
    """SHA-256 over how a repository defines a stack, whatever base image is at hand."""
    return hashlib.sha256(stack_tag(root, pins, stack, "").encode()).hexdigest()


def folder_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of all files below a folder."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def _digest(parts: object) -> str:
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


# --- Building ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Built:
    """A stack's image, in the engine."""

    tag: str
    image: Image
    base: Base
    cached: bool


class ImageBuilder:
    """Builds the images of one repository in one engine."""

    def __init__(
        self,
        root: Path,
        pins: Pins,
        settings: Settings,
        client: docker.APIClient,
        host: Host,
        environ: Mapping[str, str],
    ) -> None:
        """`environ`: of the programs that are run; the engine is `host` whatever it says."""
        self._root = root
        self._pins = pins
        self._settings = settings
        self._client = client
        self._host = host
        self._environ = environ

    def find(self, stack: str) -> Built | None:
        """The stack's image, if the engine has it.

        Raises:
            DefinitionError: the stack has no Dockerfile.
            InfrastructureError: the engine failed.
        """
        self._checked(stack)
        base = find_base(self._client, self._settings, self._pins)
        if base is None:
            return None
        tag = stack_tag(self._root, self._pins, stack, base.image.id)
        image = find_image(self._client, tag)
        return None if image is None else Built(tag=tag, image=image, base=base, cached=True)

    def ensure(self, stack: str, progress: Progress, *, force: bool = False) -> Built:
        """The stack's image; built when it is missing, or when told to.

        Raises:
            DefinitionError: pins or Dockerfile are wrong.
            InfrastructureError: the engine, the network or the disk failed.
        """
        if not force and (built := self.find(stack)) is not None:
            return built
        # whatever can be known to fail is found out before minutes are spent
        cli = find_cli(self._settings, self._environ)
        found = self._sources(stack, self._checked(stack))
        progress(f"building the image of stack {stack} with {cli}")
        base = find_base(self._client, self._settings, self._pins)
        if base is None:
            environ = self._host.cli_environment(self._environ)
            base = get_base(self._client, cli.path, environ, self._settings, self._pins, progress)
        llvm = self._llvm(cli, base, progress, force=force)
        tag = stack_tag(self._root, self._pins, stack, base.image.id)
        image = self._stack(cli, stack, (llvm, tag), found, progress, force=force)
        return Built(tag=tag, image=image, base=base, cached=False)

    def _checked(self, stack: str) -> StackPins:
        for folder in (LLVM, stack):
            if not (self._root / IMAGES / folder / "Dockerfile").is_file():
                raise DefinitionError(f"{IMAGES}/{folder}/Dockerfile: there is no such file.")
        chosen = self._pins.stacks[stack]
        if self._pins.base_python not in chosen.python:
            told = (
                f"does not list {self._pins.base_python}, the Python of {self._pins.base_suite}, "
                "which the image runs (`base_python`)."
            )
            raise pin_problem(self._root, ("stacks", stack, "python"), told)
        return chosen

    def _sources(self, stack: str, chosen: StackPins) -> Sources:
        arch = engine_info(self._client).arch
        return sources(
            self._root,
            stack,
            chosen,
            target=Target(python=self._pins.base_python, arch=arch, glibc=GLIBC),
            settings=self._settings,
            config=pip.read_config(Path(sys.executable), self._settings, self._environ),
        )

    def _llvm(self, cli: Cli, base: Base, progress: Progress, *, force: bool) -> str:
        tag = llvm_tag(self._root, self._pins, base.image.id)
        if not force and find_image(self._client, tag) is not None:
            return tag
        llvm = self._pins.llvm
        args = {
            "BASE_IMAGE": base.reference,
            "PACKAGES": " ".join(f"{name}={version}" for name, version in llvm.packages.items()),
            "LLVM_MAJOR": llvm.version.partition(".")[0],
            "LLVM_VERSION": llvm.version,
            "PYTHON_VERSION": self._pins.base_python,
        }
        with self._workspace(LLVM) as folder:
            build = Build(
                tag=tag,
                context=folder / CONTEXT,
                args=args,
                secrets=self._secrets(folder),
                fresh=force,
                extra=self._settings.build_args,
            )
            self._build(cli, build, LLVM, None, progress)
        return tag

    def _stack(
        self,
        cli: Cli,
        stack: str,
        names: tuple[str, str],
        found: Sources,
        progress: Progress,
        *,
        force: bool,
    ) -> Image:
        """`names`: of the LLVM image to build on, and of the image to build."""
        llvm, tag = names
        with self._workspace(stack) as folder:
            context = folder / CONTEXT
            lines = _stage(found, context / "wheels")
            (context / "requirements.txt").write_text("".join(f"{line}\n" for line in lines))
            options = [f"--extra-index-url={index}" for index in found.extra_indexes]
            secrets = self._secrets(folder) | {"pip-args": folder / "pip-args"}
            secrets["pip-args"].write_text(
                shlex.join([*pip.PIP_OPTIONS, *options, *self._settings.pip_args])
            )
            args = {"LLVM_IMAGE": llvm}
            arch = engine_info(self._client).arch
            if system := self._pins.stacks[stack].system_for(arch):
                args["SYSTEM"] = " ".join(f"{name}={v}" for name, v in system.items())
            build = Build(
                tag=tag,
                context=context,
                args=args,
                secrets=secrets,
                fresh=force,
                extra=self._settings.build_args,
            )
            return self._build(cli, build, stack, stack, progress)

    def _secrets(self, folder: Path) -> dict[str, Path]:
        """What builds may see and images may not keep; `folder` is for files."""
        secrets = {"ca": self._settings.ca_bundle} if self._settings.ca_bundle else {}
        if self._settings.apt_sources:
            found = setting_sources(self._settings.apt_sources, self._pins.base_suite)
            secrets["apt-sources"] = folder / "apt-sources"
            secrets["apt-sources"].write_text("".join(f"{s.line()}\n" for s in found))
        return secrets

    @contextlib.contextmanager
    def _workspace(self, folder: str) -> Iterator[Path]:
        """A private folder with a build context in it: a copy of one folder of `images/`."""
        try:
            with tempfile.TemporaryDirectory(prefix="lh-build-") as name:
                source = self._root / IMAGES / folder
                shutil.copytree(source, Path(name) / CONTEXT)
                yield Path(name)
        except OSError as error:
            raise InfrastructureError(
                f"the build context of {folder} could not be written: {error.strerror or error} "
                "(TMPDIR names another place)."
            ) from error

    def _build(
        self, cli: Cli, build: Build, folder: str, stack: str | None, progress: Progress
    ) -> Image:
        before = find_image(self._client, build.tag)
        log = build_log.BuildLog(folder, progress)
        status = follow(
            build_argv(cli, build, self._host),
            environ=build_environment(cli, self._host, self._environ),
            on_line=log.line,
            quiet_s=_QUIET_S,
        )
        if status:
            raise build_log.explain(self._root, folder, stack, log.failure())
        image = find_image(self._client, build.tag)
        if image is None:
            raise InfrastructureError(
                f"{build.tag} was built, and the engine does not have it: {cli.path} talks to "
                "another engine."
            )
        if before is not None and before.id != image.id:
            # best effort: a container or another image may still need it
            with contextlib.suppress(InfrastructureError), engine_errors("removing an old image"):
                self._client.remove_image(before.id)
        return image


def _stage(found: Sources, folder: Path) -> list[str]:
    """Puts wheel files into the context; returns the lines of its requirements file."""
    folder.mkdir()
    for wheel in found.wheels.values():
        try:
            os.link(wheel, folder / wheel.name)
        except OSError:  # another file system, or not ours to link
            shutil.copyfile(wheel, folder / wheel.name)
    lines = [f"/wheels/{wheel.name}" for wheel in found.wheels.values()]
    return lines + [f"{name}=={version}" for name, version in found.others.items()]
