"""What is left to do by hand: before jobs come to an agent's machine, and once it has left."""

from __future__ import annotations

from pathlib import Path

from orchestrator.backends.buildbot import folders
from orchestrator.cli.app import App
from orchestrator.cli.commands import myself
from orchestrator.cli.seat import Seated
from orchestrator.fleet import units

SYSTEM_UNITS = Path("/etc/systemd/system")


def steps(app: App, seated: Seated | None) -> list[str]:
    """What remains to be done before jobs come, in order."""
    if seated is None:
        local = f"{myself(app.services.environ)} run --as-agent"
        return [f"nothing connects it: with backend local, `{local}` does its jobs"]
    folder, lh_ci = Path(seated.folder), myself(app.services.environ)
    if seated.backend == "github":
        return [
            f"unpack GitHub's runner into {app.shown(folder / units.RUNNER)}",
            f"RUNNER_TOKEN=… sh {app.shown(folder / units.CONFIGURE)}",
            f"start it: {app.shown(folder / units.RUNNER / 'run.sh')}",
            _service(app, folder, [units.RUNNER_UNIT]),
        ]
    if seated.backend == "buildkite":
        found = [name for name in seated.files if name.endswith(".service")]
        token = folder / units.TOKEN_FILE
        missing = f"write {units.TOKEN_VARIABLE}=… into {app.shown(token)}, for you alone to read"
        return [*([] if token.exists() else [missing]), _service(app, folder, found)]
    master = "" if seated.has_master else " --master HOST:PORT"
    missing = (
        f"{lh_ci} buildbot worker --name {seated.agent}{master} --password-file FILE     with the "
        "password that the master's operator sends"
    )
    program = app.shown(folders.programs() / "buildbot-worker")
    return [
        *([] if (folder / folders.PASSWORD_FILE).exists() and not master else [missing]),
        f"start it: {program} start {app.shown(folder)}",
        _service(app, folder, [units.WORKER_UNIT]),
    ]


def farewell(seated: Seated) -> list[str]:
    """What is left to do elsewhere when an agent has left."""
    found = [name for name in seated.files if name.endswith(".service")]
    installed = [name for name in found if (SYSTEM_UNITS / name).exists()]
    paths = " ".join(str(SYSTEM_UNITS / name) for name in installed)
    by_backend = {
        "buildbot": "tell the master's operator, who runs `lh-ci buildbot master` again",
        "buildkite": "revoke its agent token, if it has one of its own",
        "github": "see that the repository's settings list no such runner any more",
    }
    service = f"sudo systemctl disable --now {' '.join(installed)} && sudo rm {paths}"
    return [*([service] if installed else []), by_backend[seated.backend]]


def _service(app: App, folder: Path, names: list[str]) -> str:
    paths = " ".join(app.shown(folder / name) for name in names)
    return (
        f"or as a service: sudo install -m 0644 {paths} {SYSTEM_UNITS} && sudo systemctl "
        f"daemon-reload && sudo systemctl enable --now {' '.join(names)}"
    )
