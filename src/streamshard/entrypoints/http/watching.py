"""The handler that answers when there is news, and holds the question open until then."""

import asyncio
import re
from collections.abc import Coroutine
from typing import TypeVar
from urllib.parse import parse_qsl

from streamshard.adapters.watchtower import Watchtower
from streamshard.core.ids import GroupKey, LayoutVersion, Lineage, Millis, StreamPrefix, View
from streamshard.core.names import check_group, check_member
from streamshard.core.notices import GroupWatch, LayoutWatch
from streamshard.core.replies import News
from streamshard.entrypoints.http.exchange import ClientGone, Reply, Request, json_reply
from streamshard.entrypoints.http.traffic import Traffic
from streamshard.errors import InvalidRequest

LONGEST_WAIT_MS = 30_000
DEFAULT_WAIT_MS = 25_000
MOST_MEMBERS = 1_000

_KNOWN = ("group", "view", "layout", "waitMs")
_LAYOUT = re.compile(r'(?:W/)?"?(?:([0-9A-Za-z]{1,64})-)?([0-9]{1,15})"?', re.ASCII)
_WAIT = re.compile(r"[0-9]{1,5}", re.ASCII)
_VIEW_CHARS = 500

_Result = TypeVar("_Result")


class Watching:
    """Held requests: ticks don't wait for them, and a caller who hangs up is forgotten."""

    def __init__(self, tower: Watchtower, traffic: Traffic) -> None:
        self._tower = tower
        self._traffic = traffic

    async def watch(self, request: Request) -> Reply:
        """GET ``/streams/{p}/watch``."""
        watch, wait = question(request.prefix, request.scope["query_string"])
        self._traffic.stand_aside(request.ticket)
        news = await _unless_gone(request, self._tower.watch(watch, wait))
        return json_reply(200, news_json(news))


async def _unless_gone(request: Request, answering: Coroutine[object, object, _Result]) -> _Result:
    """The answer; raises `ClientGone` as soon as nobody is left to hear it."""
    answer = asyncio.ensure_future(answering)
    gone = asyncio.ensure_future(request.hung_up())
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientGone
        return answer.result()
    finally:
        for task in (answer, gone):
            task.cancel()
        await asyncio.gather(answer, gone, return_exceptions=True)


def question(prefix: StreamPrefix, raw: bytes) -> tuple[GroupWatch | LayoutWatch, Millis]:
    """What is asked, and how long the caller wants to wait; raises `InvalidRequest`."""
    single, members = _parsed(raw)
    wait = single.get("waitMs", str(DEFAULT_WAIT_MS))
    if not _WAIT.fullmatch(wait) or int(wait) > LONGEST_WAIT_MS:
        raise InvalidRequest(f"waitMs: must be a whole number from 0 to {LONGEST_WAIT_MS}")
    if ("group" in single) == ("layout" in single):
        raise InvalidRequest("group: give either group (with view), or layout")
    watch = _layout_watch(prefix, single, members) if "layout" in single else _group_watch(prefix, single, members)
    return watch, Millis(int(wait))


def _parsed(raw: bytes) -> tuple[dict[str, str], list[str]]:
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_MEMBERS + 16
        )
    except ValueError:
        raise InvalidRequest(
            f"query: can't be read: percent-encode UTF-8, name {MOST_MEMBERS} members at most"
        ) from None
    for name in _KNOWN:
        if sum(given == name for given, _ in pairs) > 1:
            raise InvalidRequest(f"{name}: stands there twice: send it once")
    return {name: value for name, value in pairs if name in _KNOWN}, [
        value for name, value in pairs if name == "member"
    ]


def _group_watch(prefix: StreamPrefix, single: dict[str, str], members: list[str]) -> GroupWatch:
    if len(members) > MOST_MEMBERS:
        raise InvalidRequest(f"member: names {len(members)} members: name {MOST_MEMBERS} at most, or none for all")
    view = single.get("view")
    if view is not None and not 0 < len(view) <= _VIEW_CHARS:
        raise InvalidRequest("view: must be the one of the last answer, or be left out")
    key = GroupKey(prefix, check_group(single["group"], "group"))
    named = tuple(check_member(member) for member in members) if members else None
    return GroupWatch(key, None if view is None else View(view), named)


def _layout_watch(prefix: StreamPrefix, single: dict[str, str], members: list[str]) -> LayoutWatch:
    if "view" in single or members:
        raise InvalidRequest("view: goes with group, and so does member")
    found = _LAYOUT.fullmatch(single["layout"])
    if found is None:
        raise InvalidRequest("layout: must be a layout version, or the ETag of a producer routing")
    lineage, version = found.groups()
    return LayoutWatch(prefix, LayoutVersion(int(version)), None if lineage is None else Lineage(lineage))


def news_json(news: News) -> dict[str, object]:
    """The answer's JSON."""
    return {
        "changed": news.changed,
        "layoutVersion": news.layout_version,
        "metadataVersion": news.metadata_version,
        "layout": f"{news.lineage}-{news.layout_version}",
        "view": news.view,
        "members": None if news.members is None else list(news.members),
    }
