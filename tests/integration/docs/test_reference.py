"""The reference says what the code says: every table has the code's own rows, no more and no fewer."""

import inspect
import re
import tomllib
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
import click
import msgspec
import pytest

import streamshard
from streamshard import errors
from streamshard.adapters.client.producer import Producer
from streamshard.adapters.stores.memory import MemoryStore
from streamshard.adapters.streams.memory_backend import MemoryStreamBackend
from streamshard.adapters.streams.memory_world import MemoryStreams
from streamshard.core import routing
from streamshard.core.commands import PROTOCOL_VERSION
from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import Millis
from streamshard.core.replies import Status
from streamshard.core.resharding import ARROWS
from streamshard.core.settings import CoordinatorSettings
from streamshard.core.stream import ENDED, ReshardingState, ShardPhase
from streamshard.core.timing import client_lease_ms, expiry_wait_ms
from streamshard.entrypoints.app import StreamApp
from streamshard.entrypoints.cli.failures import ExitCode
from streamshard.entrypoints.cli.root import cli
from streamshard.entrypoints.http import faults, wire
from streamshard.entrypoints.http.app import resources
from streamshard.entrypoints.http.heartbeats import HeartbeatBody
from streamshard.entrypoints.http.operations import ACTIONS, OPERATIONS
from streamshard.entrypoints.http.traffic import Traffic
from streamshard.entrypoints.listening import LIMITS, Listener
from streamshard.entrypoints.security.audit import AuditRecord
from streamshard.entrypoints.security.roles import Need
from streamshard.entrypoints.settings import OPTIONS
from streamshard.errors import StreamshardError
from streamshard.testing.clock import ManualClock, SeededEntropy
from tests.integration.docs.pages import DOCS, blocks, diagrams, quoted, table
from tests.routed import NODE_VECTORS, VECTORS

REFERENCE = DOCS / "reference"
CLIENT_SIDE = {
    "NOT_ALLOWED", "UNAVAILABLE", "COORDINATOR_UNREACHABLE", "CONFIGURATION_ERROR", "LEASE_LOST", "ROUTING_EXPIRED",
    "LISTENER_REJECTED", "NOT_WRITTEN", "MAYBE_WRITTEN",
}  # fmt: skip
"""Codes that no coordinator answers."""

AS_CONFIGURED = {"serve", "config show"}
"""Their options are the settings, which have a page of their own."""


def page(name: str) -> str:
    return (REFERENCE / name).read_text()


def first_quoted(rows: Iterable[list[str]], column: int = 0) -> list[str]:
    return [quoted(row[column])[0] for row in rows]


def test_every_endpoint_is_listed_and_no_other() -> None:
    streams = MemoryStreamBackend(MemoryStreams())
    coordinator = Coordinator(MemoryStore(), streams, ManualClock(), SeededEntropy(), CoordinatorSettings("docs"))

    served = resources(coordinator, Traffic())

    listed = first_quoted(table(page("http-api.md"), "Endpoints"))
    assert sorted(listed) == sorted(f"{method} {path}" for path, methods in served.items() for method in methods)


def test_every_endpoint_is_listed_with_what_it_needs() -> None:
    words = {Need.OPEN: ["–"], Need.ACCOUNT: ["any"], Need.WATCH: ["READ", "MEMBER"]}

    listed = {quoted(row[0])[0]: quoted(row[1]) or [row[1]] for row in table(page("http-api.md"), "Endpoints")}

    assert listed == {f"{o.method} {o.path}": words.get(o.need, [o.need.value]) for o in OPERATIONS}


def test_every_field_and_action_of_the_audit_is_listed() -> None:
    rows = table(page("http-api.md"), "The audit")

    fields = {camel(field.name) for field in attrs.fields(AuditRecord)}
    assert {name for row in rows for name in quoted(row[0])} == fields
    (actions,) = [quoted(row[1]) for row in rows if row[0] == "`action`"]
    assert sorted(actions) == sorted(ACTIONS.values())


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def test_every_body_is_listed_with_its_fields() -> None:
    bodies: dict[str, type[msgspec.Struct]] = {
        "CreateStream": wire.CreateStreamBody,
        "AmendStream": wire.AmendStreamBody,
        "CreateGroup": wire.CreateGroupBody,
        "Scale": wire.ScaleBody,
        "Amend": wire.AmendBody,
        "Rollback": wire.RollbackBody,
        "Delete": wire.DeleteBody,
    }

    listed = {row[0]: marked(row[1].split(", ")) for row in table(page("http-api.md"), "Bodies")}

    assert listed == {name: fields(kind) for name, kind in bodies.items()}


def test_every_field_of_a_heartbeat_is_listed() -> None:
    rows = table(page("http-api.md"), "Request")

    listed = marked([part for row in rows for part in row[0].split(", ")])

    assert listed == fields(HeartbeatBody)
    assert [row[2] for row in rows if "protocolVersion" in row[0]] == [str(PROTOCOL_VERSION)]


def fields(kind: type[msgspec.Struct]) -> dict[str, bool]:
    """The names on the wire, and whether they are required."""
    return {field.encode_name: field.required for field in msgspec.structs.fields(kind)}


def marked(names: Iterable[str]) -> dict[str, bool]:
    """Bold ones are required."""
    return {name.strip("*`"): name.startswith("**") for name in names}


def test_every_status_of_a_heartbeat_is_listed() -> None:
    assert first_quoted(table(page("http-api.md"), "Statuses")) == [status.value for status in Status]


def test_every_error_code_is_listed_with_its_status() -> None:
    raised = [kind for kind in error_classes() if kind.code not in CLIENT_SIDE]
    own = (faults.MethodNotAllowed, faults.PayloadTooLarge)

    expected = {(kind.code, faults.http_status(kind("")), told(retryable=kind.retryable)) for kind in raised}
    expected |= {(kind.code, faults.HTTP_STATUS[kind], told(retryable=kind.retryable)) for kind in own}

    listed = {(quoted(row[0])[0], int(row[1]), row[2]) for row in table(page("http-api.md"), "Error codes")}
    assert listed == expected


def told(*, retryable: bool) -> str:
    return "yes" if retryable else "no"


def error_classes() -> list[type[StreamshardError]]:
    found = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, StreamshardError)]
    return [kind for kind in found if not issubclass(kind, errors.StoreSignal) and kind is not errors.Conflict]


def test_every_error_class_is_listed_and_the_public_ones_are_marked() -> None:
    known = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, StreamshardError)]

    listed = {(quoted(row[0])[0], row[0].endswith("*")) for row in table(page("errors.md"), "Errors")}

    assert listed == {(kind.__name__, kind.__name__ in streamshard.__all__) for kind in known}


def test_every_command_is_listed_with_its_own_options() -> None:
    text = page("cli.md")
    shared = {"--help", "--url", "--output", "--requested-by", "--reason", "--yes"}

    commands = dict(leaves(cli, ()))

    headings = {line.lstrip("# ").split(" STREAM")[0] for line in text.splitlines() if line.startswith("##")}
    assert set(commands) <= headings
    for name, command in commands.items():
        own = {max(parameter.opts, key=len) for parameter in command.params if isinstance(parameter, click.Option)}
        section = next(part for part in sections(text) if part.splitlines()[0].split(" STREAM")[0] == name)
        listed = {first.split()[0] for line in section.splitlines() for first in quoted(line)[:1] if line[0] == "|"}
        assert (name, listed) == (name, set() if name in AS_CONFIGURED else own - shared)


def leaves(command: click.Command, path: tuple[str, ...]) -> Iterable[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*path, name))


def sections(text: str) -> list[str]:
    parts = text.replace("\n### ", "\n## ").split("\n## ")[1:]
    return [part.split("| column |")[0] for part in parts]


def test_every_exit_code_is_listed() -> None:
    listed = [int(row[0]) for row in table(page("cli.md"), "Exit codes")]

    assert listed == [0, *(code.value for code in ExitCode)]


def test_every_setting_of_serve_is_listed_with_its_default() -> None:
    listed = [
        tuple(quoted(cell)[0] for cell in row[:3]) for row in table(page("configuration.md"), "Settings of serve")
    ]

    assert listed == [(option.argument, option.variable, option.default) for option in OPTIONS]


def test_the_file_that_is_shown_has_settings_only() -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```$", page("configuration.md"), re.MULTILINE | re.DOTALL)

    assert set(tomllib.loads(example)) <= {name for option in OPTIONS for name in (option.name, option.file_key)}


def test_the_lease_table_is_the_code_s() -> None:
    rows = [line.split("|")[1:4] for line in page("configuration.md").splitlines() if line.startswith("| ")]
    numbers = [tuple(cell.strip() for cell in row) for row in rows if row[0].strip().removesuffix(" s").isdigit()]

    assert numbers == [leases(length) for length in (1, 3, 5, 10, 15, 30, 60)]


def leases(seconds: int) -> tuple[str, ...]:
    lease = Millis(seconds * 1000)
    return tuple(f"{length / 1000:g} s" for length in (lease, client_lease_ms(lease), expiry_wait_ms(lease)))


def test_every_listener_option_is_listed_with_default_and_range() -> None:
    options = {field.name: field.default for field in attrs.fields(Listener) if field.name not in ("key", "handler")}

    listed = {quoted(row[0])[0]: (row[1], row[2]) for row in table(page("python-api.md"), "Listener options")}

    assert set(listed) == set(options)
    for name, (default, limits) in listed.items():
        if name in LIMITS:
            low, high = LIMITS[name]
            assert (name, limits) == (name, f"{low:g} to {high:g}")
        if isinstance(options[name], int | float):
            assert (name, default.removesuffix(" s")) == (name, f"{options[name]:g}")


def test_every_public_name_is_documented() -> None:
    told = page("python-api.md") + page("errors.md")

    assert [name for name in streamshard.__all__ if f"`{name}`" not in told] == []


def test_methods_that_are_listed_exist() -> None:
    listed = {
        name.split("(")[0].removeprefix("await ")
        for heading in ("StreamApp", "Producer")
        for row in table(page("python-api.md").replace("| argument", "argument"), heading)
        for name in quoted(row[0])
        if "(" in name
    }

    assert [name for name in sorted(listed) if not hasattr(StreamApp, name) and not hasattr(Producer, name)] == []


def on_the_page(name: str) -> Callable[..., Any]:
    """The function of the page about routing that is named like its protocol."""
    written = next(block for block in blocks(page("routing.md")) if block.name == f"{name}.py")
    module = types.ModuleType(name)
    exec(compile(written.body, written.name, "exec"), vars(module))
    function: Callable[..., Any] = getattr(module, name)
    return function


@pytest.mark.parametrize("protocol", sorted(routing.PROTOCOLS))
def test_the_page_s_routing_passes_the_vectors(protocol: str) -> None:
    written = on_the_page(protocol.replace("-", "_"))
    vectors = [vector for vector in VECTORS if vector.protocol == protocol]

    assert [written(vector.key, vector.shards) for vector in vectors] == [vector.shard for vector in vectors]


def test_the_page_s_ring_of_envoy_passes_the_vectors() -> None:
    written = on_the_page("envoy_ring_v1")
    vectors = [vector for vector in NODE_VECTORS if vector.protocol == "envoy-ring-v1"]

    routed = [written(each.key, [(n.name, n.weight) for n in each.nodes], each.ring_size) for each in vectors]

    assert routed == [vector.node for vector in vectors]


def test_the_vectors_on_the_page_are_those_of_the_file() -> None:
    known = {(vector.protocol, vector.key.hex(), vector.shards): vector.shard for vector in VECTORS}

    for row in table(page("routing.md"), "Vectors"):
        shards = [known[protocol, row[0], int(row[2])] for protocol in ("murmur3-v1", "jump-v1", "ring-v1")]
        assert shards == [int(cell) for cell in row[3:]]


def test_the_picture_of_resharding_has_the_arrows_of_the_table() -> None:
    drawn = arrows(DOCS / "how-to" / "scale-a-stream.md")

    expected = {(before.value, after.value, event.value) for (before, event), after in ARROWS.items()}
    expected |= {("[*]", "PREPARING", "scale out"), ("[*]", "DRAINING", "scale in")}
    expected |= {(state.value, "[*]", "") for state in ENDED}
    assert drawn == expected
    assert {state.value for state in ReshardingState} <= {name for arrow in drawn for name in arrow[:2]}


def test_the_picture_of_a_shard_s_life_has_every_phase() -> None:
    names = {name for arrow in arrows(DOCS / "explanation" / "fencing-and-leases.md") for name in arrow[:2]}

    assert names - {"[*]"} == {phase.value for phase in ShardPhase}


def arrows(path: Path) -> set[tuple[str, str, str]]:
    (diagram,) = [drawn for drawn in diagrams(path.read_text()) if drawn.startswith("stateDiagram")]
    found = set()
    for line in diagram.splitlines()[1:]:
        before, _, rest = line.strip().partition(" --> ")
        after, _, why = rest.partition(": ")
        found.add((before, after, why))
    return found
