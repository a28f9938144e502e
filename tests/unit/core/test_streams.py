"""The dispatch: every command finds its rule, and is refused in words where it cannot be done."""

import attrs
import pytest

from streamshard.core.admin import Author
from streamshard.core.ids import GroupName
from streamshard.core.stream_commit import ACTIONS
from streamshard.core.stream_events import (
    AdminCommand,
    FencesSeen,
    GroupsSeen,
    LayoutRaised,
    Probed,
    Provisioned,
    Sealed,
    StreamCommand,
    Tidied,
    Undo,
)
from streamshard.core.streams import decide_stream
from streamshard.errors import InvalidRequest, MetadataSyncInProgress, StateConflict, StreamNotFound
from tests.unit.core.stream_bench import (
    ORDERS,
    Shop,
    add_group,
    amend,
    create,
    drop_group,
    drop_stream,
    opened,
    retain,
    rollback,
    scale,
)

EVERY: tuple[AdminCommand, ...] = (
    create(1),
    add_group("billing"),
    scale(3),
    rollback(),
    amend("theirs"),
    retain(),
    drop_group("billing"),
    drop_stream(),
)
ANSWERS: tuple[StreamCommand, ...] = (
    Undo(ORDERS),
    Provisioned(()),
    Sealed(()),
    LayoutRaised(()),
    Tidied(()),
    Probed(()),
    FencesSeen(()),
    GroupsSeen(()),
)


def test_every_command_of_an_operator_has_a_name_for_the_audit() -> None:
    assert set(ACTIONS) == {type(command) for command in EVERY}


@pytest.mark.parametrize("command", EVERY)
def test_an_operator_without_a_name_is_refused(command: AdminCommand) -> None:
    shop, _ = opened(1)

    refusal = shop.do(attrs.evolve(command, author=Author(" ", "because"))).refusal

    assert isinstance(refusal, InvalidRequest)
    assert refusal.message.startswith("requestedBy: ")


@pytest.mark.parametrize("command", [scale(3), rollback(), retain(), drop_group("billing"), drop_stream()])
def test_what_can_hurt_needs_a_reason(command: AdminCommand) -> None:
    shop, _ = opened(1)

    refusal = shop.do(attrs.evolve(command, author=Author("ann"))).refusal

    assert isinstance(refusal, InvalidRequest)
    assert refusal.message.startswith("reason: ")


@pytest.mark.parametrize("command", EVERY)
def test_nothing_is_changed_while_a_group_is_in_quarantine(command: AdminCommand) -> None:
    shop, _ = opened(1)
    shop.quarantined = (GroupName("billing"),)

    assert isinstance(shop.do(command).refusal, MetadataSyncInProgress)


@pytest.mark.parametrize("command", EVERY[2:])
def test_what_was_never_created_is_not_found(command: AdminCommand) -> None:
    shop = Shop()

    refusal = shop.do(command).refusal

    assert isinstance(refusal, StreamNotFound)
    assert "'orders'" in refusal.message
    assert shop.stored is None


@pytest.mark.parametrize("command", [scale(3), rollback(), amend("theirs"), retain()])
@pytest.mark.parametrize("given_up", [(), (Undo(ORDERS),)])
def test_an_unfinished_stream_is_not_changed(command: AdminCommand, given_up: tuple[Undo, ...]) -> None:
    shop = Shop()
    shop.do(create(1))
    for undo in given_up:
        shop.do(undo)

    assert isinstance(shop.do(command).refusal, StateConflict)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_about_nothing_changes_nothing(answer: StreamCommand) -> None:
    shop = Shop()
    gone, _ = opened(1)
    gone.do(drop_stream())

    assert [shop.do(answer).changed, gone.do(answer).changed] == [False, False]


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_empty_answer_changes_nothing(answer: StreamCommand) -> None:
    shop, _ = opened(2)
    before = shop.record

    outcome = shop.do(answer)

    assert (outcome.changed, outcome.record is before) == (False, True)


@pytest.mark.parametrize("command", [*EVERY, *ANSWERS])
def test_the_same_decision_is_made_twice(command: StreamCommand) -> None:
    shop, _ = opened(2, "billing", "audit")
    context = shop.context(command)

    assert repr(decide_stream(shop.record, command, context)) == repr(decide_stream(shop.record, command, context))
