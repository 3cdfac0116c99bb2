"""What a job's container is: its isolation, its limits, its name. Pure: no engine is asked.

One specification gives the options for the engine, the equivalent `docker run` for people, and
the isolation that is recorded with every result, so that the three cannot say different things.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.types import DeviceRequest, LogConfig, Mount, Ulimit

from orchestrator.engines import rocm
from orchestrator.engines.base import Isolation
from orchestrator.engines.docker_host import EngineInfo
from orchestrator.engines.owner import Owner
from orchestrator.job import Device, Job
from orchestrator.settings import Settings

LABEL = "lh-ci"
WORKSPACE_LABEL = f"{LABEL}.workspace"
OWNER_LABEL = f"{LABEL}.owner"
JOB_FOLDER = "/job"
ROCM = "/opt/rocm"
"""Where a container sees the host's ROCm, if it is handed an AMD GPU."""
SCRATCH = "/tmp"  # noqa: S108  a mount of the container's own
COMMAND = ("python", "-m", "orchestrator.harness", JOB_FOLDER)
NOBODY = "65534:65534"
SUPERVISOR_BYTES = 1 << 30
"""For the harness itself and the frontend that it keeps imported."""
MAX_PROCESSES = 4096
"""Processes and threads: compilers start one thread per core, a fork bomb starts all there are."""

_CDI = "nvidia.com/gpu=all"
_NODES: Mapping[str, tuple[str, ...]] = {"amd": ("/dev/kfd", "/dev/dri"), "intel": ("/dev/dri",)}
"""What is handed to a container for a GPU; NVIDIA's runtime knows by itself."""

_ENVIRONMENT: Mapping[str, str] = {
    "PYTHONPATH": JOB_FOLDER,
    "PYTHONUNBUFFERED": "1",
    # whatever wants to cache something can do so in the scratch folder, and nowhere else
    "HOME": SCRATCH,
    "TMPDIR": SCRATCH,
    "XDG_CACHE_HOME": f"{SCRATCH}/.cache",
    "TRITON_CACHE_DIR": f"{SCRATCH}/.cache/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{SCRATCH}/.cache/inductor",
    # the user id may have no name inside
    "USER": "harness",
    "LOGNAME": "harness",
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """None: the engine cannot limit it."""

    memory_bytes: int | None
    """Of everything in the container together, its scratch folder included; no swap."""
    scratch_bytes: int
    processes: int | None
    cpus: int | None

    def record(self) -> dict[str, str | int | float]:
        """As kept in results; what is not limited is said to be so."""
        values = {
            "memory_bytes": self.memory_bytes,
            "scratch_bytes": self.scratch_bytes,
            "processes": self.processes,
            "cpus": self.cpus,
        }
        return {name: "unlimited" if v is None else v for name, v in values.items()}


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container to be."""

    name: str
    image: str
    """Image id: a tag may move."""
    job_dir: Path
    user: str
    """`uid:gid`, never root's."""
    limits: Limits
    labels: Mapping[str, str]
    gpu: Device
    """Whose GPU it is handed; empty: none."""
    cdi: bool
    """NVIDIA's devices are described for the engine by the Container Device Interface."""
    groups: tuple[int, ...]
    """Numbers of the groups that may open the GPU's device nodes."""
    rocm: Path | None
    """The host's ROCm, whose HIP runtime executes on AMD's GPUs; None: it has none."""
    relabel: bool
    """The engine runs under SELinux, which must be told that the container may read the job."""

    def options(self) -> dict[str, Any]:
        """Arguments for the SDK's `create_container`, apart from `host_config`."""
        return {
            "image": self.image,
            "command": list(COMMAND),
            "name": self.name,
            "user": self.user,
            "working_dir": SCRATCH,
            "environment": self._environment(),
            "labels": dict(self.labels),
            "network_disabled": True,
            # a proxy from the client's configuration has no place where there is no network
            "use_config_proxy": False,
        }

    def host_options(self) -> dict[str, Any]:
        """Arguments for the SDK's `create_host_config`."""
        limits = self.limits
        options: dict[str, Any] = {
            "network_mode": "none",
            "read_only": True,
            "tmpfs": {SCRATCH: _scratch_options(limits)},
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "privileged": False,
            "ipc_mode": "private",
            "init": True,
            "ulimits": [Ulimit(name="core", soft=0, hard=0)],
            # all output is read as it comes: the engine need not keep it too
            "log_config": LogConfig(type="none"),
            "restart_policy": {"Name": "no"},
        }
        options |= self._gpu_options()
        # unlike a bind, a mount is refused when its source is not there
        mounts = [
            Mount(target, str(source), type="bind", read_only=True)
            for source, target in self._mounts()
        ]
        if self.relabel:
            options["binds"] = [f"{self.job_dir}:{JOB_FOLDER}:ro,z"]
        if mounts:
            options["mounts"] = mounts
        if limits.memory_bytes is not None:
            options |= {"mem_limit": limits.memory_bytes, "memswap_limit": limits.memory_bytes}
        if limits.processes is not None:
            options["pids_limit"] = limits.processes
        if limits.cpus is not None:
            options["nano_cpus"] = limits.cpus * 1_000_000_000
        return options

    def _environment(self) -> dict[str, str]:
        found = dict(_ENVIRONMENT)
        if self.rocm:
            found |= rocm.environment(Path(ROCM))
        return found

    def _mounts(self) -> list[tuple[Path, str]]:
        """What is shown read-only: source and target."""
        job = [] if self.relabel else [(self.job_dir, JOB_FOLDER)]
        return job + ([(self.rocm, ROCM)] if self.rocm else [])

    def _gpu_options(self) -> dict[str, Any]:
        if self.gpu == "nvidia" and self.cdi:
            return {"device_requests": [DeviceRequest(driver="cdi", device_ids=[_CDI])]}
        if self.gpu == "nvidia":
            capabilities = [["gpu", "compute", "utility"]]
            return {"device_requests": [DeviceRequest(count=-1, capabilities=capabilities)]}
        if not self.gpu:
            return {}
        return {
            "devices": [f"{node}:{node}:rw" for node in _NODES[self.gpu]],
            "group_add": [str(group) for group in self.groups],
        }

    def argv(self) -> tuple[str, ...]:
        """The command line that runs the same container by hand."""
        limits = self.limits
        argv = ["docker", "run", "--rm", "--network=none", "--read-only"]
        argv += [f"--tmpfs={SCRATCH}:{_scratch_options(limits)}"]
        argv += ["--cap-drop=ALL", "--security-opt=no-new-privileges", "--ipc=private", "--init"]
        argv += ["--ulimit=core=0:0", "--log-driver=none", f"--user={self.user}"]
        if self.gpu == "nvidia" and self.cdi:
            argv.append(f"--device={_CDI}")
        elif self.gpu == "nvidia":
            argv.append('--gpus=all,"capabilities=gpu,compute,utility"')
        elif self.gpu:
            argv += [f"--device={node}" for node in _NODES[self.gpu]]
            argv += [f"--group-add={group}" for group in self.groups]
        if limits.memory_bytes is not None:
            argv += [f"--memory={limits.memory_bytes}", f"--memory-swap={limits.memory_bytes}"]
        if limits.processes is not None:
            argv.append(f"--pids-limit={limits.processes}")
        if limits.cpus is not None:
            argv.append(f"--cpus={limits.cpus}")
        if self.relabel:
            argv.append(f"--volume={self.job_dir}:{JOB_FOLDER}:ro,z")
        for source, target in self._mounts():
            argv.append(f"--mount=type=bind,source={source},target={target},readonly")
        argv += [f"--env={name}={value}" for name, value in self._environment().items()]
        return (*argv, f"--workdir={SCRATCH}", self.image, *COMMAND)

    def isolation(self) -> Isolation:
        """As recorded with every result."""
        return Isolation(
            contained=True,
            network="none",
            root="read-only",
            user=self.user,
            limits=self.limits.record(),
        )


def describe(
    job: Job,
    job_dir: Path,
    *,
    image: str,
    workspace: Path,
    user: str,
    engine: EngineInfo,
    settings: Settings,
) -> Container:
    """The container for a job.

    `user`: `uid:gid` to run as.
    """
    run = job_dir.parent.parent.name or "run"
    return Container(
        name=container_name(run, job.id),
        image=image,
        job_dir=job_dir,
        user=user,
        limits=limits_for(job, engine, settings.scratch_bytes),
        gpu=job.device,
        cdi=engine.cdi and has_cdi(),
        groups=_groups(_NODES.get(job.device, ())),
        rocm=rocm.find(settings) if job.device == "amd" else None,
        labels={
            WORKSPACE_LABEL: str(workspace),
            f"{LABEL}.run": run,
            f"{LABEL}.job": job.id,
            OWNER_LABEL: Owner.current().dumps(),
        },
        relabel=engine.selinux,
    )


def has_cdi(folders: Iterable[str] = ("/etc/cdi", "/var/run/cdi")) -> bool:
    """Whether some file describes NVIDIA's devices (`nvidia-ctk cdi generate` writes it)."""
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.[yj]*"))]
    for file in files:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if "nvidia.com/gpu" in file.read_text(encoding="utf-8"):
                return True
    return False


def _groups(nodes: Iterable[str]) -> tuple[int, ...]:
    """Who owns device nodes, those in a folder included; by number, as containers know no names."""
    found: set[int] = set()
    for node in map(Path, nodes):
        for path in (node, *node.glob("*")):
            with contextlib.suppress(OSError):
                found.add(path.stat().st_gid)
    return tuple(sorted(found - {0}))


def container_name(run: str, job: str) -> str:
    """`lh-<run>-<job>-<random>`, with what the engine does not allow in names replaced."""
    words = (re.sub(r"[^A-Za-z0-9_.-]+", "-", word).strip("-.") for word in (run, job))
    return "-".join(["lh", *(word[:60] for word in words if word), secrets.token_hex(4)])


def limits_for(job: Job, engine: EngineInfo, scratch_bytes: int) -> Limits:
    """The sum of what may run at once, within what the engine has and can enforce."""
    largest = sorted((cell.memory_bytes for cell in job.cells), reverse=True)[: job.workers]
    memory = sum(largest) + scratch_bytes + SUPERVISOR_BYTES
    memory = min(memory, engine.memory_bytes or memory)
    return Limits(
        memory_bytes=memory if engine.memory_limit else None,
        scratch_bytes=scratch_bytes,
        processes=MAX_PROCESSES if engine.pids_limit else None,
        # one for each cell, and one for the supervisor that must stay awake
        cpus=min(engine.cpus, job.workers + 1) if engine.cpu_limit else None,
    )


def _scratch_options(limits: Limits) -> str:
    # exec: what is compiled there is loaded from there
    return f"rw,exec,nosuid,nodev,size={limits.scratch_bytes},mode=1777"
