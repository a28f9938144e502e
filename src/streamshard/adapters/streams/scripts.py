"""The Lua scripts of the shards, and how they are called: by digest, with their text as fallback."""

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import attrs
from redis.exceptions import NoScriptError

from streamshard.adapters.streams.connections import Command, Exchanging
from streamshard.core.ids import ShardIndex, StreamPrefix, stream_key


@attrs.frozen
class Script:
    """One script's text and digest."""

    text: str
    sha: str


@attrs.frozen
class Call:
    """A script about to run on one shard."""

    script: Script
    key: str
    arguments: tuple[str | int, ...] = ()
    reads_only: bool = False
    """An account that may not write can run it."""

    def by_digest(self) -> Command:
        """The short form, which a server that never saw the script refuses."""
        return (
            "EVALSHA_RO" if self.reads_only else "EVALSHA",
            self.script.sha,
            2,
            self.key,
            fence_key(self.key),
            *self.arguments,
        )

    def by_text(self) -> Command:
        """The long form, which also makes the server remember the script."""
        return (
            "EVAL_RO" if self.reads_only else "EVAL",
            self.script.text,
            2,
            self.key,
            fence_key(self.key),
            *self.arguments,
        )


def fence_key(key: str) -> str:
    """The hash beside a shard's key, in the same cluster slot."""
    return f"{{{key}}}:fence"


def shard_call(script: Script, prefix: StreamPrefix, shard: ShardIndex, *arguments: str | int) -> Call:
    """A call on the shard's key."""
    return Call(script, stream_key(prefix, shard), arguments)


def shard_look(script: Script, prefix: StreamPrefix, shard: ShardIndex, *arguments: str | int) -> Call:
    """A call that only reads."""
    return Call(script, stream_key(prefix, shard), arguments, reads_only=True)


@cache
def load(name: str, *preludes: str, first: str | None = None) -> Script:
    """Read a script and what it shares with others from the package's data; ``first`` comes before all of that."""
    folder = files("streamshard.adapters.streams") / "lua"
    parts = (*([first] if first else []), "common", *preludes, name)
    text = "\n".join((folder / f"{part}.lua").read_text("utf-8") for part in parts)
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


async def run(connections: Exchanging, calls: Sequence[Call]) -> list[object]:
    """Run ``calls`` in one round trip, or in a few where a server had forgotten a script."""
    if not calls:
        return []
    outcomes = await connections.exchange([call.by_digest() for call in calls])
    # What the first call has taught one node of a cluster, the others may still not know.
    for teach in (_with_texts, _all_texts):
        unknown = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, NoScriptError)]
        if not unknown:
            break
        again = await connections.exchange(teach([calls[i] for i in unknown]))
        for i, outcome in zip(unknown, again, strict=True):
            outcomes[i] = outcome
    return outcomes


def _all_texts(calls: Sequence[Call]) -> list[Command]:
    return [call.by_text() for call in calls]


def _with_texts(calls: Sequence[Call]) -> list[Command]:
    # The first call of each script teaches it to the server; those behind it may go by digest.
    taught: set[str] = set()
    commands = []
    for call in calls:
        commands.append(call.by_digest() if call.script.sha in taught else call.by_text())
        taught.add(call.script.sha)
    return commands
