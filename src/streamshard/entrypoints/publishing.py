"""A producer's options as an application gives them, in seconds."""

from typing import TypedDict

from streamshard.adapters.client.producer import Publishing, Trim
from streamshard.core.ids import Millis
from streamshard.entrypoints.listening import check_limits, group_key
from streamshard.errors import ConfigurationError


class ProducerOptions(TypedDict, total=False):
    """What `StreamApp.producer` and `SyncProducer` take by name."""

    max_len: int | None
    max_attempts: int
    refresh_interval: float
    trim: Trim
    retry_uncertain: bool


def publishing(prefix: str, group: str, options: ProducerOptions) -> Publishing:
    """The checked options; raises `ConfigurationError`, which names what is wrong."""
    unknown = sorted(set(options) - set(ProducerOptions.__annotations__))
    if unknown:
        known = ", ".join(sorted(ProducerOptions.__annotations__))
        raise ConfigurationError(f"{unknown[0]}: is no option of a producer, which are {known}")
    interval = options.get("refresh_interval", 30.0)
    check_limits(refresh_interval=interval)
    return Publishing(
        group_key(prefix, group),
        options.get("max_len"),
        options.get("max_attempts", 2),
        Millis(int(interval * 1000)),
        options.get("trim", "approximate"),
        options.get("retry_uncertain", False),
    )
