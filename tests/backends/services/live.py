"""Services whose machines work: what comes over HTTP goes to a farm, and what it makes, back."""

from __future__ import annotations

import io
import json
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.backends import parcel, slip
from orchestrator.backends.base import Go, Parcel, Sight
from orchestrator.backends.buildkite.backend import KEY, SLIP, STEPS
from tests.backends.farm import Farm
from tests.backends.services.conversation import Answer, Asked, Conversation

NOTHING = Answer({"message": "Not Found"}, 404)


@dataclass
class Live(Conversation):
    """A service in front of a farm."""

    farm: Farm | None = None
    keys: list[str] = field(default_factory=list)
    """Of submissions; a ticket is one more than an index."""
    folders: list[Path] = field(default_factory=list)
    """Where jobs were made again."""
    sights: dict[str, Sight] = field(default_factory=dict)

    def answer(self, asked: Asked) -> Answer:
        """As the service would."""
        self.asked.append(asked)
        found = self.reply(asked)
        return NOTHING if found is None else found

    def reply(self, asked: Asked) -> Answer | None:
        """None: there is no such thing."""
        raise AssertionError(asked)

    @property
    def machines(self) -> Farm:
        """The farm."""
        assert self.farm is not None
        return self.farm

    def take(self, key: str, text: str) -> int:
        """A job that was handed over as text, made again and given to the farm; its ticket."""
        self.keys.append(key)
        work = self.machines.folder / f"received-{len(self.keys)}"
        folder = work / "job"
        folder.mkdir(parents=True)
        job = slip.restore(text, folder, self.machines.tree.root)
        self.folders.append(folder)
        archive = work / "job.tar.gz"
        sha256 = parcel.pack(folder, archive)
        self.machines.submit(
            Parcel(key=key, job=job.id, pool=job.pool, archive=archive, sha256=sha256)
        )
        return len(self.keys)

    def look(self, ticket: str) -> Sight:
        """Lets machines work for a moment."""
        key = self.keys[int(ticket) - 1]
        self.sights[ticket] = self.machines.watch([key])[key]
        return self.sights[ticket]

    def made(self, ticket: str) -> dict[int, bytes]:
        """What each go of a submission left."""
        submission = self.machines.submissions[self.keys[int(ticket) - 1]]
        return {
            number(name): path.read_bytes() for _, name, path in submission.goes if path is not None
        }


def number(go: str) -> int:
    """`go-3` is 3."""
    return int(go.rpartition("-")[2])


class LiveGitHub(Live):
    """GitHub."""

    def reply(self, asked: Asked) -> Answer | None:
        """See `Live.reply`."""
        path = asked.what.replace("/repos/o/r", "")
        if path == "POST /actions/workflows/job.yml/dispatches":
            inputs = asked.body["inputs"]
            return Answer({"workflow_run_id": self.take(inputs["key"], inputs["slip"])})
        if path == "GET /actions/workflows/job.yml/runs":
            listed = [{"id": n, "display_title": key} for n, key in enumerate(self.keys, 1)]
            return Answer({"workflow_runs": listed})
        if match := re.fullmatch(r"(GET|POST) /actions/runs/(\d+)(/\w+)?", path):
            return self._run(match[2], match[3] or "")
        if match := re.fullmatch(r"GET /actions/artifacts/(\d+)/zip", path):
            return self._zip(int(match[1]))
        return Answer({"default_branch": "main"}) if path.startswith("GET ") else None

    def _run(self, ticket: str, what: str) -> Answer | None:
        if int(ticket) > len(self.keys):
            return None
        match what:
            case "":
                sight = self.look(ticket)
                status = "completed" if sight.ended else "in_progress"
                conclusion = "cancelled" if sight.cancelled else "neutral"
                return Answer({"id": int(ticket), "status": status, "conclusion": conclusion})
            case "/jobs":
                return Answer({"jobs": [_github_job(go) for go in self.sights[ticket].goes]})
            case "/artifacts":
                name = f"results-{self.keys[int(ticket) - 1].partition('~')[0]}"
                listed = [{"id": n, "name": name} for n in self.made(ticket)]
                return Answer({"artifacts": listed})
            case "/cancel":
                self.machines.cancel(self.keys[int(ticket) - 1], "")
                return Answer({}, 202)
        return None

    def _zip(self, wanted: int) -> Answer | None:
        for ticket, key in enumerate(self.keys, 1):
            if (data := self.made(str(ticket)).get(wanted)) is not None:
                file = io.BytesIO()
                with zipfile.ZipFile(file, "w") as whole:
                    whole.writestr(f"{key.partition('~')[0]}.tar.gz", data)
                return Answer(file.getvalue())
        return None


def _github_job(go: Go) -> dict[str, Any]:
    return {
        "id": number(go.id),
        "run_attempt": 1,
        "status": "completed" if go.ended else "in_progress",
        "conclusion": "cancelled" if go.cancelled else "stale" if go.lost else "success",
        "runner_name": go.machine,
    }


class LiveBuildkite(Live):
    """Buildkite."""

    def reply(self, asked: Asked) -> Answer | None:
        """See `Live.reply`."""
        path = asked.what.replace("/organizations/o/pipelines/p/builds", "")
        if path == "POST ":
            given = asked.body["meta_data"]
            assert json.loads(given[STEPS])["steps"]
            return Answer({"number": self.take(given[KEY], given[SLIP])}, 201)
        if path == "GET ":
            wanted = asked.query[f"meta_data[{KEY}]"]
            numbered = enumerate(self.keys, 1)
            found = [{"number": n, "meta_data": {KEY: k}} for n, k in numbered if k in wanted]
            return Answer(found)
        if match := re.fullmatch(r"(GET|PUT) /(\d+)(/\w+)?", path):
            return self._build(match[2], match[3] or "")
        if match := re.fullmatch(r"GET /file/(\d+)/(\d+)", path):
            return Answer(self.made(match[1])[int(match[2])])
        return None

    def _build(self, ticket: str, what: str) -> Answer | None:
        if int(ticket) > len(self.keys):
            return None
        match what:
            case "":
                sight = self.look(ticket)
                over = "canceled" if sight.cancelled else "passed"
                jobs = [_buildkite_job(go) for go in sight.goes]
                return Answer({"state": over if sight.ended else "running", "jobs": jobs})
            case "/artifacts":
                name = self.keys[int(ticket) - 1].partition("~")[0]
                return Answer(
                    [
                        {
                            "filename": f"{name}.tar.gz",
                            "job_id": f"go-{n}",
                            "state": "finished",
                            "download_url": f"{self.url}/file/{ticket}/{n}",
                        }
                        for n in self.made(ticket)
                    ]
                )
            case "/cancel":
                self.machines.cancel(self.keys[int(ticket) - 1], "")
                return Answer({})
        return None


def _buildkite_job(go: Go) -> dict[str, Any]:
    over = "canceled" if go.cancelled else "failed" if go.lost else "passed"
    return {
        "id": go.id,
        "step_key": "job-x",
        "state": over if go.ended else "running",
        "exit_status": None if not go.ended else -1 if go.lost else 0,
        "created_at": f"{number(go.id):09}",
        "agent": {"name": go.machine},
    }
