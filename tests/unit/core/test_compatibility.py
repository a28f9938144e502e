"""Which protocol versions are spoken, and how their timing is written."""

import pytest

from streamshard.core.commands import PROTOCOL_VERSION
from streamshard.core.compatibility import NEWEST, OLDEST, VERSIONS, Release, Support, iso_duration
from streamshard.core.ids import Millis
from streamshard.core.timing import Timing


def test_every_version_in_range_is_told_of_and_active() -> None:
    told = {version.version: version.status for version in VERSIONS}

    assert told == {number: Support.ACTIVE for number in range(OLDEST, NEWEST + 1)}
    assert PROTOCOL_VERSION in told


def test_a_versions_timing_is_one_that_works() -> None:
    assert [version.timing.problems() for version in VERSIONS] == [()]
    assert VERSIONS[0].timing == Timing()


def test_a_release_is_written_as_on_packages() -> None:
    assert (Release(0, 1, 0).version, Release(1, 2, 3, "rc1").version) == ("0.1.0", "1.2.3-rc1")


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0, "PT0S"),
        (3_000, "PT3S"),
        (500, "PT0.5S"),
        (15_000, "PT15S"),
        (60_000, "PT1M"),
        (61_250, "PT1M1.25S"),
        (600_000, "PT10M"),
        (3_600_000, "PT1H"),
        (3_661_001, "PT1H1M1.001S"),
    ],
)
def test_a_duration_is_iso_8601(length: int, text: str) -> None:
    assert iso_duration(Millis(length)) == text
