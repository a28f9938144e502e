"""Operators' commands: committed first, then carried out as far as it goes; ticks do the rest."""

from collections.abc import Callable

from streamshard.core.admin import (
    Amend,
    AmendStream,
    CreateGroup,
    CreateStream,
    DeleteGroup,
    DeleteStream,
    Rollback,
    Scale,
)
from streamshard.core.desk import Desk
from streamshard.core.facts import GroupFacts, StreamFacts
from streamshard.core.ids import GroupName, StreamPrefix
from streamshard.core.queries import GroupView, MigrationView
from streamshard.core.reading import Reading
from streamshard.core.stream import EntryState, StreamRecord, StreamState
from streamshard.core.stream_commit import group_of_answer, stream_of_answer
from streamshard.core.stream_events import StreamOutcome, Undo
from streamshard.core.stream_work import Found, StreamWork
from streamshard.errors import (
    GroupNotFound,
    NotFound,
    ProvisioningFailed,
    StateConflict,
    StoreSignal,
    StreamUnavailable,
    Unavailable,
)

MAX_ROUNDS = 12
"""How many rounds a request works at its own command before it leaves the rest to the ticks."""


class Administration:
    """The operator's door to the coordinator."""

    def __init__(self, desk: Desk, work: StreamWork, reading: Reading) -> None:
        self._desk = desk
        self._work = work
        self._reading = reading

    async def create_stream(self, command: CreateStream) -> StreamRecord:
        """Create and provision; a create that fails is taken back."""
        outcome = await self._work.command(command.prefix, command)
        if outcome.replayed:
            return await self._reading.stream(command.prefix)
        return await self._created(command.prefix, lambda record: record.state is StreamState.ACTIVE)

    async def create_group(self, command: CreateGroup) -> GroupView:
        """Create a group, and its stream if there is none."""
        key = command.key
        outcome = await self._work.command(key.prefix, command)
        if not outcome.replayed:
            await self._created(key.prefix, lambda record: _has_group(record, key.group))
        return await self._reading.group(key)

    async def _created(self, prefix: StreamPrefix, done: Callable[[StreamRecord], bool]) -> StreamRecord:
        try:
            record = await self._work_until(prefix, done)
        except StreamUnavailable as away:
            await self._take_back(prefix)
            raise ProvisioningFailed(f"shards of '{prefix}' could not be made: {away.message}") from away
        if isinstance(record, StreamRecord) and done(record):
            return record
        raise StateConflict(f"'{prefix}' is still being created: repeat the request to go on with it")

    async def _take_back(self, prefix: StreamPrefix) -> None:
        """Only a stream that was never in use is taken back; the ticks go on with what can't be done now."""
        await self._work.command(prefix, Undo(prefix))
        await self._carry_out(prefix)

    async def _work_until(self, prefix: StreamPrefix, done: Callable[[StreamRecord], bool]) -> Found:
        record: Found = None
        for _ in range(MAX_ROUNDS):
            turn = await self._work.round(prefix)
            record = turn.record
            if isinstance(record, StreamRecord) and done(record):
                break
            if turn.refusal is not None:
                await self._take_back(prefix)
                raise turn.refusal
            if not isinstance(record, StreamRecord) or not turn.worked:
                break
        return record

    async def _carry_out(self, prefix: StreamPrefix) -> None:
        """Start at once with what a committed command wants; it goes on by itself whatever happens here."""
        try:
            for _ in range(MAX_ROUNDS):
                if not (await self._work.round(prefix)).worked:
                    return
        except (Unavailable, StoreSignal):
            return

    async def scale(self, command: Scale) -> MigrationView:
        """Start a resharding, or go on with the same one."""
        return await self._under_way(command.prefix, await self._work.command(command.prefix, command))

    async def rollback(self, command: Rollback) -> MigrationView:
        """Take a resharding back."""
        return await self._under_way(command.prefix, await self._work.command(command.prefix, command))

    async def amend(self, command: Amend) -> MigrationView:
        """Change which foreign groups a running resharding ignores."""
        return await self._under_way(command.prefix, await self._work.command(command.prefix, command))

    async def amend_stream(self, command: AmendStream) -> StreamRecord:
        """Change what can be chosen anew of a stream; the ticks go by it from then on."""
        outcome = await self._work.command(command.prefix, command)
        assert isinstance(outcome.record, StreamRecord), "an accepted change is of a stream that exists"
        return outcome.record

    async def _under_way(self, prefix: StreamPrefix, outcome: StreamOutcome) -> MigrationView:
        """What is committed is answered as such, also if the store or Redis went away just now."""
        assert outcome.resharding is not None, "an accepted resharding command names its resharding"
        assert isinstance(outcome.record, StreamRecord), "a resharding is on a stream's record"
        await self._carry_out(prefix)
        try:
            return await self._reading.migration(prefix, outcome.resharding.id)
        except (Unavailable, NotFound):
            return self._reading.migration_view(outcome.record, outcome.resharding)

    async def delete_group(self, command: DeleteGroup) -> GroupFacts:
        """Delete a group; returns it as it was, also to whoever asks again under the same idempotency key."""
        key = command.key
        outcome = await self._work.command(key.prefix, command)
        await self._carry_out(key.prefix)
        facts = None if outcome.answer is None else group_of_answer(outcome.answer)
        if facts is None:
            raise GroupNotFound(f"no group '{key.group}' on stream '{key.prefix}': it is being deleted already")
        return facts

    async def delete_stream(self, command: DeleteStream) -> StreamFacts:
        """Delete a stream with its groups, or give up its create; returns it as it was."""
        outcome = await self._work.command(command.prefix, command)
        await self._carry_out(command.prefix)
        assert outcome.answer is not None, "an accepted command has an answer"
        return stream_of_answer(command.prefix, outcome.answer)


def _has_group(record: StreamRecord, name: GroupName) -> bool:
    entry = record.groups.get(name)
    return record.state is StreamState.ACTIVE and entry is not None and entry.state is EntryState.ACTIVE
