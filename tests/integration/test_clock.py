"""Clocks and randomness: the system's, and those a test decides about."""

import asyncio
import logging
import sys
import time

import pytest

from streamshard.adapters.clock import SystemClock
from streamshard.adapters.entropy import SystemEntropy
from streamshard.core.ids import Instant, Millis, WallMillis
from streamshard.core.ports import Clock, Entropy
from streamshard.testing.clock import ManualClock, SeededEntropy


def test_the_system_clock_is_a_clock_that_never_steps_back() -> None:
    clock: Clock = SystemClock()

    readings = [clock.boot() for _ in range(1_000)]

    assert readings == sorted(readings)


def test_the_wall_clock_is_unix_time_in_milliseconds() -> None:
    before = time.time_ns() // 1_000_000

    wall = SystemClock().wall()

    assert before <= wall <= time.time_ns() // 1_000_000


def test_sleeping_takes_at_least_as_long_on_the_boot_clock() -> None:
    async def scenario() -> tuple[Instant, Instant]:
        clock = SystemClock()
        before = clock.boot()
        await clock.sleep(Millis(20))
        return before, clock.boot()

    before, after = asyncio.run(scenario())

    assert after - before >= 19


@pytest.mark.parametrize("platform", [sys.platform, "win32"])
def test_no_warning_where_the_boot_clock_counts_suspend(platform: str, caplog: pytest.LogCaptureFixture) -> None:
    SystemClock(platform)

    assert caplog.records == []


def test_a_platform_without_such_a_clock_is_told_what_that_means(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        SystemClock("plan9")

    assert [record.getMessage() for record in caplog.records] == [
        "no clock on plan9 is known to count suspend: after a sleep of this machine, leases here end late"
    ]


def test_system_nonces_are_128_bits_in_hex_and_differ() -> None:
    entropy: Entropy = SystemEntropy()

    nonces = {entropy.nonce() for _ in range(1_000)}

    assert len(nonces) == 1_000
    assert {len(nonce) for nonce in nonces} == {32}
    assert all(int(nonce, 16) >= 0 for nonce in nonces)


@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(7)])
def test_fractions_spread_over_zero_to_one(entropy: Entropy) -> None:
    fractions = [entropy.fraction() for _ in range(2_000)]

    assert all(0 <= fraction < 1 for fraction in fractions)
    assert {int(fraction * 4) for fraction in fractions} == {0, 1, 2, 3}


def test_a_manual_clock_stands_still_until_it_is_advanced() -> None:
    clock = ManualClock(boot=100, wall=1_000)

    clock.advance(50)
    clock.step_wall(-500)

    assert (clock.boot(), clock.wall()) == (Instant(150), WallMillis(550))


def test_a_manual_boot_clock_refuses_to_run_backwards() -> None:
    with pytest.raises(ValueError, match="never runs backwards"):
        ManualClock().advance(-1)


def test_a_sleeper_without_an_event_loop_goes_on_when_its_time_has_come() -> None:
    clock = ManualClock()
    sleeper = clock.sleep(Millis(10))

    sleeper.send(None)
    clock.advance(9)
    sleeper.send(None)
    assert clock.next_wakeup() == Instant(10)
    clock.advance(1)

    with pytest.raises(StopIteration):
        sleeper.send(None)
    assert clock.next_wakeup() is None


def test_the_first_wakeup_is_the_earliest_and_leaves_with_its_sleeper() -> None:
    clock = ManualClock()
    late, early = clock.sleep(Millis(30)), clock.sleep(Millis(20))
    late.send(None)
    early.send(None)

    assert clock.next_wakeup() == Instant(20)
    early.close()
    assert clock.next_wakeup() == Instant(30)
    late.close()
    assert clock.next_wakeup() is None


def test_a_sleeper_under_asyncio_goes_on_when_its_time_has_come() -> None:
    async def scenario() -> list[str]:
        clock = ManualClock()
        seen: list[str] = []

        async def sleeper() -> None:
            await clock.sleep(Millis(10))
            seen.append("awake")

        task = asyncio.create_task(sleeper())
        await asyncio.sleep(0.01)
        seen.append("advanced")
        clock.advance(10)
        await task
        return seen

    assert asyncio.run(scenario()) == ["advanced", "awake"]


def test_no_time_is_no_wait() -> None:
    with pytest.raises(StopIteration):
        ManualClock().sleep(Millis(0)).send(None)


def test_the_same_seed_says_the_same_things_and_another_one_others() -> None:
    def said(seed: int) -> list[object]:
        entropy = SeededEntropy(seed)
        return [entropy.nonce(), entropy.fraction(), entropy.nonce()]

    assert said(1) == said(1)
    assert said(1) != said(2)
