"""Files of the repository as definitions: a name, where its parts stand, and what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from orchestrator.config.models import Model
from orchestrator.config.source import Source, read
from orchestrator.config.validate import validate
from orchestrator.errors import Problem

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, kw_only=True)
class Definition(Generic[M]):
    """One YAML file. With problems, `value` is what is left of it, or None."""

    name: str
    """The file's stem."""
    source: Source
    value: M | None
    complete: bool
    """`value` says all that the file says."""

    def declared(self, key: str) -> tuple[str, ...]:
        """The names under a top-level key of the file, right or wrong."""
        data = self.source.data
        found = data.get(key) if isinstance(data, dict) else None
        return tuple(found) if isinstance(found, dict) else ()


def whole(definition: Definition[M]) -> M:
    """The value of a definition without problems."""
    assert definition.value is not None, definition.source.file
    return definition.value


def read_text(root: Path, file: str, problems: list[Problem]) -> str | None:
    """The text of a file; None and a problem when it cannot be read."""
    try:
        return (root / file).read_bytes().decode("utf-8")
    except FileNotFoundError:
        problems.append(Problem(file, 0, 0, "the file is missing"))
    except UnicodeDecodeError as e:
        problems.append(Problem(file, 0, 0, f"not UTF-8: byte {e.start:,}"))
    except OSError as e:
        problems.append(Problem(file, 0, 0, f"cannot be read: {e.strerror}"))
    return None


def read_definition(
    root: Path, file: str, model: type[M], problems: list[Problem]
) -> Definition[M]:
    """One YAML file under `root`; what is wrong with it is added to `problems`."""
    name = Path(file).stem
    text = read_text(root, file, problems)
    if text is None:
        return Definition(name=name, source=Source(file=file, data={}), value=None, complete=False)
    source, wrong = read(file, text)
    problems += wrong
    if wrong and source.data is None:
        return Definition(name=name, source=source, value=None, complete=False)
    checked = validate(model, source)
    told = {(p.line, p.column) for p in wrong}
    problems += [p for p in checked.problems if (p.line, p.column) not in told]
    return Definition(
        name=name,
        source=source,
        value=checked.value,
        complete=checked.complete and not wrong,
    )


def read_folder(
    root: Path, folder: str, model: type[M], problems: list[Problem]
) -> dict[str, Definition[M]]:
    """All YAML files of a folder and of those in it, by name; names must be unique."""
    found: dict[str, Definition[M]] = {}
    for file in named_files(root, folder, (".yaml", ".yml"), r"[a-z][a-z0-9_-]*", problems):
        found[Path(file).stem] = read_definition(root, file, model, problems)
    return found


def named_files(
    root: Path, folder: str, suffixes: tuple[str, ...], pattern: str, problems: list[Problem]
) -> Iterator[str]:
    """Files under a folder whose stems are names, each name once, sorted; `_…` are left out."""
    first: dict[str, str] = {}
    # what stands deeper gives way
    for path in sorted((root / folder).rglob("*"), key=lambda p: (len(p.parts), p)):
        file = path.relative_to(root).as_posix()
        if path.suffix not in suffixes or path.name.startswith(("_", ".")) or not path.is_file():
            continue
        if not re.fullmatch(pattern, path.stem):
            allowed = "lower-case letters, digits and `_`" + (" or `-`" if "-]" in pattern else "")
            message = f"`{path.stem}` is no name: begin with a letter, use {allowed}"
            problems.append(Problem(file, 0, 0, message))
        elif path.stem in first:
            message = f"the name `{path.stem}` is taken by {first[path.stem]}"
            problems.append(Problem(file, 0, 0, message))
        else:
            first[path.stem] = file
            yield file
