"""Programs under test: found and parsed, never imported nor run."""

from __future__ import annotations

import ast
import hashlib
import warnings
from pathlib import Path
from typing import get_args

from orchestrator.config.files import named_files
from orchestrator.config.objects import Entry, WorkloadFile
from orchestrator.config.suggest import nearest
from orchestrator.errors import Problem

FOLDER = "recipes/workloads"


def read_workloads(
    root: Path, problems: list[Problem]
) -> tuple[dict[str, WorkloadFile], tuple[str, ...]]:
    """The workloads of a repository by name, and all names, those with problems included."""
    found: dict[str, WorkloadFile] = {}
    names: list[str] = []
    for file in named_files(root, FOLDER, (".py",), r"[a-z][a-z0-9_]*", problems):
        names.append(Path(file).stem)
        workload = read_workload(root / file, file, problems)
        if workload is not None:
            found[workload.name] = workload
    return found, tuple(names)


def read_workload(path: Path, file: str, problems: list[Problem]) -> WorkloadFile | None:
    """One file in a frontend's convention; `file` is how messages name it.

    None when it cannot be read, parsed, or lacks a part: `problems` then tells which.
    """
    try:
        content = path.read_bytes()
    except OSError as e:
        problems.append(Problem(file, 0, 0, f"cannot be read: {e.strerror}"))
        return None
    try:
        with warnings.catch_warnings():
            # an odd escape in somebody's docstring is theirs to hear of when it runs
            warnings.simplefilter("ignore")
            tree = ast.parse(content)
    except SyntaxError as e:
        problems.append(Problem(file, e.lineno or 0, e.offset or 0, f"not valid Python: {e.msg}"))
        return None
    except (ValueError, RecursionError) as e:
        problems.append(Problem(file, 0, 0, f"not valid Python: {e}"))
        return None
    bound = _bound_names(tree)
    problems += [Problem(file, 0, 0, message) for message in _missing(bound)]
    if _missing(bound):
        return None
    docstring = (ast.get_docstring(tree) or "").strip()
    return WorkloadFile(
        name=path.stem,
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        about=docstring.partition("\n")[0].strip(),
        entry=next(entry for entry in get_args(Entry) if entry in bound),
    )


def _missing(bound: set[str]) -> list[str]:
    messages = []
    if not bound & set(get_args(Entry)):
        messages.append(
            "defines neither a class `Model` (PyTorch) nor a function `model` (JAX) or `launch` "
            "(Triton)"
        )
    if "get_inputs" not in bound:
        meant = nearest("get_inputs", bound - {"get_init_inputs"})
        instead = f". Did you mean `{meant}` to be it?" if meant else ""
        messages.append(f"defines no function `get_inputs`{instead}")
    return messages


def _bound_names(tree: ast.Module) -> set[str]:
    """What the module binds at its top level."""
    names: set[str] = set()
    for statement in tree.body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(statement.name)
            case ast.Assign():
                names.update(t.id for t in statement.targets if isinstance(t, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Import() | ast.ImportFrom():
                names.update((a.asname or a.name).partition(".")[0] for a in statement.names)
    return names
