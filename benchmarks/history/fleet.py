"""Machines, what they are made of, and the stages that cells go through on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.config.models import GpuPool
from orchestrator.job import SPIRV
from orchestrator.results.declared import DeclaredPipeline

_FLAGS = {
    "x86_64": (
        "abm adx aes apic avx avx2 avx512_bf16 avx512_vnni avx512bw avx512cd avx512dq avx512f "
        "avx512vl bmi1 bmi2 clflush clflushopt clwb cmov constant_tsc cpuid cx16 cx8 de erms f16c "
        "fma fpu fsgsbase fsrm fxsr gfni ht hypervisor invpcid lahf_lm lm mca mce mmx movbe msr "
        "mtrr nonstop_tsc nopl nx pae pat pcid pclmulqdq pdpe1gb pge pni popcnt pse pse36 rdpid "
        "rdrand rdseed rdtscp rep_good sep sha_ni smap smep sse sse2 sse4_1 sse4_2 ssse3 syscall "
        "tsc tsc_adjust umip vaes vme vpclmulqdq x2apic xgetbv1 xsave xsavec xsaveopt xsaves"
    ),
    "aarch64": "aes asimd asimddp asimdhp atomics bf16 crc32 fp fphp i8mm pmull sha1 sha2 sve sve2",
}
_GPUS: Mapping[str, Mapping[str, str]] = {
    "nvidia-gpu": {
        "gpu_name": "NVIDIA H100 80GB HBM3",
        "gpu_chip": "sm_90",
        "gpu_driver": "550.54.15",
        "gpu_firmware": "96.00.74.00.01",
    },
    "amd-gpu": {
        "gpu_name": "AMD Instinct MI300X",
        "gpu_chip": "gfx942",
        "gpu_driver": "6.8.5",
        "gpu_firmware": "0x00000b7f",
    },
    "intel-gpu": {
        "gpu_name": "Intel Data Center GPU Max 1100",
        "gpu_driver": "24.35.30872",
        "gpu_firmware": "PVC2_1.23374",
    },
}
_CPUS = {
    "intel-cpu": ("Intel(R) Xeon(R) Platinum 8480+", 32, 128),
    "amd-cpu": ("AMD EPYC 9654", 48, 192),
    "arm-cpu": ("Neoverse-V2", 32, 120),
}
_ANY_CPU = ("AMD EPYC 9354", 16, 64)
"""Model, CPUs, GiB of memory."""
_KERNEL = "Linux 6.1.0-18-{}"
_SIZES = {"intel-cpu": 3, "amd-cpu": 3, "arm-cpu": 3, "intel-gpu": 1}


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A machine; one without a name is the orchestrator's own."""

    name: str
    pool: str
    hardware: Mapping[str, str | int]

    @property
    def key(self) -> tuple[str, str]:
        """Unlike any other's."""
        return self.pool, self.name


@dataclass(frozen=True, kw_only=True)
class Route:
    """What cells of one pipeline go through on one pool."""

    stages: tuple[str, ...]
    recipes: tuple[tuple[str, str], ...]
    """Name of the part of a fingerprint, and recipe."""
    executes: bool
    real: bool
    """On a GPU that tells how long kernels took."""
    driver: str
    """Empty: code for the CPU."""
    chips: tuple[str, ...]


def agents(pool: str) -> tuple[Agent, ...]:
    """The machines that serve a pool."""
    if pool.startswith("cross-"):
        return (Agent(name="", pool=pool, hardware=_hardware(pool, 0)),)
    return tuple(
        Agent(name=f"{pool}-{number:02}", pool=pool, hardware=_hardware(pool, number))
        for number in range(1, _SIZES.get(pool, 2) + 1)
    )


def _hardware(pool: str, number: int) -> dict[str, str | int]:
    model, cpus, memory = _CPUS.get(pool, _ANY_CPU)
    arch = "aarch64" if pool == "arm-cpu" else "x86_64"
    return {
        "cpu_model": model,
        "cpu_flags": _FLAGS[arch],
        "cpus": cpus,
        "memory_bytes": (memory << 30) - (number << 20),
        "kernel": _KERNEL.format("arm64" if arch == "aarch64" else "amd64"),
        **_GPUS.get(pool, {}),
    }


def device(gpu: GpuPool | None, hardware: Mapping[str, str | int]) -> dict[str, str | int]:
    """What a cell's process finds out about the GPU that it executes on."""
    if gpu is None or gpu.device == "none":
        return {}
    if gpu.device == "software":
        name = "llvmpipe (LLVM 15.0.6, 256 bits)" if gpu.driver == "vulkan" else "pthread-EPYC 9354"
        return {"driver": gpu.driver, "device": name, "driver_version": "0.0.1"}
    return {
        "driver": gpu.driver,
        "device": str(hardware["gpu_name"]),
        "driver_version": str(hardware["gpu_driver"]),
        "chip": str(hardware.get("gpu_chip", SPIRV)),
    }


def route(entry: DeclaredPipeline, gpu: GpuPool | None, pool: str) -> Route:
    """The stages of a pipeline on a pool, and the recipes that its fingerprints are made from."""
    stages = ["ingress", *(f"lower:{stage.stage}" for stage in entry.stages)]
    recipes = [(f"recipe {stage.stage}", stage.recipe) for stage in entry.stages]
    chips = () if gpu is None else gpu.chips or (_GPUS.get(pool, {}).get("gpu_chip", SPIRV),)
    if gpu is not None and entry.egress:
        egress = entry.egress[gpu.code]
        for chip in chips:
            for stage in (*egress.kernels, *egress.host):
                stages.append(f"lower:{stage.stage}")
                recipes.append((f"recipe {stage.stage} for {gpu.driver} {chip}", stage.recipe))
            stages.append("codegen")
    else:
        stages.append("codegen")
    executes = gpu is None or gpu.device != "none"
    return Route(
        stages=(*stages, "execute", "compare") if executes else tuple(stages),
        recipes=tuple(recipes),
        executes=executes,
        real=gpu is not None and gpu.device not in ("none", "software"),
        driver="" if gpu is None else gpu.driver,
        chips=chips,
    )
