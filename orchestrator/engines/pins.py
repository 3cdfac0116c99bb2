"""The pins, as engines need them: read alone, and pointed at when an index refuses one."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from pydantic import ValidationError

from orchestrator.config.models import Pins, StackPins
from orchestrator.config.suggest import unknown
from orchestrator.errors import DefinitionError, Problem, UsageError

PINS_FILE = "images/pins.yaml"


def read_pins(root: Path) -> Pins:
    """The pins of the repository at `root`.

    Raises:
        DefinitionError: the file is missing or wrong. `lh-ci check` says more about it.
    """
    try:
        text = (root / PINS_FILE).read_text(encoding="utf-8")
        # by way of JSON, where a list may become a tuple and a date is a string
        return Pins.model_validate_json(json.dumps(yaml.safe_load(text), default=str))
    except OSError as error:
        raise DefinitionError(f"{PINS_FILE}: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise DefinitionError(f"{PINS_FILE}: {error}") from error
    except ValidationError as error:
        problems = [
            Problem(PINS_FILE, 0, 0, f"{'.'.join(map(str, e['loc']))}: {e['msg']}")
            for e in error.errors()
        ]
        raise DefinitionError(problems) from error


def stack_pins(pins: Pins, stack: str) -> StackPins:
    """The pins of one stack.

    Raises:
        UsageError: there is no such stack; says which there are.
    """
    if stack not in pins.stacks:
        raise UsageError(unknown("stack", stack, pins.stacks))
    return pins.stacks[stack]


def pin_problem(root: Path, path: tuple[str, ...], message: str) -> DefinitionError:
    """The error for one pin, at its place in the file.

    `path`: keys from the top, such as `("stacks", "pytorch", "packages", "torch")`.
    """
    line, column = _place(root / PINS_FILE, path)
    return DefinitionError([Problem(PINS_FILE, line, column, f"{'.'.join(path)}: {message}")])


def _place(file: Path, path: tuple[str, ...]) -> tuple[int, int]:
    """Line and column (from 1) of a key, or of the last of its parents that is there."""
    try:
        node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, yaml.YAMLError):
        return 0, 0
    line = column = 0
    for key in path:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        found = next(((k, v) for k, v in pairs if k.value == key), None)
        if found is None:
            break
        line, column = found[0].start_mark.line + 1, found[0].start_mark.column + 1
        node = found[1]
    return line, column
