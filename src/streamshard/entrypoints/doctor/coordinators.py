"""What a coordinator says of itself over HTTP, and what that means."""

from collections.abc import Iterator
from importlib.metadata import version as installed
from typing import Any

import attrs

from streamshard.entrypoints.cli.client import Api
from streamshard.entrypoints.doctor.findings import Finding, Place
from streamshard.errors import StreamshardError


@attrs.frozen
class Told:
    """Its answers; ``trouble`` stands for those that did not come."""

    url: str
    health: dict[str, Any] | None = None
    version: str | None = None
    streams: tuple[tuple[str, int], ...] = ()
    trouble: str = ""


def ask(api: Api, url: str) -> Told:
    """Health, version and streams; never raises for a coordinator that is away or refuses."""
    try:
        health = api.get("monitoring", "health")
        listed = api.get("streams")["streams"]
        version = api.release()
    except StreamshardError as error:
        return Told(url, trouble=error.message)
    return Told(url, health, version, tuple((each["streamPrefix"], each["shardCount"]) for each in listed))


def judged(told: Told, *, wanted: bool) -> Iterator[Finding]:
    """``wanted``: somebody named it, so that it has to be there."""
    at = Place(told.url)
    if told.health is None:
        say = at.fail if wanted else at.warn
        yield say("coordinator", told.trouble, "start one with `streamshard serve`, or name it with --url")
        return
    yield at.ok("coordinator", f"answers, with {len(told.streams)} streams")
    yield _version(told.version, at)
    yield from _health(told.health, at)


def _version(version: str | None, at: Place) -> Finding:
    here = installed("streamshard")
    if version == here:
        return at.ok("version", f"streamshard {version}, as here")
    remedy = "use one version everywhere, coordinators first"
    return at.warn("version", f"streamshard {version or 'of a version that it does not say'}, here {here}", remedy)


def _health(health: dict[str, Any], at: Place) -> Iterator[Finding]:
    parts = ", ".join(f"{name} {health.get(name, '?')}" for name in ("store", "redis", "loop"))
    told = f"{health['status']}: {parts}"
    if health["status"] == "UP":
        yield at.ok("health", told)
    else:
        say = at.fail if health["status"] == "DOWN" else at.warn
        yield say("health", told, "see the coordinator's log, which says what it waits for")
    if broken := health.get("invariantViolations"):
        yield at.fail("invariants", "; ".join(broken), "keep the log, and report it: this must not happen")
    if unread := health.get("unreadShards"):
        yield at.warn("reading", f"not read though owned: {', '.join(unread)}", "look at the members that own them")
