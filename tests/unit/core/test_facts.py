"""What is kept of a group for whoever asks again."""

import json

import attrs

from streamshard.core.facts import StreamFacts, group_facts, group_of_text, group_text, stream_facts
from streamshard.core.group import Quarantine
from streamshard.core.ids import WallMillis
from streamshard.core.queries import GroupState, GroupView
from tests.unit.core.builders import A1, KEY, S0, A, B, group, holding, member
from tests.unit.core.stream_bench import opened


def a_view() -> GroupView:
    record = group(member(A, A1), member(B), holdings={S0: holding(A, A1)}, targets={S0: A})
    quarantined = attrs.evolve(record, quarantine=Quarantine("why", WallMillis(1)))
    return GroupView(opened(3)[0].record, quarantined, {})


def test_a_group_is_told_in_numbers_an_idle_member_as_well() -> None:
    facts = group_facts(a_view())

    assert (facts.key, facts.state, facts.shard_count) == (KEY, GroupState.ASSIGNING, 3)
    assert (dict(facts.targets), dict(facts.holdings)) == ({A: 1, B: 0}, {A: 1})
    assert facts.quarantine == "why"


def test_what_is_kept_says_the_same_when_it_is_read() -> None:
    facts = group_facts(a_view())

    assert group_of_text(group_text(facts)) == facts


def test_what_a_newer_coordinator_has_kept_besides_is_passed_over() -> None:
    facts = group_facts(a_view())
    kept = {**json.loads(group_text(facts)), "colour": "blue"}

    assert group_of_text(json.dumps(kept)) == facts


def test_a_stream_is_told_in_three_words() -> None:
    record = opened(3)[0].record

    assert stream_facts(record) == StreamFacts(record.prefix, 3, record.version.revision)
