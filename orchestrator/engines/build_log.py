"""What BuildKit prints while it builds: condensed for people, explained when it fails."""

from __future__ import annotations

import collections
import re
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.engines import pip
from orchestrator.engines.base import Progress
from orchestrator.engines.pins import pin_problem
from orchestrator.errors import (
    DefinitionError,
    InfrastructureError,
    LighthouseError,
    Problem,
)

_LINE = re.compile(r"#(?P<number>\d+) (?:(?P<time>\d+\.\d+) )?(?P<text>.*)")
_STEP = re.compile(r"\[(?!internal\])[^\]]*\] (?!FROM)[A-Z]+ |exporting to image")
_TITLE = re.compile(r"(\[[^\]]*\]) RUN .*?: \"([^\"]+)\"")
# the command, all of it, before what is wrong with it
_RAN = re.compile(r"(?:executor failed running \[.*\]|process \".*\" did not \w+ \w+): ", re.DOTALL)
_DONE = re.compile(r"DONE (\d+\.\d)s")
# what takes long, in the words of pip and apt
_DOWNLOADING = re.compile(r"\s*Downloading ([^-\s]+)-([^-\s]+)\S* \((\d+\.?\d* [MG]B)\)")
_INSTALLING = re.compile(r"\s*Installing collected packages: (.*)")
_TO_GET = re.compile(r"\s*Need to get (?!0 B)(\S+ [kMG]?B)\b.* of archives")
_KEPT = 400
"""Lines of one step that are kept to explain it."""
_SHOWN = 12
_LONG_STEP_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What failed in a build."""

    step: str
    """Empty: it failed before its first step, or between two."""
    error: str
    """BuildKit's own word on it."""
    output: str
    """What the step printed, or all that is known."""


@dataclass(kw_only=True)
class _Step:
    name: str = ""
    error: str = ""
    lines: collections.deque[str] = field(
        default_factory=lambda: collections.deque[str](maxlen=_KEPT)
    )


class BuildLog:
    """Takes the lines of one build (`--progress plain`)."""

    def __init__(self, image: str, progress: Progress) -> None:
        """`image`: what is built, for people."""
        self._image = image
        self._progress = progress
        self._steps: dict[str, _Step] = {}
        self._failed: _Step | None = None
        self._repeating = False
        self._rest: collections.deque[str] = collections.deque(maxlen=_KEPT)

    def line(self, line: str) -> None:
        """One line of output, without its newline."""
        # after a rule, the client repeats what failed
        self._repeating = self._repeating or line == "------"
        match = None if self._repeating else _LINE.fullmatch(line)
        if match is None:
            self._rest.append(line)
            return
        number, text = match["number"], match["text"]
        if match["time"]:
            self._output(number, text)
        elif _STEP.match(text) and number not in self._steps:
            self._steps[number] = _Step(name=_shortened(text))
            self._progress(f"{self._image}: {self._steps[number].name}")
        elif text.startswith("ERROR"):
            self._failed = self._steps.setdefault(number, _Step())
            self._failed.error = _RAN.sub("", text.removeprefix("ERROR: "))
        elif number in self._steps and (done := _DONE.match(text)):
            self._ended(float(done[1]))

    def _output(self, number: str, text: str) -> None:
        self._steps.setdefault(number, _Step()).lines.append(text)
        if told := _told(text):
            self._progress(f"{self._image}:   {told}")

    def _ended(self, seconds: float) -> None:
        if seconds >= _LONG_STEP_S:
            self._progress(f"{self._image}:   {seconds:.0f} s")

    def failure(self) -> Failure:
        """What failed; only after the build has."""
        if (step := self._failed) is not None:
            return Failure(step=step.name, error=step.error, output="\n".join(step.lines))
        rest = [line for line in self._rest if line.strip(" -")]
        return Failure(step="", error=rest[-1] if rest else "", output="\n".join(rest))


def _told(text: str) -> str:
    """A line of pip or apt, if it begins something long; else empty."""
    if match := _DOWNLOADING.match(text):
        return f"downloading {match[1]} {match[2]}, {match[3]}"
    if match := _INSTALLING.match(text):
        return f"installing {len(match[1].split(','))} packages"
    if match := _TO_GET.match(text):
        return f"downloading packages, {match[1]}"
    return ""


def _shortened(text: str) -> str:
    """A step on one line: by its title (`: "title"`) if it has one, without mounts."""
    if match := _TITLE.match(text):
        return f"{match[1]} {match[2]}"
    text = re.sub(r"--mount=\S+\s*", "", text)
    text = re.sub(r"\s+", " ", text)
    return text if len(text) <= 100 else f"{text[:99]}…"


# --- Why it failed ----------------------------------------------------------------------------

_NO_NETWORK = re.compile(
    r"Could not (?:resolve|connect)|Temporary failure (?:resolving|in name resolution)"
    r"|Failed to fetch|Connection (?:timed out|refused|failed)|no such host|i/o timeout"
    r"|TLS handshake timeout|network is unreachable"
)
_UNTRUSTED = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|[Cc]ertificate verification failed|x509: certificate"
)
_DISK = re.compile(r"[Nn]o space left on device|You don't have enough free space")
_NO_VERSION = re.compile(r"E: Version '([^']+)' for '([^']+)' was not found")
_NO_PACKAGE = re.compile(r"E: Unable to locate package (\S+)")
_UNMET = re.compile(r"^(\S+) \S+ (?:requires|has requirement) (.+)$", re.MULTILINE)
_NEVER_RAN = re.compile(r"failed to create (?:endpoint|shim|task)|OCI runtime|\brunc\b|cgroup")
_DOCKERFILE = re.compile(r"(?i)dockerfile parse error(?: on)? line (\d+): (.*)")
_ENGINE = re.compile(r"Cannot connect to the Docker daemon|error during connect|EOF$")


def explain(root: Path, folder: str, stack: str | None, failure: Failure) -> LighthouseError:
    """What a failed build means.

    Args:
        root: of the repository.
        folder: of the Dockerfile, in `images/`.
        stack: whose packages were installed; None: LLVM's.
        failure: from `BuildLog.failure`.
    """
    at = f"images/{folder}/Dockerfile"
    status = re.search(r"exit code: \d+", failure.error)
    told = failure.output.splitlines()[-_SHOWN:] or [failure.error]
    detail = "\n".join(
        [
            f"{at}: {failure.step or 'the build'} failed{f' ({status[0]})' if status else ''}:",
            *(f"    {line:.300}" for line in told),
        ]
    )
    return (
        _of_machine(failure, detail)
        or (_of_apt(root, failure.output) if stack is None else _of_pip(root, failure, stack))
        or _of_dockerfile(failure, at, detail)
    )


def _of_machine(failure: Failure, detail: str) -> LighthouseError | None:
    said = f"{failure.output}\n{failure.error}"
    if _DISK.search(said):
        advice = "The engine's disk is full: `docker system df` shows what is on it."
    elif _UNTRUSTED.search(said):
        advice = (
            "A certificate is not trusted: name this network's CA certificates in LH_CA_BUNDLE."
        )
    elif _NO_NETWORK.search(said):
        advice = (
            "The build could not reach where packages come from. Name mirrors in LH_APT_SOURCES "
            "and LH_PIP_ARGS, or try LH_BUILD_ARGS=--network=host."
        )
    elif _ENGINE.search(said):
        advice = "The engine stopped answering: is Docker's daemon still running?"
    elif _NEVER_RAN.search(failure.error):
        advice = "The engine could not even start the step: its log says more. Try restarting it."
    elif failure.error.endswith("exit code: 137"):
        advice = "It was killed: most likely this machine has too little memory."
    else:
        return None
    return InfrastructureError(f"{detail}\n{advice}")


def _of_apt(root: Path, output: str) -> LighthouseError | None:
    if match := _NO_VERSION.search(output):
        version, package = match.groups()
        told = f"the distribution has no version {version} of it. `apt-cache madison` lists them."
        return pin_problem(root, ("llvm", "packages", package), told)
    if match := _NO_PACKAGE.search(output):
        told = "the distribution has no such package."
        return pin_problem(root, ("llvm", "packages", match[1]), told)
    return None


def _of_pip(root: Path, failure: Failure, stack: str) -> LighthouseError | None:
    if unmet := _UNMET.search(failure.output):
        told = f"needs {unmet[2].rstrip('.')} (`pip check`). Pin the whole closure."
        return pin_problem(root, ("stacks", stack, "packages", unmet[1]), told)
    if failure.step and re.search(r"^ERROR: ", failure.output, re.MULTILINE):
        return pip.explain(failure.output, root, stack)
    return None


def _of_dockerfile(failure: Failure, at: str, detail: str) -> LighthouseError:
    if match := _DOCKERFILE.search(failure.output):
        return DefinitionError([Problem(at, int(match[1]), 1, match[2])])
    return DefinitionError(detail)
