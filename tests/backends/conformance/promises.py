"""The promises of `backends.base.Backend`, one function each; a wrong backend breaks at least one.

Each takes a bench and raises AssertionError, or what the backend raised, when it is not kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

from orchestrator.backends.base import NothingLeftError
from orchestrator.backends.contract import ARGV, PACK
from tests.backends.conformance.bench import WARRANT, Bench, until

Promise = Callable[[Bench], None]
T = TypeVar("T")


def the_same_key_is_the_same_submission(bench: Bench) -> None:
    given = bench.parcel()
    ticket = bench.client().submit(given)
    client = bench.client()
    assert client.submit(given) == ticket
    bench.end(given.job)
    bench.ended(ticket)
    assert client.submit(given) == ticket
    assert len(bench.ended(ticket).goes) == 1
    assert len(bench.ran(given.job)) == 1


def another_key_is_another_submission(bench: Bench) -> None:
    first = bench.parcel()
    second = dataclasses.replace(first, key=f"{first.key}~1")
    client = bench.client()
    tickets = [client.submit(each) for each in (first, second)]
    assert len(set(tickets)) == 2
    for ticket, given in zip(tickets, (first, second), strict=True):
        bench.end(given.job)
        bench.ended(ticket)
    goes = [go.id for ticket in tickets for go in bench.sight(ticket).goes]
    assert len(set(goes)) == len(goes) == 2


def what_waits_has_no_go_and_has_not_ended(bench: Bench) -> None:
    bench.hold()
    client = bench.client()
    ticket = client.submit(bench.parcel())
    for _ in range(2):
        sight = bench.sight(ticket)
        assert (sight.goes, sight.ended, sight.cancelled) == ((), False, False)
    client.cancel(ticket, "enough")
    bench.free()


def what_runs_is_told(bench: Bench) -> None:
    given = bench.parcel()
    client = bench.client()
    ticket = client.submit(given)
    bench.began(given.job)
    for _ in range(2):
        sight = until(lambda: client.watch([ticket])[ticket], "a sight")
        go = _only(sight.goes)
        assert (sight.ended, go.ended, go.lost, go.cancelled) == (False,) * 4
        assert go.machine
    bench.end(given.job)
    after = bench.ended(ticket)
    assert [each.id for each in after.goes] == [go.id]
    assert after.goes[0].ended
    assert not after.goes[0].lost


def what_nobody_knows_has_ended(bench: Bench) -> None:
    sight = bench.client().watch([bench.unknown])[bench.unknown]
    assert (sight.goes, sight.ended) == ((), True)


def several_are_watched_at_once(bench: Bench) -> None:
    bench.hold()
    client = bench.client()
    tickets = [client.submit(bench.parcel()) for _ in range(3)]
    assert set(client.watch(tickets)) == set(tickets)
    assert dict(client.watch([])) == {}
    for ticket in tickets:
        client.cancel(ticket, "enough")
    bench.free()


def what_has_ended_stays_so(bench: Bench) -> None:
    given = bench.parcel()
    client = bench.client()
    ticket = client.submit(given)
    bench.end(given.job)
    sight = bench.ended(ticket)
    assert [bench.sight(ticket), bench.sight(ticket)] == [sight, sight]
    assert len(bench.ran(given.job)) == 1


def goes_are_in_the_order_of_time(bench: Bench) -> None:
    given = bench.parcel()
    ticket = bench.client().submit(given)
    bench.lose(given.job)
    bench.end(given.job)
    sight = bench.ended(ticket)
    assert len(sight.goes) == 2
    lost, last = sight.goes
    assert (lost.ended, lost.lost, lost.cancelled) == (True, True, False)
    assert lost.why
    assert (last.ended, last.lost) == (True, False)
    assert lost.id != last.id
    assert not sight.cancelled
    assert bench.result(bench.client(), ticket, given.job, last.id) == given.job


def what_a_go_left_is_collected_as_often_as_asked(bench: Bench) -> None:
    given, other = bench.parcel(), bench.parcel()
    client = bench.client()
    for each in (given, other):
        ticket = client.submit(each)
        bench.end(each.job)
        go = _only(bench.ended(ticket).goes)
        for asking in (client, client, bench.client()):
            assert bench.result(asking, ticket, each.job, go.id) == each.job


def nothing_is_told_as_nothing(bench: Bench) -> None:
    given = bench.parcel()
    client = bench.client()
    ticket = client.submit(given)
    bench.began(given.job)
    go = _only(until(lambda: client.watch([ticket])[ticket].goes, "a go"))
    for name in (go.id, "999999"):
        for _ in range(2):
            _nothing(bench, ticket, given.job, name)
    bench.end(given.job)
    bench.ended(ticket)


def _nothing(bench: Bench, ticket: str, job: str, go: str) -> None:
    archive = bench.folder / "nothing.tar.gz"
    try:
        bench.client().collect(ticket, job, go, archive)
    except NothingLeftError:
        assert not archive.exists()
    else:
        raise AssertionError(f"{go} left nothing, and it was collected")


def what_waits_can_be_cancelled(bench: Bench) -> None:
    bench.hold()
    given = bench.parcel()
    client = bench.client()
    ticket = client.submit(given)
    for asking in (client, client, bench.client()):
        asking.cancel(ticket, "enough")
    sight = bench.ended(ticket)
    assert (sight.goes, sight.cancelled) == ((), True)
    bench.free()
    after = bench.parcel()  # the machine has seen every one that came before
    last = client.submit(after)
    bench.end(after.job)
    bench.ended(last)
    assert bench.ran(given.job) == []


def what_runs_can_be_cancelled(bench: Bench) -> None:
    given = bench.parcel()
    client = bench.client()
    ticket = client.submit(given)
    bench.began(given.job)
    for asking in (client, client, bench.client()):
        asking.cancel(ticket, "enough")
    sight = bench.ended(ticket)
    assert sight.cancelled
    go = _only(sight.goes)
    assert (go.ended, go.lost, go.cancelled) == (True, True, True)
    assert go.why
    after = bench.parcel()  # the machine is free again
    last = client.submit(after)
    bench.end(after.job)
    assert not bench.ended(last).cancelled
    assert len(bench.ran(given.job)) == 1


def what_is_over_is_not_changed_by_cancelling_it(bench: Bench) -> None:
    given = bench.parcel()
    client = bench.client()
    ticket = client.submit(given)
    bench.end(given.job)
    sight = bench.ended(ticket)
    client.cancel(ticket, "enough")
    assert bench.sight(ticket) == client.watch([ticket])[ticket] == sight
    assert bench.result(bench.client(), ticket, given.job, sight.goes[0].id) == given.job


def what_is_recorded_can_be_forgotten(bench: Bench) -> None:
    given, other = bench.parcel(), bench.parcel()
    client = bench.client()
    tickets = [client.submit(each) for each in (given, other)]
    for each, ticket in zip((given, other), tickets, strict=True):
        bench.end(each.job)
        bench.ended(ticket)
    for asking in (client, client, bench.client()):
        asking.forget(given.job)
    client.forget("nobody.knows")
    go = _only(bench.sight(tickets[1]).goes)
    assert bench.result(client, tickets[1], other.job, go.id) == other.job
    assert bench.sight(tickets[0]).ended


def whoever_comes_back_sees_the_same(bench: Bench) -> None:
    given, waiting = bench.parcel(), bench.parcel()
    first = bench.client()
    running = first.submit(given)
    bench.began(given.job)
    bench.hold()
    queued = first.submit(waiting)
    tickets = [running, queued]
    assert bench.client().watch(tickets) == first.watch(tickets)
    bench.end(given.job)
    bench.ended(running)
    first.cancel(queued, "enough")
    bench.ended(queued)
    assert bench.client().watch(tickets) == bench.client().watch(tickets) == first.watch(tickets)
    bench.free()


def the_machine_runs_the_contract(bench: Bench) -> None:
    given = bench.parcel()
    ticket = bench.client().submit(given)
    bench.end(given.job)
    bench.ended(ticket)
    ran = _only(bench.ran(given.job))
    assert ran.argv == ARGV
    assert _only(bench.packed(given.job)) == PACK


def the_job_arrives_byte_for_byte(bench: Bench) -> None:
    given = bench.parcel()
    ticket = bench.client().submit(given)
    bench.end(given.job)
    bench.ended(ticket)
    ran = _only(bench.ran(given.job))
    assert {"job.json", "order.json", "workloads/sum.py", WARRANT} <= set(ran.job)
    assert ran.job == bench.given(given.job)


def _only(several: Sequence[T]) -> T:
    assert len(several) == 1, several
    return several[0]


PROMISES: tuple[Promise, ...] = (
    the_same_key_is_the_same_submission,
    another_key_is_another_submission,
    what_waits_has_no_go_and_has_not_ended,
    what_runs_is_told,
    what_nobody_knows_has_ended,
    several_are_watched_at_once,
    what_has_ended_stays_so,
    goes_are_in_the_order_of_time,
    what_a_go_left_is_collected_as_often_as_asked,
    nothing_is_told_as_nothing,
    what_waits_can_be_cancelled,
    what_runs_can_be_cancelled,
    what_is_over_is_not_changed_by_cancelling_it,
    what_is_recorded_can_be_forgotten,
    whoever_comes_back_sees_the_same,
    the_machine_runs_the_contract,
    the_job_arrives_byte_for_byte,
)
