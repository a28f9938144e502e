"""Who wants to hear that a stream's or a group's record has changed, and since when."""

from collections.abc import Callable
from typing import TypeAlias

import attrs

from streamshard.core.ids import GroupKey, LayoutVersion, Lineage, MemberId, StreamPrefix, View

Watched: TypeAlias = GroupKey | StreamPrefix
Listener: TypeAlias = Callable[[Watched], None]


@attrs.frozen
class GroupWatch:
    """Asks for a commit of the group that is newer than what the asker has seen."""

    key: GroupKey
    view: View | None = None
    """None: whatever there is, is news."""
    members: tuple[MemberId, ...] | None = None
    """Only of commits after which a heartbeat of one of these would do something; None: of every commit."""

    @property
    def prefix(self) -> StreamPrefix:
        """The stream that the group belongs to."""
        return self.key.prefix

    @property
    def watched(self) -> GroupKey:
        """The key of the record that is watched."""
        return self.key


@attrs.frozen
class LayoutWatch:
    """Asks for another layout than the one that the asker routes by."""

    prefix: StreamPrefix
    version: LayoutVersion
    lineage: Lineage | None = None
    """None: the number alone is compared."""

    @property
    def watched(self) -> StreamPrefix:
        """The key of the record that is watched."""
        return self.prefix


Watch: TypeAlias = GroupWatch | LayoutWatch


class Notices:
    """Names each record that this coordinator changed, or found changed; the listener looks up what it says now.

    A listener is called in the middle of things: it must not raise, and do no more than take a note.
    """

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` from now on; returns what ends that, once."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, key: Watched) -> None:
        """The record of ``key`` is another one now, or gone."""
        for listener in tuple(self._listeners):
            listener(key)
