"""Every operation of the API: what it is called, what it takes, what it answers. The document is made of it."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

from streamshard.core.inspection import Direction
from streamshard.entrypoints.http import answers, batches, grafana_answers, heartbeats, monitoring_answers, wire
from streamshard.entrypoints.http.decoding import INT_LIMIT
from streamshard.entrypoints.http.questions import DEFAULT_MESSAGES, MOST_MESSAGES
from streamshard.entrypoints.http.watching import DEFAULT_WAIT_MS, LONGEST_WAIT_MS
from streamshard.entrypoints.security.roles import Need

ROOT = "/coord/v1"
STREAM = ROOT + "/streams/{prefix}"
GROUP = STREAM + "/groups/{group}"
MIGRATION = GROUP + "/migrations/{resharding}"
HEARTBEAT = GROUP + "/members/{member}/heartbeat"
MONITORING = ROOT + "/monitoring"
WATCHED = MONITORING + "/streams/{prefix}/groups/{group}"
GRAFANA = MONITORING + "/grafana"

Method: TypeAlias = Literal["GET", "POST", "PATCH", "DELETE"]


@attrs.frozen
class Parameter:
    """A value behind the question mark."""

    name: str
    text: str
    schema: Mapping[str, Any] = {"type": "string"}
    required: bool = False


@attrs.frozen
class Operation:
    """One thing that can be done."""

    method: Method
    path: str
    need: Need
    """What it asks of its caller; who has less is refused, whatever the path looks like."""
    id: str
    text: str
    answer: Any
    """The type of its answer; a text is a media type that is not JSON."""
    status: int = 200
    body: Any = None
    query: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = ()
    """What can go wrong besides what can go wrong with any of its kind."""
    example: Mapping[str, Any] | None = None
    """A body to begin with."""

    @property
    def action(self) -> str | None:
        """What the audit calls it; None for what changes nothing."""
        return ACTIONS.get(self.id)


ACTIONS: Mapping[str, str] = {
    "login": "LOGIN",
    "revokeToken": "REVOKE_TOKEN",
    "createStream": "CREATE_STREAM",
    "amendStream": "AMEND_STREAM",
    "deleteStream": "DELETE_STREAM",
    "scaleStream": "SCALE_STREAM",
    "createGroup": "CREATE_GROUP",
    "deleteGroup": "DELETE_GROUP",
    "scaleGroup": "SCALE_GROUP",
    "amendMigration": "AMEND_MIGRATION",
    "rollbackMigration": "ROLLBACK_MIGRATION",
}
"""Attempts at these are put on record."""


def _number(low: int, high: int, default: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high, "default": default}


_STREAM_OF = Parameter("streamPrefix", "The stream.", required=True)
_GROUP_OF = Parameter("consumerGroup", "The consumer group.", required=True)
_OF = (_STREAM_OF, _GROUP_OF)
_PAGE = (
    Parameter(
        "direction", "Newest first, or oldest first.", {"enum": [d.value for d in Direction], "default": "BACKWARD"}
    ),
    Parameter("cursor", "The `nextCursor` of the page before.", {"type": "string", "pattern": r"^([0-9]+-[0-9]+)?$"}),
    Parameter("limit", "Records at most.", _number(1, MOST_MESSAGES, DEFAULT_MESSAGES)),
)
_WHO = {"requestedBy": "ann", "reason": "more traffic is expected"}

STREAMS: tuple[Operation, ...] = (
    Operation("GET", ROOT + "/streams", Need.READ, "listStreams", "List every stream in use.", answers.Streams),
    Operation(
        "GET", STREAM, Need.READ, "getStream",
        "Show a stream: layout, groups, reshardings.", answers.Stream, errors=(404,),
    ),
    Operation(
        "POST", STREAM, Need.WRITE, "createStream", "Create a stream and its shards.", answers.StreamSummary, 201,
        wire.CreateStreamBody, errors=(404,), example={**_WHO, "initialShardCount": 6, "consumerGroups": ["billing"]},
    ),
    Operation(
        "PATCH", STREAM, Need.WRITE, "amendStream",
        "Change what is kept of a stream that is in use.", answers.Stream, 200,
        wire.AmendStreamBody, errors=(404,), example={**_WHO, "retention": "acknowledged"},
    ),
    Operation(
        "DELETE", STREAM, Need.WRITE, "deleteStream",
        "Delete a stream and its groups; with dropData what is on its keys too.",
        answers.StreamSummary, 200, wire.DeleteBody, errors=(404,), example=_WHO,
    ),
    Operation(
        "POST", STREAM + "/scale", Need.WRITE, "scaleStream",
        "Change a stream's shard count, up or down.", answers.Scaled, 202,
        wire.ScaleBody, errors=(404,), example={**_WHO, "targetShardCount": 9},
    ),
    Operation(
        "GET", STREAM + "/route", Need.READ, "routeKey",
        "Say which shard a key belongs to, and who reads it.", answers.Route,
        query=(
            Parameter("key", "The key, as text."),
            Parameter("keyBase64", "The key's bytes; instead of `key`."),
            Parameter("group", "Name the owner in this group alone."),
        ),
        errors=(404,),
    ),
)  # fmt: skip

GROUPS: tuple[Operation, ...] = (
    Operation("GET", GROUP, Need.READ, "getGroup", "Show a group.", answers.Group, errors=(404,)),
    Operation(
        "POST", GROUP, Need.WRITE, "createGroup",
        "Create a group, and its stream if there is none.", answers.Group, 201,
        wire.CreateGroupBody, errors=(404,), example={**_WHO, "initialShardCount": 6},
    ),
    Operation(
        "DELETE", GROUP, Need.WRITE, "deleteGroup",
        "Delete a group; answers it as it was.", answers.Group, 200, wire.DeleteBody,
        errors=(404,), example=_WHO,
    ),
    Operation(
        "POST", GROUP + "/scale", Need.WRITE, "scaleGroup",
        "Change the shard count of the group's stream.", answers.Migration, 202,
        wire.ScaleBody, errors=(404,), example={**_WHO, "targetShardCount": 9},
    ),
    Operation(
        "GET", GROUP + "/producer-routing", Need.READ, "getProducerRouting",
        "What a producer routes by, and for how long it may.",
        answers.RoutingAnswer, errors=(304, 404),
    ),
    Operation("GET", MIGRATION, Need.READ, "getMigration", "Show a resharding.", answers.Migration, errors=(404,)),
    Operation(
        "POST", MIGRATION, Need.WRITE, "amendMigration", "Change which foreign groups a running resharding ignores.",
        answers.Migration, 200, wire.AmendBody, errors=(404,), example={**_WHO, "ignoreForeignGroups": ["old"]},
    ),
    Operation(
        "POST", MIGRATION + "/rollback", Need.WRITE, "rollbackMigration",
        "Take a resharding back.", answers.Migration, 202,
        wire.RollbackBody, errors=(404,), example=_WHO,
    ),
    Operation(
        "POST", HEARTBEAT, Need.MEMBER, "heartbeat", "Say that a member lives, what it holds, and how far it is.",
        answers.HeartbeatAnswer, 200, heartbeats.HeartbeatBody,
    ),
    Operation(
        "POST", ROOT + "/heartbeats", Need.MEMBER, "heartbeats", "The heartbeats of all logical members of a process.",
        answers.HeartbeatAnswers, 200, batches.BatchBody,
    ),
    Operation(
        "GET", STREAM + "/watch", Need.WATCH, "watch",
        "Wait for news of a layout or a group; a hint, nothing depends on it.",
        answers.News,
        query=(
            Parameter("layout", "For producers: the layout version or the `ETag` that the caller has."),
            Parameter("group", "For members: their group."),
            Parameter("view", "With `group`: the `view` of the last answer."),
            Parameter("member", "With `group`: only news for this member; may be repeated."),
            Parameter("waitMs", "How long to wait.", _number(0, LONGEST_WAIT_MS, DEFAULT_WAIT_MS)),
        ),
        errors=(404,),
    ),
)  # fmt: skip

ACCESS: tuple[Operation, ...] = (
    Operation(
        "POST", ROOT + "/auth/login", Need.OPEN, "login", "Get a token for a name and a password.",
        answers.TokenAnswer, 200, wire.LoginBody, example={"username": "ann", "password": "correct horse"},
    ),
    Operation(
        "POST", ROOT + "/auth/revoke", Need.ACCOUNT, "revokeToken",
        "Take a token back: one's own, or with the role ADMIN anybody's.", answers.Revoked, 200, wire.RevokeBody,
    ),
)  # fmt: skip

MONITORED: tuple[Operation, ...] = (
    Operation(
        "GET", MONITORING + "/health", Need.READ, "getHealth",
        "What was measured just now.", monitoring_answers.Health,
    ),
    Operation("GET", MONITORING + "/session", Need.READ, "getSession", "Who asks.", monitoring_answers.Session),
    Operation(
        "GET", MONITORING + "/compatibility", Need.READ, "getCompatibility", "Which protocol versions are spoken here.",
        monitoring_answers.Compatibility,
    ),
    Operation("GET", MONITORING + "/groups", Need.READ, "listGroups", "List every group.", monitoring_answers.Groups),
    Operation("GET", WATCHED, Need.READ, "watchGroup", "Show a group.", answers.Group, errors=(404,)),
    Operation(
        "GET", WATCHED + "/members", Need.READ, "listMembers",
        "List a group's members.", monitoring_answers.Members, errors=(404,)
    ),
    Operation(
        "GET", WATCHED + "/assignments", Need.READ, "getAssignments", "Who is to read what, and who does.",
        monitoring_answers.Assignments, errors=(404,),
    ),
    Operation(
        "GET", WATCHED + "/consumption", Need.READ, "getConsumption", "What the members report of their progress.",
        monitoring_answers.ConsumptionProgress, errors=(404,),
    ),
    Operation(
        "GET", WATCHED + "/migrations", Need.READ, "listMigrations", "The reshardings of a group's stream.",
        monitoring_answers.Migrations, errors=(404,),
    ),
    Operation(
        "GET", WATCHED + "/offsets", Need.READ, "getOffsets", "How far a group is behind, as Redis shows it.",
        monitoring_answers.ShardOffsets, errors=(404,),
    ),
    Operation(
        "GET", WATCHED + "/shards/{shard}/messages", Need.PAYLOAD, "listMessages",
        "Read a shard's records; nobody's position moves.",
        monitoring_answers.Messages, query=_PAGE, errors=(404,),
    ),
    Operation(
        "GET", WATCHED + "/autoscale", Need.READ, "getAutoscale", "How many members would do; none for no group.",
        monitoring_answers.Autoscale,
        query=(Parameter("backlogPerReplica", "Waiting records a member may have.", _number(1, INT_LIMIT, 1000)),),
    ),
    Operation(
        "GET", WATCHED + "/events", Need.READ, "listEvents",
        "The last changes, and who held each shard from when to when.",
        monitoring_answers.Events, query=(Parameter("limit", "Changes at most.", _number(1, 128, 64)),), errors=(404,),
    ),
)  # fmt: skip

DASHBOARDS: tuple[Operation, ...] = (
    Operation(
        "GET", GRAFANA + "/groups", Need.READ, "listGrafanaGroups",
        "Groups as flat rows.", list[grafana_answers.GroupRow]
    ),
    Operation(
        "GET", GRAFANA + "/options/streams", Need.READ, "listGrafanaStreamOptions", "Streams to choose from.",
        list[grafana_answers.Option],
    ),
    Operation(
        "GET", GRAFANA + "/options/consumer-groups", Need.READ, "listGrafanaConsumerGroupOptions",
        "Groups to choose from.",
        list[grafana_answers.Option], query=(Parameter("streamPrefix", "Of this stream alone."),),
    ),
    Operation(
        "GET", GRAFANA + "/options/shards", Need.READ, "listGrafanaShardOptions", "Shards to choose from.",
        list[grafana_answers.Option], query=_OF, errors=(404,),
    ),
    Operation(
        "GET", GRAFANA + "/members", Need.READ, "listGrafanaMembers",
        "Members as flat rows.", list[grafana_answers.MemberRow],
        query=_OF, errors=(404,),
    ),
    Operation(
        "GET", GRAFANA + "/shards", Need.READ, "listGrafanaShards",
        "Shards as flat rows; of all groups if none is named.",
        list[grafana_answers.ShardRow],
        query=(Parameter("streamPrefix", "Of this stream alone."), Parameter("consumerGroup", "Of this group alone.")),
        errors=(404,),
    ),
    Operation(
        "GET", GRAFANA + "/assignments", Need.READ, "listGrafanaAssignments", "Owners as flat rows.",
        list[grafana_answers.AssignmentRow], query=_OF, errors=(404,),
    ),
    Operation(
        "GET", GRAFANA + "/messages", Need.PAYLOAD, "listGrafanaMessages",
        "Records as flat rows.", list[grafana_answers.MessageRow],
        query=(
            *_OF,
            Parameter("shardIndex", "A shard, or `all`.", {"type": "string", "pattern": "^([0-9]{1,5}|all)$"}),
            *_PAGE,
            Parameter("recordId", "This record alone.", {"type": "string", "pattern": r"^([0-9]+-[0-9]+)?$"}),
        ),
        errors=(404,),
    ),
)  # fmt: skip

OUTSIDE: tuple[Operation, ...] = (
    Operation("GET", "/livez", Need.OPEN, "live", "The process lives.", answers.Probe),
    Operation("GET", "/readyz", Need.OPEN, "ready", "The metadata store answers.", answers.Probe),
    Operation("GET", "/metrics", Need.READ, "getMetrics", "Everything that is counted and measured.", "text/plain"),
    Operation("GET", "/openapi.json", Need.READ, "getDocument", "This document.", dict[str, Any]),
    Operation("GET", "/docs", Need.READ, "getDocs", "This document, to be read.", "text/html"),
    Operation("GET", "/docs/page.css", Need.READ, "getDocsStyle", "How it looks.", "text/css"),
    Operation("GET", "/docs/page.js", Need.READ, "getDocsScript", "What draws it.", "text/javascript"),
)

OPERATIONS = (*STREAMS, *GROUPS, *ACCESS, *MONITORED, *DASHBOARDS, *OUTSIDE)
