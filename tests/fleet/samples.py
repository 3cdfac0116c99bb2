"""A registered machine, and keys that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from orchestrator.fleet import public
from orchestrator.fleet.models import AgentFile

KEY_A = public.to_text(b"a" * 32)
KEY_B = public.to_text(b"b" * 32)
KEY_C = public.to_text(b"c" * 32)

AGENT = f"""\
schema: 1
vendor: intel
name: lab-1
owner: The compiler team
contact: ci@example.org
backend: buildbot
pools: [intel-cpu]
level: probation
keys:
  - key: {KEY_A}
    from: 2026-11-01
    until: 2027-11-01
revoked:
  - {{key: "{KEY_B}", since: 2026-11-10, reason: the disk was lost}}
terms:
  pipelines: ["torch_*"]
  branches: [main, release/*]
  hours: [22:00-06:00]
  jobs: 2
  priority: 5
  disk: 20GiB
  time: 1h
  forks: approved
"""

ORCHESTRATOR = f"""\
schema: 1
repositories: [https://example.org/lighthouse]
keys:
  - {{key: "{KEY_C}", from: 2026-11-01}}
"""

FILE = "agents/intel-lab-1.yaml"


def write_agents(root: Path) -> None:
    """One machine, and the orchestrator."""
    (root / "agents").mkdir(exist_ok=True)
    (root / FILE).write_text(AGENT, encoding="utf-8")
    (root / "agents/_orchestrator.yaml").write_text(ORCHESTRATOR, encoding="utf-8")


def agent(name: str = "lab-1", *, terms: dict[str, Any] | None = None, **fields: Any) -> AgentFile:
    """A registered machine; by default as above."""
    document = yaml.safe_load(AGENT)
    document |= {"name": name, **fields}
    document["terms"] |= terms or {}
    return AgentFile.model_validate_json(json.dumps(document, default=str))
