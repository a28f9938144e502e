"""What `/metrics` says, as Prometheus would understand it."""

from collections.abc import Mapping
from typing import TypeAlias

import attrs
import httpx
from prometheus_client.parser import text_string_to_metric_families

Series: TypeAlias = tuple[str, frozenset[tuple[str, str]]]

PREFIX = "streamshard_"

SHARD_FAMILIES = (
    "shard_lag_records",
    "shard_lag_known",
    "shard_pending_records",
    "shard_stream_records",
    "shard_oldest_unacked_age_seconds",
    "shard_unowned_seconds",
)


@attrs.frozen
class Scrape:
    """One answer."""

    types: Mapping[str, str]
    """The type of each family, by its whole name."""
    values: Mapping[Series, float]

    def value(self, name: str, **labels: str) -> float | None:
        """Of one series; None if there is none."""
        return self.values.get((PREFIX + name, frozenset(labels.items())))

    def family(self, name: str, *by: str) -> dict[tuple[str, ...], float]:
        """The series of a name, by the values of these labels."""
        found = [(dict(labels), value) for (each, labels), value in self.values.items() if each == PREFIX + name]
        return {tuple(labels[label] for label in by): value for labels, value in found}

    def about(self, label: str, value: str) -> set[str]:
        """The names of the series with that label."""
        return {name for name, labels in self.values if (label, value) in labels}


def understood(text: str) -> Scrape:
    """Read the text; every line of it has to make sense."""
    types: dict[str, str] = {}
    values: dict[Series, float] = {}
    for family in text_string_to_metric_families(text):
        types[family.name + ("_total" if family.type == "counter" else "")] = family.type
        for sample in family.samples:
            at = (sample.name, frozenset(sample.labels.items()))
            assert at not in values, f"{at} stands there twice"
            values[at] = sample.value
    return Scrape(types, values)


async def scrape(http: httpx.AsyncClient) -> Scrape:
    """Ask, and read the answer."""
    answer = await http.get("/metrics")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return understood(answer.text)
