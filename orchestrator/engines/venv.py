"""Where no container engine answers: the same pins in a virtual environment, on this machine.

Cells keep their limits where the kernel allows, but nothing contains them: results say so.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from orchestrator.engines import guard, interpreters, rocm, sysroot
from orchestrator.engines.base import Availability, Environment, Progress
from orchestrator.engines.llvm_release import Release, ReleaseFinder
from orchestrator.engines.locks import if_free
from orchestrator.engines.owner import Owner
from orchestrator.engines.pins import read_pins, stack_pins
from orchestrator.engines.process import ProcessSession
from orchestrator.engines.venv_build import Venv, VenvBuilder, is_complete
from orchestrator.errors import InfrastructureError
from orchestrator.job import Job
from orchestrator.settings import Settings

_OWNER = "owner.json"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Cells run side by side; a thread pool in each would only get in the others' way."""


class VenvEngine:
    """Runs jobs as processes of this machine. See `engines.base.Engine`."""

    name = "venv"

    def __init__(
        self, root: Path, settings: Settings, environ: Mapping[str, str] | None = None
    ) -> None:
        """`root`: of the repository. `environ`: of this process."""
        self._root = root
        self._settings = settings
        state = (root / settings.state).absolute()
        self._scratch = state / "scratch"
        environ = os.environ if environ is None else environ
        self._environ = environ
        self._sysroots = state / "sysroots"
        self._builder = VenvBuilder(
            root=root, folder=state / "venvs", settings=settings, environ=environ
        )
        self._releases = ReleaseFinder(folder=state / "llvm", settings=settings, environ=environ)

    def probe(self) -> Availability:
        """Usable on Linux: it needs `/proc`, and signals at a parent's death."""
        if sys.platform != "linux":
            reason = f"the venv engine needs Linux, this is {sys.platform}"
            return Availability(usable=False, reason=reason)
        return Availability(usable=True, reason=f"Python {interpreters.running()}")

    def prepare(self, stack: str, progress: Progress, *, force: bool = False) -> Environment:
        """Makes the stack's virtual environment, and gets the LLVM release.

        Raises:
            DefinitionError: a pin that does not exist.
            InfrastructureError: no Python serves, no index answers, or the disk is full.
            UsageError: there is no such stack, or a setting does not serve.
        """
        pins = read_pins(self._root)
        frontend = stack_pins(pins, stack)
        venv = None if force else self._builder.ready(stack, frontend)
        built = venv or self._builder.build(stack, frontend, progress, force=force)
        release = self._releases.find(pins.llvm, progress, force=force)
        system = sysroot.find(
            stack,
            frontend.system_for(platform.machine()),
            self._sysroots,
            self._settings,
            self._environ,
            progress,
        )
        return _environment(stack, built, release, system, cached=venv is not None)

    def recall(self, stack: str, digest: str) -> Environment | None:  # noqa: ARG002
        """None: environments are found by what they are made from, and that is another by now."""
        return None

    def start(self, job: Job, job_dir: Path, environment: Environment) -> ProcessSession:
        """Starts the harness in a scratch folder of its own, with a clean environment.

        Raises:
            InfrastructureError: it could not be started.
        """
        job_dir = job_dir.absolute()
        scratch = self._new_scratch(job.id)
        work = scratch / "work"
        work.mkdir()
        venv = Path(environment.reference)
        return ProcessSession(
            (str(venv / "bin" / "python"), "-m", "orchestrator.harness", str(job_dir)),
            env=self._environment_of(job, job_dir, work, environment),
            cwd=work,
            scratch=scratch,
            max_file_bytes=self._settings.scratch_bytes,
        )

    def _environment_of(
        self, job: Job, job_dir: Path, work: Path, environment: Environment
    ) -> dict[str, str]:
        venv = Path(environment.reference)
        found = _harness_environment(venv, job_dir, work, environment.facts)
        if job.device == "amd" and (folder := rocm.find(self._settings)):
            found |= rocm.environment(folder, found.get("LD_LIBRARY_PATH", ""))
        return found

    def sweep(self) -> tuple[str, ...]:
        """Ends processes and removes folders that dead orchestrators left in this workspace."""
        removed: list[str] = []
        for scratch in sorted(self._scratch.glob("*/")):
            owner = Owner.parse(_read(scratch / _OWNER))
            if owner is not None and owner.gone():
                removed += [f"process {pid}" for pid in guard.end_processes_at(scratch / "work")]
                guard.remove_tree(scratch)
                removed.append(str(scratch))
        for folder in sorted(self._builder.folder.glob("*/")):
            if not is_complete(folder):
                with if_free(folder.with_suffix(".lock")) as free:
                    if free:
                        guard.remove_tree(folder)
                        removed.append(str(folder))
        return (*removed, *self._releases.sweep(), *sysroot.sweep(self._sysroots))

    def _new_scratch(self, job: str) -> Path:
        try:
            self._scratch.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix=f"{job}.", dir=self._scratch))
            (scratch / _OWNER).write_text(Owner.current().dumps(), encoding="utf-8")
        except OSError as error:
            raise InfrastructureError(f"{self._scratch}: {error.strerror or error}") from error
        return scratch


def _environment(
    stack: str, venv: Venv, release: Release, system: sysroot.Sysroot, *, cached: bool
) -> Environment:
    identity = f"{venv.digest} llvm {release.version or 'none'}"
    if system.folder:
        identity += f" system {system.folder.name}"
    return Environment(
        stack=stack,
        engine=VenvEngine.name,
        reference=str(venv.folder),
        digest=f"sha256:{hashlib.sha256(identity.encode()).hexdigest()}",
        cached=cached,
        facts={
            "python": venv.python.version,
            "llvm": release.version,
            "llvm_note": release.note,
            "llvm_prefix": str(release.prefix or ""),
            "sysroot": str(system.folder or ""),
            "sysroot_note": system.note,
        },
    )


def _harness_environment(
    venv: Path, job_dir: Path, work: Path, facts: Mapping[str, str]
) -> dict[str, str]:
    """All that the harness sees: no proxies, no tokens, nothing of the user's own."""
    path = f"{venv / 'bin'}:{_PATH}"
    llvm, system = facts.get("llvm_prefix", ""), facts.get("sysroot", "")
    return {
        "PATH": path,
        "HOME": str(work),
        "TMPDIR": str(work),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(job_dir),
        "PYTHONSAFEPATH": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",  # a job's folder is only read
        **dict.fromkeys(_ONE_THREAD, "1"),
        **({"LH_LLVM_PREFIX": llvm} if llvm else {}),
        **(sysroot.environment(Path(system), path) if system else {}),
    }


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
