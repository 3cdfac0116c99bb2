"""What is recorded of a GPU with every result that came from it."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.host import Gpu


def facts(gpus: Iterable[Gpu], vendor: str) -> dict[str, str]:
    """`gpu_name`, `gpu_chip`, `gpu_driver`, `gpu_firmware` of a vendor's GPUs that can be used.

    Several different ones are all named; what is not known is left out.
    """
    usable = [gpu for gpu in gpus if gpu.vendor == vendor and not gpu.problem]
    values = {
        "gpu_name": [gpu.name for gpu in usable],
        "gpu_chip": [gpu.chip for gpu in usable],
        "gpu_driver": [gpu.driver_version for gpu in usable],
        "gpu_firmware": [gpu.firmware for gpu in usable],
    }
    joined = {key: ", ".join(dict.fromkeys(filter(None, each))) for key, each in values.items()}
    return {key: text for key, text in joined.items() if text}
