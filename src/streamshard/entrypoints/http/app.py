"""The ASGI application: routes on the raw path, one error shape, the heartbeat ahead of the router."""

import contextlib
import functools
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
from streamshard.entrypoints.http.gate import Gate
from streamshard.entrypoints.http.grafana import Grafana
from streamshard.entrypoints.http.login import Access
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
    OPERATIONS,
    ROOT,
    STREAM,
    WATCHED,
    Operation,
)
from streamshard.entrypoints.http.traffic import Traffic
from streamshard.entrypoints.http.views import Probes, Views
from streamshard.entrypoints.http.watching import Watching
from streamshard.entrypoints.logs import REQUEST
from streamshard.errors import Terminating

logger = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Reply]]
Methods = Mapping[str, Handler]
Listener = Callable[[Scope, Receive, Send, str], Awaitable[None]]
Guard = Callable[[Scope], None]
Lifespan = Callable[[Any], contextlib.AbstractAsyncContextManager[None]]

_SHOWN_OF_A_PATH = 200


def create_app(  # noqa: PLR0913  # what an application is put together from, all but one by name
    coordinator: Coordinator,
    *,
    traffic: Traffic | None = None,
    guard: Guard = refuse_other_sites,
    lifespan: Lifespan | None = None,
    inspector: StreamInspector | None = None,
    gate: Gate | None = None,
) -> ASGIApp:
    """The coordinator as an ASGI application.

    ``traffic`` is shared with a `Ticker`, so that ticks let requests pass, and counts what is answered;
    ``guard`` raises for requests that are not even looked at; ``lifespan`` runs around the application
    where it is the outermost one (a mounted application's host runs its own); without an ``inspector``
    nothing can be told of what is in the shards, and those who ask are answered 503; ``gate`` decides who
    may do what, and without one everybody may do everything.
    """
    traffic = traffic or Traffic()
    members = Members(coordinator, traffic.recorder)
    gate = gate or Gate(coordinator_id=coordinator.settings.coordinator_id)
    table = resources(coordinator, traffic, inspector, members, gate)
    return _App(_router(table, traffic, gate, lifespan), _listener(members, gate), members, traffic, guard)


def _listener(members: Members, gate: Gate) -> Listener:
    return members.answer if gate.identities is None else functools.partial(members.answer_known, gate)


def _router(table: Mapping[str, Methods], traffic: Traffic, gate: Gate, lifespan: Lifespan | None) -> Router:
    made = {path: _Resource(path, methods, traffic.recorder, gate) for path, methods in table.items()}
    routes = [Route(path.replace("}", ":streamshard_segment}"), resource) for path, resource in made.items()]
    return Router(routes, redirect_slashes=False, default=_not_found, lifespan=lifespan)


def resources(
    coordinator: Coordinator,
    traffic: Traffic,
    inspector: StreamInspector | None = None,
    members: Members | None = None,
    gate: Gate | None = None,
) -> Mapping[str, Methods]:
    """Every path template with what may be done to it; `operations` says the same in words."""
    members = members or Members(coordinator, traffic.recorder)
    monitoring = coordinator.monitoring(inspector)
    views = Views(coordinator, monitoring)
    return {
        **_administered(coordinator, traffic, views),
        HEARTBEAT: {"POST": members.heartbeat},
        **_entered(Access(gate or Gate())),
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


def _entered(access: Access) -> dict[str, Methods]:
    return {ROOT + "/auth/login": {"POST": access.login}, ROOT + "/auth/revoke": {"POST": access.revoke}}


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

    def __init__(self, path: str, methods: Methods, recorder: Recorder, gate: Gate) -> None:
        served = {**methods, "HEAD": methods["GET"]} if "GET" in methods else dict(methods)
        self._methods = {
            name: (handler, recorder.route(path, name), _described(path, name)) for name, handler in served.items()
        }
        self._gate = gate
        self._unserved = recorder.route(path, OTHER)
        self._allowed = tuple(sorted(self._methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the gate look, call the handler, send what it answers; errors are raised through."""
        served = self._methods.get(scope["method"])
        if served is None:
            scope[SEEN].append(self._unserved)
            raise MethodNotAllowed(self._allowed)
        handler, seen, operation = served
        scope[SEEN].append(seen)
        began = now()
        reply = await self._gate.serve(scope, receive, operation, handler, scope["path_params"])
        await send_reply(send, reply, scope[TAG])
        seen.answered(reply.status, now() - began)


_DESCRIBED: dict[tuple[str, str], Operation] = {(each.path, each.method): each for each in OPERATIONS}


def _described(path: str, method: str) -> Operation:
    """What is said of it; nothing is served of which it is not said what it takes to be let in."""
    return _DESCRIBED[path, "GET" if method == "HEAD" else method]


class _App:
    """The outermost layer: request ids, errors, and who is still being answered."""

    def __init__(self, router: Router, answer: Listener, members: Members, traffic: Traffic, guard: Guard) -> None:
        self._router = router
        self._answer = answer
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
        REQUEST.set(scope[TAG][1])
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
            return self._answer(scope, receive, send, local)
        return self._router({**scope, "path": path}, receive, send)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
        return
    raise PathNotFound("nothing is served at this path: see the contract's list of endpoints")
