"""Adding: once, whole, and never over something else."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from orchestrator.engines.locks import if_free
from orchestrator.results.archives.collect import add_archive
from orchestrator.results.archives.compact import compact
from orchestrator.results.archives.content import contents
from orchestrator.results.archives.store import Store
from orchestrator.results.archives.verify import verify
from tests.results.archives.samples import (
    JANUARY,
    TODAY,
    Died,
    Steps,
    add,
    fill,
    make_run,
    make_store,
    names,
    quiet,
    seen,
)

NAME = JANUARY[0]


def test_a_run_is_added_once(tmp_path: Path, kind: str) -> None:
    store, run = make_store(tmp_path, kind), make_run(tmp_path / "runs", NAME)
    assert [add(store, run).outcome for _ in range(3)] == ["added", "there", "there"]
    assert list(seen(store)) == [NAME]
    (name,) = names(store)
    assert (name == f"{NAME}.parquet") == (kind != "loose")


def test_two_machines_make_the_same_of_the_same_run(tmp_path: Path, kind: str) -> None:
    store = make_store(tmp_path, kind)
    outcomes = [add(store, make_run(tmp_path / each, NAME)).outcome for each in ("x", "y")]
    assert outcomes == ["added", "there"]


@pytest.mark.parametrize("merged", [False, True])
def test_another_run_of_that_name_is_refused(tmp_path: Path, kind: str, merged: bool) -> None:
    store = make_store(tmp_path, kind)
    add(store, make_run(tmp_path / "x", NAME))
    if merged:
        compact(store, TODAY, quiet)
    before = seen(store)
    again = add(store, make_run(tmp_path / "y", NAME, message="something else"))
    assert again.outcome == "refused"
    assert f"another run of that name, in {names(store)[0]}. What is in a" in again.why
    assert seen(store) == before


def test_every_field_of_a_row_tells_runs_apart(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    add(store, make_run(tmp_path / "x", NAME))
    changes: list[dict[str, Any]] = [
        {"seconds": 1.25},
        {"last_words": "other"},
        {"versions": {"torch": "2"}},
        {"status": "error"},
        {"peak_memory_bytes": 7},
    ]
    for number, changed in enumerate(changes):
        run = make_run(tmp_path / str(number), NAME, **changed)
        assert add(store, run).outcome == "refused"


def test_what_is_not_finished_is_left(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    run = make_run(tmp_path / "runs", NAME, ended=False)
    left = add(store, run)
    assert (left.outcome, left.why) == (
        "left",
        f"it was stopped: finish it (lh-ci run --resume {NAME}), or add it as it is: --as-is",
    )
    with if_free(run.folder / "lock"):
        assert add(store, run, as_is=True).why == "it is being run"
    assert names(store) == []
    assert add(store, run, as_is=True).outcome == "added"


def test_documents_that_cannot_be_read_are_not_forgotten(tmp_path: Path) -> None:
    store, run = make_store(tmp_path), make_run(tmp_path / "runs", NAME)
    (run.folder / "results" / "b.1.json").write_text("{")
    for _ in range(2):  # read, and from the cache
        left = add(store, run)
        assert left.outcome == "left"
        assert left.why.startswith("results/b.1.json is damaged: ")
    assert add(store, run, as_is=True).outcome == "added"
    (entry,), _ = store.entries()
    (record,) = store.archive(entry).runs
    assert record.unread[0].startswith("results/b.1.json is damaged: ")


def test_a_run_without_a_plan_is_left(tmp_path: Path) -> None:
    store, run = make_store(tmp_path), make_run(tmp_path / "runs", NAME)
    (run.folder / "plan.json").unlink()
    assert "plan.json is missing" in add(store, run).why


def test_artifacts_of_red_cells_are_kept(tmp_path: Path, kind: str) -> None:
    store, run = make_store(tmp_path, kind), make_run(tmp_path / "runs", NAME)
    for cell in ("a", "b"):
        run.write_artifact(cell, "ir/00-ingress.mlir", cell.encode())
    (run.artifacts("b") / "passwd").symlink_to("/etc/passwd")
    assert add(store, run, artifacts=True).artifacts == 1
    assert add(store, run, artifacts=True).outcome == "there"
    (digest,) = {
        path.rpartition("/")[2].split(".")[1] for path in _artifacts(store, f"artifacts/{NAME}")
    }
    with zipfile.ZipFile(io.BytesIO(store.objects.read(f"artifacts/{NAME}/b.{digest}.zip"))) as z:
        assert {name: z.read(name) for name in z.namelist()} == {"ir/00-ingress.mlir": b"b"}
    assert list(seen(store)) == [NAME]


def _artifacts(store: Store, folder: str) -> list[str]:
    objects = store.objects
    system = getattr(objects, "_system", None)
    if system is None:
        return [str(path) for path in (Path(objects.address) / folder).iterdir()]
    return [str(name) for name in system.ls(f"{objects._root}/{folder}", detail=False)]  # type: ignore[attr-defined]


def test_archives_are_added_run_by_run(tmp_path: Path, store: Store) -> None:
    compact(store, TODAY, quiet)
    other = make_store(tmp_path)
    entries, _ = store.entries()
    done = [added for e in entries for added in add_archive(other, store.path(e))]
    assert {each.outcome for each in done} == {"added"}
    assert seen(other) == seen(store)
    assert all(len(contents(other.path(e)).digests) == 1 for e in other.entries()[0])


def test_killed_at_any_step_it_is_there_or_not(tmp_path: Path, kind: str) -> None:
    run = make_run(tmp_path / "runs", NAME)
    run.write_artifact("b", "ir.mlir", b"ir")
    reference = make_store(tmp_path)
    add(reference, run, artifacts=True)

    def die(store: Store, step: str) -> None:
        raise Died(step)

    def still_right(store: Store) -> None:
        assert seen(store) in ({}, seen(reference))
        add(store, run, artifacts=True)
        assert seen(store) == seen(reference)
        assert verify(store, quiet).problems == ()

    steps = Steps(lambda: make_store(tmp_path, kind), lambda s: add(s, run, artifacts=True))
    assert steps.run(die, still_right) >= 4


@pytest.mark.parametrize("same", [True, False])
def test_another_collector_at_any_step(tmp_path: Path, kind: str, same: bool) -> None:
    mine = make_run(tmp_path / "x", NAME)
    other = mine if same else make_run(tmp_path / "y", NAME, message="something else")
    outcomes: list[set[str]] = []
    told: list[str] = []

    def add_other(store: Store, step: str) -> None:
        told.append(add(store, other).outcome)

    def still_right(store: Store) -> None:
        problems = verify(store, quiet).problems
        if same or store.objects.exclusive:
            assert problems == ()
            assert len(seen(store)) == 1
        outcomes.append({told.pop(), "problems" if problems else ""})

    done: list[str] = []
    steps = Steps(lambda: make_store(tmp_path, kind), lambda s: done.append(add(s, mine).outcome))
    count = steps.run(add_other, still_right)
    assert count == len(outcomes) >= 3
    if same:
        assert set(done) <= {"added", "there"}
    else:
        # whoever comes second is told; both of two at once, where nobody can win
        assert all(
            "refused" in (mine_, *others)
            for mine_, others in zip(done[:count], outcomes, strict=True)
        )


def test_a_damaged_archive_is_in_the_way_until_somebody_looks(tmp_path: Path) -> None:
    store, run = make_store(tmp_path), make_run(tmp_path / "runs", NAME)
    store.objects.create(f"{NAME}.parquet", b"PAR1 but not really")
    with pytest.raises(Exception, match=rf"{NAME}\.parquet is damaged"):
        add(store, run)
    store.objects.remove(f"{NAME}.parquet")
    assert add(store, run).outcome == "added"


def test_where_names_say_what_is_inside_a_damaged_archive_is_mended(
    tmp_path: Path, template: Store
) -> None:
    store = make_store(tmp_path, "loose")
    fill(store, tmp_path / "runs", (NAME,))
    (name,) = names(store)
    store.objects.create(name, b"cut sho")
    assert seen_problems(store) == 1
    assert add(store, make_run(tmp_path / "again", NAME)).outcome == "added"
    assert seen(store)[NAME] == seen(template)[NAME]


def seen_problems(store: Store) -> int:
    """How many archives are damaged."""
    return len(verify(store, quiet).problems)
