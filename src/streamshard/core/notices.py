"""Who wants to hear that a stream's or a group's record was seen to have changed."""

from collections.abc import Callable
from typing import TypeAlias

from streamshard.core.ids import GroupKey, StreamPrefix

Watched: TypeAlias = GroupKey | StreamPrefix
Listener: TypeAlias = Callable[[Watched], None]


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
