"""Clients stop before coordinators give up, whatever the length and with clocks that run 1 % apart."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamshard.core.ids import Millis
from streamshard.core.timing import Timing, client_lease_ms, expiry_wait_ms

leases = st.integers(1, 10_000_000).map(Millis)


@pytest.mark.parametrize(
    ("lease", "client", "wait"),
    [
        (15_000, 14_100, 15_150),
        (10_000, 9_400, 10_100),
        (60_000, 56_400, 60_600),
        (3_000, 2_470, 3_030),
        (2_999, 2_519, 3_029),
        (1_000, 840, 1_010),
        (101, 83, 103),
    ],
)
def test_a_lease_is_shorter_for_the_client_and_longer_for_the_coordinator(lease: int, client: int, wait: int) -> None:
    assert (client_lease_ms(Millis(lease)), expiry_wait_ms(Millis(lease))) == (client, wait)


@given(leases)
def test_a_client_on_the_slowest_clock_stops_before_a_coordinator_on_the_fastest_expires_it(lease: Millis) -> None:
    slow_client = client_lease_ms(lease) * 100 / 99
    fast_coordinator = expiry_wait_ms(lease) * 100 / 101

    assert slow_client < fast_coordinator


@given(leases)
def test_a_longer_lease_never_waits_less(lease: Millis) -> None:
    assert expiry_wait_ms(Millis(lease + 1)) >= expiry_wait_ms(lease)


def test_the_default_durations_are_sound() -> None:
    assert Timing().problems() == ()


def test_the_durations_of_a_fast_demonstration_are_sound() -> None:
    fast = Timing(lease_ms=Millis(3_000), heartbeat_ms=Millis(500), tick_ms=Millis(200), routing_lease_ms=Millis(4_000))

    assert fast.problems() == ()


def test_a_client_lease_of_exactly_three_heartbeats_is_enough() -> None:
    assert Timing(lease_ms=Millis(15_000), heartbeat_ms=Millis(4_700)).problems() == ()


def test_a_lease_too_short_for_three_heartbeats_is_explained() -> None:
    timing = Timing(lease_ms=Millis(15_000), heartbeat_ms=Millis(4_701))

    assert timing.problems() == (
        "lease_ms: leaves clients 14100 ms, which must be at least three heartbeats of 4701 ms: "
        "lengthen lease_ms or shorten heartbeat_ms",
    )


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(Timing) if field.name != "lease_ms"])
def test_a_duration_below_one_millisecond_is_named(name: str) -> None:
    assert attrs.evolve(Timing(), **{name: Millis(0)}).problems() == (f"{name}: must be at least 1 ms",)
