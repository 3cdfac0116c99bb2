"""Where a Debian release's packages come from, in both formats that apt reads."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import InfrastructureError

ETC_APT = Path("/etc/apt")


@dataclass(frozen=True, kw_only=True)
class Source:
    """One `deb` entry."""

    uri: str
    suite: str
    components: tuple[str, ...]
    options: tuple[str, ...] = ()
    """As in brackets: `trusted=yes`."""

    def line(self) -> str:
        """In the one-line format."""
        options = f"[{' '.join(self.options)}] " if self.options else ""
        return f"deb {options}{self.uri} {self.suite} {' '.join(self.components)}".rstrip()


def parse(text: str) -> tuple[Source, ...]:
    """The binary entries of an apt sources file, in either format, in order."""
    if re.search(r"(?im)^types:", text):
        return tuple(s for block in re.split(r"\n\s*\n", text) for s in _of_stanza(block))
    return tuple(s for line in text.splitlines() if (s := _of_line(line)) is not None)


def of_release(sources: Iterable[Source], release: str) -> tuple[Source, ...]:
    """The entries of a Debian release, its updates and its security fixes.

    Empty when the release itself is not among them: its updates alone are no distribution.
    """
    suites = (release, f"{release}-updates", f"{release}-security")
    found = tuple(dict.fromkeys(s for s in sources if s.suite in suites))
    return found if any(s.suite == release for s in found) else ()


def host_sources(release: str, folder: Path = ETC_APT) -> tuple[Source, ...]:
    """What this machine's own apt uses for that release; empty when it runs another.

    Only the `main` component, and no options: they name files of this machine.
    """
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.sources"))]
    files += sorted((folder / "sources.list.d").glob("*.list"))
    texts: list[str] = []
    for file in files:
        with contextlib.suppress(OSError):  # not there, or not for this user to read
            texts.append(file.read_text("utf-8", "replace"))
    every = (source for text in texts for source in parse(text) if "main" in source.components)
    return of_release(
        (Source(uri=s.uri, suite=s.suite, components=("main",)) for s in every), release
    )


def setting_sources(value: str, release: str) -> tuple[Source, ...]:
    """What `LH_APT_SOURCES` names: an apt sources file, or a mirror.

    Raises:
        InfrastructureError: it is neither.
    """
    if re.match(r"[a-z+]+://", value):
        return _of_mirror(value.rstrip("/"), release)
    file = Path(value).expanduser()
    try:
        found = parse(file.read_text("utf-8"))
    except OSError as error:
        raise InfrastructureError(
            f"LH_APT_SOURCES: {file}: {error.strerror or error}. Name an apt sources file, or the "
            "address of a mirror such as http://mirror.example/debian."
        ) from error
    if not found:
        raise InfrastructureError(f"LH_APT_SOURCES: {file} has no `deb` entry.")
    return found


def _of_mirror(uri: str, release: str) -> tuple[Source, ...]:
    # where a mirror has `…/debian`, it has the security fixes in `…/debian-security`
    pairs = [(uri, release), (uri, f"{release}-updates")]
    if uri.endswith("/debian"):
        pairs.append((f"{uri}-security", f"{release}-security"))
    return tuple(Source(uri=u, suite=s, components=("main",)) for u, s in pairs)


def _of_line(line: str) -> Source | None:
    match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*([^#]*)", line)
    if match is None:
        return None
    options, uri, suite, components = match.groups()
    return Source(
        uri=uri.rstrip("/"),
        suite=suite,
        components=tuple(components.split()),
        options=tuple((options or "").split()),
    )


def _of_stanza(block: str) -> Iterable[Source]:
    fields = _fields(block)
    if "deb" not in fields.get("types", "").split() or fields.get("enabled") == "no":
        return
    keys = fields.get("signed-by", "")
    options = [f"signed-by={keys}"] if keys.startswith("/") else []
    options += [f"{key}={fields[key]}" for key in ("trusted", "check-valid-until") if key in fields]
    for uri in fields.get("uris", "").split():
        for suite in fields.get("suites", "").split():
            yield Source(
                uri=uri.rstrip("/"),
                suite=suite,
                components=tuple(fields.get("components", "").split()),
                options=tuple(options),
            )


def _fields(block: str) -> Mapping[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in block.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace() and name:
            fields[name] += f" {line.strip()}"
        elif ":" in line:
            name, value = (part.strip() for part in line.split(":", 1))
            name = name.lower()
            fields[name] = value
    return fields
