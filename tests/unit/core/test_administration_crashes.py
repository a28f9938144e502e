"""A coordinator dies at every call of every command; another one finishes what was committed."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from streamshard.core.coordinator import Coordinator
from tests.unit.core.driving import (
    Member,
    Site,
    add_group,
    create,
    drop_group,
    drop_stream,
    live_on,
    rollback,
    scale,
    shape,
)

Call = Callable[[Coordinator], Coroutine[Any, Any, object]]


def _create(coordinator: Coordinator) -> Coroutine[Any, Any, object]:
    return coordinator.create_stream(create(2))


def _scale_out(coordinator: Coordinator) -> Coroutine[Any, Any, object]:
    return coordinator.scale(scale(4))


def _scale_in(coordinator: Coordinator) -> Coroutine[Any, Any, object]:
    return coordinator.scale(scale(1))


def _roll_back(coordinator: Coordinator) -> Coroutine[Any, Any, object]:
    return coordinator.rollback(rollback())


def _add_group(coordinator: Coordinator) -> Coroutine[Any, Any, object]:
    return coordinator.create_group(add_group())


def _drop_group(coordinator: Coordinator) -> Coroutine[Any, Any, object]:
    return coordinator.delete_group(drop_group())


def _drop_stream(coordinator: Coordinator) -> Coroutine[Any, Any, object]:
    return coordinator.delete_stream(drop_stream())


CRASHES: list[tuple[str, tuple[Call, ...], Call]] = [
    ("create", (), _create),
    ("scale out", (_create,), _scale_out),
    ("scale in", (_create,), _scale_in),
    ("rollback out", (_create, _scale_out), _roll_back),
    ("rollback in", (_create, _scale_in), _roll_back),
    ("create group", (_create,), _add_group),
    ("delete group", (_create,), _drop_group),
    ("delete stream", (_create,), _drop_stream),
]


@pytest.mark.parametrize(("before", "crashing"), [case[1:] for case in CRASHES], ids=[case[0] for case in CRASHES])
def test_a_coordinator_may_die_at_any_call_and_another_finishes_what_was_committed(
    before: tuple[Call, ...], crashing: Call
) -> None:
    undisturbed, died, ends = _ends(before, crashing, None), 0, []
    unchanged = _ends(before, None, None)

    while (end := _ends(before, crashing, died)) is not None:
        ends.append(end)
        died += 1

    assert died > 4
    assert undisturbed not in (None, unchanged)
    assert [end for end in ends if end not in (undisturbed, unchanged)] == []
    assert ends[0] == unchanged
    assert ends[-1] == undisturbed
    assert sorted(ends, key=lambda end: end == undisturbed) == ends


def _ends(before: tuple[Call, ...], crashing: Call | None, steps: int | None) -> tuple[object, ...] | None:
    """What the stream comes to if a coordinator dies after so many calls; None if it was done before that."""
    site = Site(empty=True)
    first, second = site.node("first"), site.node("second")
    for call in before:
        first.run(call(first.coordinator))
    if crashing is not None and steps is None:
        first.run(crashing(first.coordinator))
    elif crashing is not None and steps is not None:
        errand = first.start(crashing(first.coordinator))
        for _ in range(steps + 1):
            errand.step()
            if errand.done:
                return None
        errand.kill()
    live_on(site, second, Member())
    return shape(site)


@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_a_coordinator_may_die_at_any_call_of_a_tick_that_seals(steps: int) -> None:
    site = Site()
    first, second = site.node("first"), site.node("second")
    first.run(first.coordinator.scale(scale(1)))
    site.pass_time(6_000, first)
    for node in site.nodes:
        node.clock.advance(1_000)
    errand = first.start(first.coordinator.tick())
    for _ in range(steps):
        if not errand.done:
            errand.step()
    errand.kill()

    live_on(site, second, Member(), 20)

    assert shape(site)[:4] == ("ACTIVE", 1, "OS", [(2, 1, "DEPRECATED")])
