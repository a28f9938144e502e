"""A consumer process of the demo: notes what it may read, every handler's start, and every acknowledgement."""

import logging
import sys
from pathlib import Path

import attrs

from streamshard.adapters.client.message import Batch
from streamshard.core.ids import InstanceId, MemberId, ShardIndex, Token
from streamshard.core.session import Session
from streamshard.entrypoints.app import StreamApp
from streamshard.entrypoints.demo.journal import Journal
from streamshard.entrypoints.demo.plan import GROUP, MEMBERS_A_CONSUMER, STREAM

DRAIN_S = 5.0
MILLION = 1_000_000


@attrs.define
class _Right:
    """A right to read a shard, as the process was told of it. ``until``: boot time in ns, extended by heartbeats."""

    member: MemberId
    instance: InstanceId
    until: int


class Witness:
    """The demo's handler and callbacks; their lines are the evidence that the verdict goes by."""

    def __init__(self, app: StreamApp, journal: Journal) -> None:
        self._app = app
        self._journal = journal
        self._rights: dict[tuple[int, int], _Right] = {}

    async def handle(self, batch: Batch) -> None:
        """Acknowledge only what is on the disk."""
        shard, token = batch[0].shard, batch[0].fencing_token
        right = self._look(shard, token)
        records = [[message.id, int(message.fields[b"seq"]), message.delivery_count] for message in batch]
        self._note("handled", right, shard, token, records=records)
        await self._journal.kept()
        await batch.ack()
        self._note("acked", right, shard, token, ids=[message.id for message in batch])

    def on_assigned(self, member: MemberId, shard: ShardIndex, token: Token) -> None:
        """The shard may be read from now on."""
        session = self._session(member)
        self._rights[shard, token] = _Right(member, session.instance, 0)
        self._note("assigned", self._look(shard, token), shard, token)

    def on_revoked(self, member: MemberId, shard: ShardIndex, token: Token) -> None:
        """Nothing of the shard is read or handled any more."""
        self._note("revoked", self._look(shard, token), shard, token)

    def on_lost(self, member: MemberId, shard: ShardIndex, token: Token) -> None:
        """The right to read is gone."""
        self._note("lost", self._look(shard, token), shard, token)

    def _look(self, shard: ShardIndex, token: Token) -> _Right:
        right = self._rights[shard, token]
        held = self._session(right.member).held.get(shard)
        if held is not None and held.token == token:
            right.until = held.deadline * MILLION
        return right

    def _session(self, member: MemberId) -> Session:
        return next(m.session for m in self._app.members if m.session.member == member)

    def _note(self, kind: str, right: _Right, shard: ShardIndex, token: Token, **more: object) -> None:
        who = {"member": right.member, "instance": right.instance, "until": right.until}
        self._journal.note(kind, shard=shard, token=token, **who, **more)


def main(name: str, url: str, redis: str, journal_path: str) -> None:
    """Consume until told to stop."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    app = StreamApp(url, redis, drain_timeout=DRAIN_S)
    journal = Journal(Path(journal_path))
    witness = Witness(app, journal)
    app.listener(
        STREAM,
        group=GROUP,
        member_id=name,
        concurrency=MEMBERS_A_CONSUMER,
        batch=64,
        on_assigned=witness.on_assigned,
        on_revoked=witness.on_revoked,
        on_lost=witness.on_lost,
    )(witness.handle)
    try:
        app.run()
    finally:
        journal.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
