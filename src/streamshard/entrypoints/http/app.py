"""The ASGI application: routes on the raw path, one error shape, the heartbeat ahead of the router."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from streamshard.adapters.watchtower import Watchtower
from streamshard.core.coordinator import Coordinator
from streamshard.core.inspection import StreamInspector
from streamshard.entrypoints.http.admin import Admin
from streamshard.entrypoints.http.batches import Batches
from streamshard.entrypoints.http.browsers import refuse_other_sites
from streamshard.entrypoints.http.docs import Docs
from streamshard.entrypoints.http.exchange import (
    SEEN,
    TAG,
    TICKET,
    ClientGone,
    Reply,
    Request,
    raw_path,
    read_body,
    request_id,
    send_reply,
)
from streamshard.entrypoints.http.faults import (
    INTERNAL,
    MethodNotAllowed,
    PathNotFound,
    encode_error,
    error_headers,
    http_status,
)
from streamshard.entrypoints.http.grafana import Grafana
from streamshard.entrypoints.http.members import Members
from streamshard.entrypoints.http.metrics import Metrics
from streamshard.entrypoints.http.metrics_recorder import OTHER, Recorder, now
from streamshard.entrypoints.http.monitor import Monitor
from streamshard.entrypoints.http.operations import (
    GRAFANA,
    GROUP,
    HEARTBEAT,
    MIGRATION,
    MONITORING,
    ROOT,
    STREAM,
    WATCHED,
)
from streamshard.entrypoints.http.traffic import Traffic
from streamshard.entrypoints.http.views import Probes, Views
from streamshard.entrypoints.http.watching import Watching
from streamshard.errors import Terminating

logger = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Reply]]
Methods = Mapping[str, Handler]
Guard = Callable[[Scope], None]
Lifespan = Callable[[Any], contextlib.AbstractAsyncContextManager[None]]

_SHOWN_OF_A_PATH = 200


def create_app(
    coordinator: Coordinator,
    *,
    traffic: Traffic | None = None,
    guard: Guard = refuse_other_sites,
    lifespan: Lifespan | None = None,
    inspector: StreamInspector | None = None,
) -> ASGIApp:
    """The coordinator as an ASGI application.

    ``traffic`` is shared with a `Ticker`, so that ticks let requests pass, and counts what is answered;
    ``guard`` raises for requests that are not even looked at; ``lifespan`` runs around the application
    where it is the outermost one (a mounted application's host runs its own); without an ``inspector``
    nothing can be told of what is in the shards, and those who ask are answered 503.
    """
    traffic = traffic or Traffic()
    members = Members(coordinator, traffic.recorder)
    return _App(resources(coordinator, traffic, inspector, members), members, traffic, guard, lifespan)


def resources(
    coordinator: Coordinator,
    traffic: Traffic,
    inspector: StreamInspector | None = None,
    members: Members | None = None,
) -> Mapping[str, Methods]:
    """Every path template with what may be done to it; `operations` says the same in words."""
    members = members or Members(coordinator, traffic.recorder)
    monitoring = coordinator.monitoring(inspector)
    views = Views(coordinator, monitoring)
    return {
        **_administered(coordinator, traffic, views),
        HEARTBEAT: {"POST": members.heartbeat},
        **_monitored(Monitor(coordinator, monitoring, views), views),
        **_drawn(Grafana(coordinator, monitoring)),
        **_outside(Probes(coordinator, traffic), Metrics(coordinator, traffic, inspector), Docs()),
    }


def _administered(coordinator: Coordinator, traffic: Traffic, views: Views) -> dict[str, Methods]:
    admin = Admin(coordinator, views)
    tower = Watchtower(coordinator.watches)
    traffic.when_closed(tower.close)
    return {
        ROOT + "/streams": {"GET": views.streams},
        STREAM: {
            "GET": views.stream,
            "POST": admin.create_stream,
            "PATCH": admin.amend_stream,
            "DELETE": admin.delete_stream,
        },
        STREAM + "/scale": {"POST": admin.scale_stream},
        STREAM + "/route": {"GET": views.route},
        STREAM + "/watch": {"GET": Watching(tower, traffic).watch},
        ROOT + "/heartbeats": {"POST": Batches(coordinator, traffic.recorder.heartbeats).heartbeats},
        GROUP: {"GET": views.group, "POST": admin.create_group, "DELETE": admin.delete_group},
        GROUP + "/scale": {"POST": admin.scale_group},
        GROUP + "/producer-routing": {"GET": views.routing},
        MIGRATION: {"GET": views.migration, "POST": admin.amend},
        MIGRATION + "/rollback": {"POST": admin.rollback},
    }


def _monitored(monitor: Monitor, views: Views) -> dict[str, Methods]:
    return {
        MONITORING + "/health": {"GET": monitor.health},
        MONITORING + "/session": {"GET": monitor.session},
        MONITORING + "/compatibility": {"GET": monitor.compatibility},
        MONITORING + "/groups": {"GET": monitor.groups},
        WATCHED: {"GET": views.group},
        WATCHED + "/members": {"GET": monitor.members},
        WATCHED + "/assignments": {"GET": monitor.assignments},
        WATCHED + "/consumption": {"GET": monitor.consumption},
        WATCHED + "/migrations": {"GET": monitor.migrations},
        WATCHED + "/offsets": {"GET": monitor.offsets},
        WATCHED + "/shards/{shard}/messages": {"GET": monitor.messages},
        WATCHED + "/autoscale": {"GET": monitor.autoscale},
        WATCHED + "/events": {"GET": monitor.events},
    }


def _drawn(grafana: Grafana) -> dict[str, Methods]:
    return {
        GRAFANA + "/groups": {"GET": grafana.groups},
        GRAFANA + "/options/streams": {"GET": grafana.stream_options},
        GRAFANA + "/options/consumer-groups": {"GET": grafana.group_options},
        GRAFANA + "/options/shards": {"GET": grafana.shard_options},
        GRAFANA + "/members": {"GET": grafana.members},
        GRAFANA + "/shards": {"GET": grafana.shards},
        GRAFANA + "/assignments": {"GET": grafana.assignments},
        GRAFANA + "/messages": {"GET": grafana.messages},
    }


def _outside(probes: Probes, metrics: Metrics, docs: Docs) -> dict[str, Methods]:
    return {
        "/livez": {"GET": probes.live},
        "/readyz": {"GET": probes.ready},
        "/metrics": {"GET": metrics.metrics},
        "/openapi.json": {"GET": docs.openapi},
        "/docs": {"GET": docs.page},
        "/docs/page.css": {"GET": docs.style},
        "/docs/page.js": {"GET": docs.script},
    }


class _Segment(Convertor[str]):
    """A path segment, also an empty one: the handler says which name is missing."""

    regex = "[^/]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("streamshard_segment", _Segment())


class _Resource:
    """One path and its methods."""

    def __init__(self, path: str, methods: Methods, recorder: Recorder) -> None:
        served = {**methods, "HEAD": methods["GET"]} if "GET" in methods else dict(methods)
        self._methods = {name: (handler, recorder.route(path, name)) for name, handler in served.items()}
        self._unserved = recorder.route(path, OTHER)
        self._allowed = tuple(sorted(self._methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, call the handler, send what it answers; errors are raised through."""
        served = self._methods.get(scope["method"])
        if served is None:
            scope[SEEN].append(self._unserved)
            raise MethodNotAllowed(self._allowed)
        handler, seen = served
        scope[SEEN].append(seen)
        began = now()
        body = await read_body(scope, receive)
        reply = await handler(Request(scope, scope["path_params"], body, receive))
        await send_reply(send, reply, scope[TAG])
        seen.answered(reply.status, now() - began)


class _App:
    """The outermost layer: request ids, errors, and who is still being answered."""

    def __init__(
        self,
        table: Mapping[str, Methods],
        members: Members,
        traffic: Traffic,
        guard: Guard,
        lifespan: Lifespan | None,
    ) -> None:
        made = {path: _Resource(path, methods, traffic.recorder) for path, methods in table.items()}
        routes = [Route(path.replace("}", ":streamshard_segment}"), resource) for path, resource in made.items()]
        self._router = Router(routes, redirect_slashes=False, default=_not_found, lifespan=lifespan)
        self._members = members
        self._traffic = traffic
        self._guard = guard
        self._unserved = traffic.recorder.route(OTHER, OTHER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        ticket = scope[TICKET] = self._traffic.enter()
        scope[TAG], scope[SEEN] = (b"x-request-id", request_id(scope)), []
        began = now()
        try:
            await self._dispatch(scope, receive, send)
        except ClientGone:
            return
        except Exception as error:
            await self._complain(scope, send, error, began)
        finally:
            self._traffic.leave(ticket)

    async def _complain(self, scope: Scope, send: Send, error: Exception, began: float) -> None:
        tag, seen, status = scope[TAG], scope[SEEN], http_status(error)
        if status == INTERNAL:
            path = raw_path(scope)[:_SHOWN_OF_A_PATH]
            logger.exception("request %s failed: %s %r", tag[1].decode(), scope["method"], path, exc_info=error)
        await send_reply(send, Reply(status, encode_error(error)), tag, *error_headers(error))
        (seen[0] if seen else self._unserved).answered(status, now() - began)

    def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if self._traffic.closed and scope["path"] != "/livez":
            raise Terminating("this coordinator is shutting down: ask another one, or this one again in a moment")
        self._guard(scope)
        path = raw_path(scope).decode("latin-1")
        local = path.removeprefix(scope.get("root_path", ""))
        if scope["method"] == "POST" and self._members.listen(local):
            return self._members.answer(scope, receive, send, local)
        return self._router({**scope, "path": path}, receive, send)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
        return
    raise PathNotFound("nothing is served at this path: see the contract's list of endpoints")
