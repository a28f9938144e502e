"""The OpenAPI 3.1 document, made from the operations and the wire types; it can't say what they don't."""

import functools
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version as installed
from typing import Any

import msgspec

from streamshard.core.names import MAX_BYTES
from streamshard.core.settings import MAX_SHARDS
from streamshard.entrypoints.http.answers import Problem
from streamshard.entrypoints.http.faults import STATUS_NAMES
from streamshard.entrypoints.http.operations import (
    ACCESS,
    DASHBOARDS,
    GROUPS,
    MONITORED,
    OPERATIONS,
    OUTSIDE,
    STREAMS,
    Operation,
    Parameter,
)
from streamshard.entrypoints.security.roles import Need

Json = dict[str, Any]

NOT_MODIFIED = 304

_TAGS = (
    ("Streams", "Create, scale and delete streams.", STREAMS),
    ("Groups", "Consumer groups, their members and their reshardings.", GROUPS),
    ("Access", "Get a token for a password, and take it back.", ACCESS),
    ("Monitoring", "It reads, and changes nothing.", MONITORED),
    ("Dashboards", "Flat rows for Grafana.", DASHBOARDS),
    ("Process", "Probes and this document.", OUTSIDE),
)
_NAME = {"type": "string", "minLength": 1, "maxLength": MAX_BYTES}
_PATH: Mapping[str, tuple[str, Json, Any]] = {
    "prefix": ("The stream's prefix.", {**_NAME, "pattern": r"^[^/{}\u0000-\u001f\u007f-\u009f]+$"}, "orders"),
    "group": ("The consumer group.", {**_NAME, "pattern": r"^[^/\u0000-\u001f\u007f-\u009f]+$"}, "billing"),
    "member": ("The member's id.", {**_NAME, "pattern": r"^[^/\u0000-\u001f\u007f-\u009f]+$"}, "web-m0"),
    "resharding": ("The resharding's id.", {"type": "string", "minLength": 1}, "reshard-0b7c"),
    "shard": ("The shard's index.", {"type": "integer", "minimum": 0, "maximum": MAX_SHARDS - 1}, 0),
}
_PLAIN = frozenset({"heartbeat", "heartbeats", "login", "revokeToken"})
"""They take no `Idempotency-Key`."""
_WHY: Mapping[int, str] = {
    NOT_MODIFIED: "The caller has this layout already.",
    400: "The request can't be understood; the message names each field to mend.",
    401: "There are accounts here, and nobody has shown that he has one.",
    403: "The account may not do this; or the request comes from the page of another site.",
    404: "There is no such thing.",
    409: "The present state forbids it; the message says what has to end first.",
    413: "The body is too long.",
    422: "It can't be done to this thing, or the Idempotency-Key stood for another request.",
    429: "Too many of its kind; `Retry-After` says when to try again.",
    503: "Something that this needs does not answer; nothing was changed.",
}
_REQUEST_ID: Json = {
    "name": "X-Request-Id",
    "in": "header",
    "description": "Repeated in the answer and in the log.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,64}$"},
}
_IDEMPOTENCY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A retry under the same key, within a day, is answered alike and done once.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
}
_IF_NONE_MATCH: Json = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The `ETag` of the routing that the caller has.",
    "schema": {"type": "string", "pattern": '^"[A-Za-z0-9-]{1,80}"$'},
}


_SCHEMES: Mapping[str, Json] = {
    "basic": {"type": "http", "scheme": "basic"},
    "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
}


@functools.cache
def document() -> bytes:
    """The document's JSON."""
    return msgspec.json.encode(_document())


def _document() -> Json:
    kinds = [kind for operation in OPERATIONS for kind in _types(operation)]
    schemas, components = msgspec.json.schema_components([*kinds, Problem], ref_template="#/components/schemas/{name}")
    by_type = dict(zip(map(repr, [*kinds, Problem]), schemas, strict=True))
    paths: dict[str, Json] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "streamshard",
            "version": installed("streamshard"),
            "summary": "Consumer groups for Redis Streams: the coordinator's API.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": name, "description": text} for name, text, _ in _TAGS],
        "paths": paths,
        "components": {
            "schemas": {name: _portable(schema) for name, schema in sorted(components.items())},
            "securitySchemes": _SCHEMES,
        },
    }


def _types(operation: Operation) -> Iterable[Any]:
    return (kind for kind in (operation.answer, operation.body) if kind is not None and not isinstance(kind, str))


def _operation(operation: Operation, schemas: Mapping[str, Json]) -> Json:
    said: Json = {
        "operationId": operation.id,
        "tags": [next(name for name, _, all_of in _TAGS if operation in all_of)],
        "summary": operation.text,
        "parameters": _parameters(operation),
        "responses": _responses(operation, schemas),
        "security": _security(operation),
        "x-needs": operation.need.value,
    }
    if operation.body is not None:
        content: Json = {"schema": schemas[repr(operation.body)]}
        if operation.example is not None:
            content["example"] = dict(operation.example)
        said["requestBody"] = {"required": True, "content": {"application/json": content}}
    return said


def _security(operation: Operation) -> list[Json]:
    """Ways to be let in. Nobody has to, too: that is how it is while there are no accounts."""
    return [] if operation.need is Need.OPEN else [{}, *({name: []} for name in _SCHEMES)]


def _parameters(operation: Operation) -> list[Json]:
    named = re.findall(r"\{(\w+)\}", operation.path)
    found = [_in_path(name) for name in named]
    found += [_query(parameter) for parameter in operation.query]
    found.append(_REQUEST_ID)
    if operation.body is not None and operation.id not in _PLAIN:
        found.append(_IDEMPOTENCY)
    if NOT_MODIFIED in operation.errors:
        found.append(_IF_NONE_MATCH)
    return found


def _in_path(name: str) -> Json:
    text, schema, example = _PATH[name]
    return {"name": name, "in": "path", "required": True, "description": text, "schema": schema, "example": example}


def _query(parameter: Parameter) -> Json:
    said: Json = {
        "name": parameter.name,
        "in": "query",
        "description": parameter.text,
        "schema": dict(parameter.schema),
    }
    return {**said, "required": True} if parameter.required else said


def _responses(operation: Operation, schemas: Mapping[str, Json]) -> Json:
    media = operation.answer if isinstance(operation.answer, str) else "application/json"
    schema: Json = {"type": "string"} if isinstance(operation.answer, str) else schemas[repr(operation.answer)]
    headers = {"X-Request-Id": {"schema": {"type": "string"}}}
    if NOT_MODIFIED in operation.errors:
        headers["ETag"] = {"schema": {"type": "string"}}
    done: Json = {"description": operation.text, "headers": headers, "content": {media: {"schema": schema}}}
    wrong = {str(status): _wrong(status) for status in _statuses(operation)}
    return {str(operation.status): done, **wrong}


def _statuses(operation: Operation) -> list[int]:
    usual = {400, 403, 413, 503} if operation.need is Need.OPEN else {400, 401, 403, 413, 429, 503}
    if operation.body is not None:
        usual |= {401, 409, 422, 429}
    return sorted(usual | set(operation.errors))


def _wrong(status: int) -> Json:
    if status == NOT_MODIFIED:
        return {"description": _WHY[status]}
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        "description": f"{STATUS_NAMES[status]}: {_WHY[status]}",
        "content": {"application/json": {"schema": schema}},
    }


def _portable(schema: Any) -> Any:
    """Patterns as every reader of JSON Schema understands them: Python's own anchors are not ECMA's."""
    if isinstance(schema, dict):
        return {
            name: _pattern(v) if name == "pattern" and isinstance(v, str) else _portable(v)
            for name, v in schema.items()
        }
    return [_portable(each) for each in schema] if isinstance(schema, list) else schema


def _pattern(text: str) -> str:
    return text.replace(r"\A", "^").replace(r"\Z", "$")
