"""pip, as this project calls it: its configuration, its options, and what its errors mean."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.engines.pins import pin_problem
from orchestrator.errors import InfrastructureError, LighthouseError
from orchestrator.settings import Settings

PIP_OPTIONS = (
    "--no-input",
    "--disable-pip-version-check",
    "--progress-bar=off",
    "--retries=1",
    "--timeout=10",
)
"""For every `pip install` of ours: it fails in seconds when nobody answers."""


@dataclass(frozen=True, kw_only=True)
class PipConfig:
    """What pip's configuration and our pip arguments say about where packages are."""

    find_links: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()


def read_config(python: Path, settings: Settings, environ: Mapping[str, str]) -> PipConfig:
    """What pip of that Python is configured with, then what `LH_PIP_ARGS` adds.

    `environ` is the environment that pip would run in. A pip that cannot be asked has no
    configuration.
    """
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "config", "list"]
    try:
        listed = subprocess.run(
            command, env=dict(environ), capture_output=True, text=True, timeout=30, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        listed = ""
    return parse_config(listed, settings.pip_args)


def parse_config(listed: str, pip_args: Sequence[str]) -> PipConfig:
    """From the lines of `pip config list`, and arguments such as `--find-links=…`."""
    found: dict[str, list[str]] = {"find-links": [], "index-url": [], "extra-index-url": []}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        if (option := key.rpartition(".")[2]) in found:
            found[option] += _unquoted(value).split()
    short = {"-f": "find-links", "-i": "index-url"}
    for position, arg in enumerate(pip_args):
        option, equals, value = arg.partition("=")
        option = short.get(option, option.removeprefix("--"))
        if option in found:
            found[option] += [value] if equals else list(pip_args[position + 1 : position + 2])
    unique = {option: tuple(dict.fromkeys(values)) for option, values in found.items()}
    return PipConfig(
        find_links=unique["find-links"],
        indexes=tuple(dict.fromkeys(unique["index-url"] + unique["extra-index-url"])),
    )


def _unquoted(value: str) -> str:
    """`pip config list` prints the `repr` of each value."""
    try:
        return str(ast.literal_eval(value))
    except (ValueError, SyntaxError):
        return value


NO_SPACE = "No space left on device"
_NO_MATCH = re.compile(r"No matching distribution found for ([A-Za-z0-9._-]+)==(\S+)")
NO_ANSWER = re.compile(
    r"connection broken by|Failed to establish a new connection|Name or service not known"
    r"|Temporary failure in name resolution|Read timed out|ConnectTimeout|ProxyError|HTTP error 5"
)


def explain(output: str, root: Path, stack: str) -> LighthouseError:
    """What a failed `pip install` of a stack's pins means.

    Args:
        output: what pip printed, both streams; other text around it does no harm.
        root: of the repository, to point at a pin that does not exist.
        stack: whose pins they are.

    Returns:
        DefinitionError when an index answered and does not have the pin, else InfrastructureError.
    """
    errors = re.findall(r"ERROR: (.+)", output)
    if NO_SPACE in output:
        return InfrastructureError(
            f"stack {stack}: the disk is full. Make room (`lh-ci clean` removes what is ours), "
            "or name another folder in LH_STATE."
        )
    if "CERTIFICATE_VERIFY_FAILED" in output:
        return InfrastructureError(
            f"stack {stack}: pip does not trust the index's certificate. Name the CA certificates "
            "that this network uses in LH_CA_BUNDLE."
        )
    # pip calls an index that is silent "no matching distribution" as well
    if (missing := _NO_MATCH.search(output)) and not NO_ANSWER.search(output):
        package, version = missing.groups()
        known = re.search(r"\(from versions: ([^)]*)\)", output)
        newest = ", ".join(known[1].split(", ")[-3:]) if known and known[1] != "none" else "none"
        told = f"no index has a wheel of {version} for this Python. Newest that it has: {newest}."
        return pin_problem(root, ("stacks", stack, "packages", package), told)
    if NO_ANSWER.search(output):
        wanted = f" for {missing[1]} {missing[2]}" if missing else ""
        return InfrastructureError(
            f"stack {stack}: no package index answered{wanted}. Check the network, name a mirror "
            "in LH_PIP_ARGS, or a folder that has the wheels in LH_WHEELS."
        )
    last = errors[-1] if errors else (output.strip().splitlines() or ["it said nothing"])[-1]
    return InfrastructureError(f"stack {stack}: pip failed: {last:.500}")
