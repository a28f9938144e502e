"""Page, alert rules and dashboard name the metrics that a running coordinator exports, and labels that they have."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from streamshard.core.outcome import Fence
from streamshard.core.tally import Cause
from tests.integration.docs.pages import DOCS, ROOT, quoted, table
from tests.integration.docs.scraped import Story, told

PAGE = (DOCS / "reference" / "metrics.md").read_text()
RULES = yaml.safe_load((ROOT / "ops" / "prometheus" / "alerts.yml").read_text())["groups"]
DASHBOARD = json.loads((ROOT / "ops" / "grafana" / "streamshard.json").read_text())

PROMETHEUS_ADDS = {"instance", "job", "le"}
_METRIC = re.compile(r"\b(streamshard_\w+)(?:\{([^}]*)\})?")
_MATCHED = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPED = re.compile(r"\b(?:by|on|without)\s*\(([^)]*)\)")
_SHOWN = re.compile(r"\$labels\.(\w+)|\{\{\s*(\w+)\s*\}\}")

Labels = frozenset[str]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return told(tmp_path_factory.mktemp("metrics"))


@pytest.fixture(scope="module")
def exported(story: Story) -> Mapping[str, Labels]:
    """Every family with the labels of its series."""
    found: dict[str, set[str]] = {}
    for name, labels in story.scrape.values:
        found.setdefault(family(name, story.scrape.types), set()).update(label for label, _ in labels)
    histograms = {name for name, kind in story.scrape.types.items() if kind == "histogram"}
    return {name: frozenset(labels - {"le"} if name in histograms else labels) for name, labels in found.items()}


def family(name: str, types: Mapping[str, str]) -> str:
    """The family that a series belongs to."""
    short = re.sub(r"_(bucket|count|sum)$", "", name)
    return short if types.get(short) == "histogram" else name


def expressions() -> Iterator[tuple[str, str]]:
    """Every query of rules and dashboard, with the texts that show its labels."""
    for group in RULES:
        for rule in group["rules"]:
            yield rule["expr"], " ".join(rule["annotations"].values())
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]


def test_every_family_has_a_series_and_nothing_else_is_there(story: Story, exported: Mapping[str, Labels]) -> None:
    assert set(exported) == set(story.scrape.types)


def test_the_page_lists_every_metric_with_its_type_and_labels(story: Story, exported: Mapping[str, Labels]) -> None:
    rows = table(PAGE, "All metrics")

    listed = {quoted(row[0])[0]: (row[1], frozenset(quoted(row[2]))) for row in rows}

    assert listed == {name: (kind, exported[name]) for name, kind in story.scrape.types.items()}
    assert len(rows) == len(listed)


def test_labels_stand_in_one_order_on_the_page() -> None:
    order = ("stream", "group", "shard", "member")

    for row in table(PAGE, "All metrics"):
        labels = quoted(row[2])
        assert labels[: len(set(labels) & set(order))] == [label for label in order if label in labels]


def test_the_page_lists_every_reason() -> None:
    listed = [(quoted(row[0])[0], quoted(row[1])[0]) for row in table(PAGE, "Reasons")]

    fences = [("streamshard_members_fenced_total", fence.value) for fence in Fence]
    assert listed == [*fences, *(("streamshard_rebalances_total", cause.value) for cause in Cause)]


def test_the_numbers_are_what_has_happened(story: Story) -> None:
    found = story.scrape

    assert {status: n for (status,), n in found.family("heartbeats_total", "status").items() if n} == story.answered
    assert found.value("heartbeat_duration_seconds_count") == story.answered.total()
    assert (found.value("up"), found.value("members_expired_total")) == (1, 1)
    assert found.value("members_fenced_total", reason="stale") == 1
    assert found.value("scale_requests_total", outcome="accepted") == 1
    assert found.value("routing_requests_total", outcome="served") == 1
    assert found.value("reshard_active", stream="orders") == 1
    assert found.value("shard_unread_seconds", stream="orders", group="billing", shard="0") == 5
    assert found.value("invariant_violations_total", kind="state") == 0
    assert found.value("invariant_violations_total", kind="frozen") == 0
    assert found.value("member_shards", stream="orders", group="billing", member="a", kind="held") == 4
    assert (found.value("tick_duration_seconds_count") or 0) > 10
    assert found.value("store_operation_duration_seconds_count", store="sqlite", operation="commit") != 0


@pytest.mark.parametrize(("query", "shown"), list(expressions()))
def test_a_query_uses_metrics_and_labels_that_there_are(
    query: str, shown: str, story: Story, exported: Mapping[str, Labels]
) -> None:
    known = set(PROMETHEUS_ADDS)
    for name, matchers in _METRIC.findall(query):
        labels = exported[family(name, story.scrape.types)]
        assert set(_MATCHED.findall(matchers)) <= labels
        known |= labels

    grouped = {label.strip() for labels in _GROUPED.findall(query) for label in labels.split(",")}

    assert "streamshard_" in query or query.startswith("up{")
    assert grouped <= known
    assert {first or second for first, second in _SHOWN.findall(shown)} <= grouped | {"instance"}


def test_every_alert_says_how_bad_it_is_what_it_means_and_what_to_do() -> None:
    rules = [rule for group in RULES for rule in group["rules"]]

    assert len({rule["alert"] for rule in rules}) == len(rules) == 13
    for rule in rules:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert set(rule["annotations"]) == {"summary", "description"}


def test_the_dashboard_has_panels_of_its_own_ids_on_one_datasource() -> None:
    panels: list[dict[str, Any]] = DASHBOARD["panels"]
    drawn = [panel for panel in panels if panel["type"] != "row"]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {panel["datasource"]["uid"] for panel in drawn} == {"${datasource}"}
    assert all(panel["targets"] for panel in drawn)


def test_the_dashboards_choices_come_from_labels_that_there_are(exported: Mapping[str, Labels]) -> None:
    asked = [each["definition"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]

    found = [re.fullmatch(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", each) for each in asked]

    assert [(each[1], each[2] in exported[each[1]]) for each in found if each is not None] == [
        ("streamshard_reshard_active", True),
        ("streamshard_group_epoch", True),
    ]


def test_the_page_leads_to_rules_and_dashboard() -> None:
    assert re.findall(r"\]\(\.\./\.\./(ops/[^)]+)\)", PAGE) == [
        "ops/prometheus/alerts.yml",
        "ops/grafana/streamshard.json",
    ]
