"""Whatever may happen next in a state: messages arrive or not, handlers end, time goes on, faults strike."""

from collections.abc import Iterator
from typing import TypeAlias

import attrs

from streamshard.core import session
from streamshard.core.actions import Drain, Drop, Rejoin
from streamshard.core.commands import Heartbeat
from streamshard.core.ids import InstanceId, Instant, ShardIndex, Token
from streamshard.core.records import Access
from streamshard.core.session import Phase, Session, Step, Use
from streamshard.testing.exhaustive.bench import Bench
from streamshard.testing.exhaustive.state import Budget, Process, State


@attrs.frozen
class Move:
    """One thing that happened. ``fault``: healthy systems get well without it."""

    told: str
    state: State
    fault: bool = False
    forgot: bool = False
    """The store went back to an earlier commit."""


Moves: TypeAlias = Iterator[Move]


def moves(bench: Bench, state: State) -> Moves:
    """Every one, each with the state that it leads to."""
    if state.budget.moments != 0:
        yield Move("time goes on", _later(bench, state))
    for number in range(len(state.memories)):
        yield Move(f"c{number} ticks", bench.tick(state, number))
        if state.budget.crashes and state.memories[number] is not None:
            yield Move(f"c{number} starts again", _started_again(state, number), fault=True)
    for number, process in enumerate(state.processes):
        yield from _arrivals(bench, state, number, process)
        if not process.ended:
            yield from _steps(state, number, process)
    yield from _store(state)


def _spend(state: State, name: str) -> Budget:
    return attrs.evolve(state.budget, **{name: getattr(state.budget, name) - 1})


def _later(bench: Bench, state: State) -> State:
    budget = state.budget if state.budget.moments is None else _spend(state, "moments")
    return attrs.evolve(state, now=Instant(state.now + bench.unit_ms), budget=budget)


def _started_again(state: State, number: int) -> State:
    memories = (*state.memories[:number], None, *state.memories[number + 1 :])
    return attrs.evolve(state, memories=memories, budget=_spend(state, "crashes"))


def _store(state: State) -> Moves:
    """A loss of any suffix: some commit is what the store will go back to, and some time later it does."""
    if not state.budget.losses:
        return
    if state.kept is None:
        yield Move("the store will come back to this", attrs.evolve(state, kept=state.record), fault=True)
    elif state.kept.version != state.record.version:
        back = attrs.evolve(state, record=state.kept, kept=None, budget=_spend(state, "losses"))
        yield Move("the store forgets", back, fault=True, forgot=True)


def _arrivals(bench: Bench, state: State, number: int, process: Process) -> Moves:
    for to in range(len(state.memories)):
        if process.request is not None:
            yield from _arrives(bench, state, number, to, process.request)
        if process.copy is not None:
            told = f"{process.copy.intent.value} {process.copy.seq} of {process.copy.instance} reaches c{to} again"
            yield Move(told, _answered(bench, state, number, to, process.copy, "copy"))


def _arrives(bench: Bench, state: State, number: int, to: int, beat: Heartbeat) -> Moves:
    told = f"{beat.intent.value} {beat.seq} of {beat.instance} reaches c{to}"
    yield Move(told, _answered(bench, state, number, to, beat, "request"))
    if state.budget.copies and state.processes[number].copy is None:
        staying = attrs.evolve(state, budget=_spend(state, "copies")).with_process(
            number, attrs.evolve(state.processes[number], copy=beat)
        )
        yield Move(f"{told}, and stays", _answered(bench, staying, number, to, beat, "request"), fault=True)
    if state.budget.deaf:
        spent = attrs.evolve(state, budget=_spend(state, "deaf"))
        deaf = _answered(bench, spent, number, to, beat, "request", deaf=True)
        yield Move(f"{told}, while Redis is away", deaf, fault=True)


def _answered(  # noqa: PLR0913, PLR0917
    bench: Bench, state: State, number: int, to: int, beat: Heartbeat, kind: str, *, deaf: bool = False
) -> State:
    after, reply = bench.answer(state, to, beat, deaf=deaf)
    process = after.processes[number]
    waits = process.session.outstanding
    heard = not process.ended and waits is not None and waits.seq == beat.seq
    heard = heard and process.session.instance == beat.instance
    gone = attrs.evolve(process, request=None) if kind == "request" else attrs.evolve(process, copy=None)
    return after.with_process(number, attrs.evolve(gone, reply=reply) if heard else gone)


def _steps(state: State, number: int, process: Process) -> Moves:
    """What a process does by itself."""
    own = process.session
    if own.beats:
        noticed = _taken(state, number, process, session.expire(own, state.now))
        beating = _beat(noticed.processes[number], state.now)
        if not _says_the_same(process.request, beating.request, own, state.now):
            yield Move(f"{own.instance} beats", noticed.with_process(number, beating))
    if process.reply is not None:
        heard = attrs.evolve(process, reply=None)
        yield Move(
            f"{own.instance} hears {process.reply.status.value}",
            _taken(state, number, heard, session.hear(own, process.reply, state.now)),
        )
    for shard, token in sorted(process.ending):
        step = session.finished(own, shard, token, state.now)
        done = attrs.evolve(process, ending=process.ending - {(shard, token)})
        yield Move(f"{own.instance} has finished with shard {shard}", _taken(state, number, done, step))
    yield from _reads(state, number, process)
    yield from _ends(state, number, process)


def _beat(process: Process, now: Instant) -> Process:
    """Whatever was under way is given up: a request that was lost, or an answer."""
    own = process.session
    if own.outstanding is not None:
        own = session.unanswered(own)[0]
    own, request = session.beat(own, now)
    return attrs.evolve(process, session=own, request=request, reply=None)


def _says_the_same(waiting: Heartbeat | None, fresh: Heartbeat | None, own: Session, now: Instant) -> bool:
    """To send again at once what is still under way is nothing new: the lease would begin no later."""
    if waiting is None or fresh is None or own.outstanding is None or own.outstanding.sent_at != now:
        return False
    return attrs.evolve(waiting, seq=fresh.seq) == fresh


def _taken(state: State, number: int, process: Process, step: Step) -> State:
    """The session's new state, with what it asked of its runtime done or begun."""
    own, actions = step
    drawn, lives, ending = state.drawn, process.lives, set(process.ending)
    for action in actions:
        if isinstance(action, Drain | Drop) and own.running.get(action.shard) == action.token:
            ending.add((action.shard, action.token))
        elif isinstance(action, Rejoin):
            instance = InstanceId(f"i{number}.{len(lives)}")
            own, lives = session.rejoin(own, instance)[0], (*lives, instance)
    changed = attrs.evolve(process, session=own, ending=frozenset(ending), lives=lives)
    return attrs.evolve(state, drawn=drawn).with_process(number, changed)


def _reads(state: State, number: int, process: Process) -> Moves:
    """An order that changes a fence, or is refused by it; any other is no step of this world."""
    own = process.session
    for shard, hold in own.held.items():
        reading = hold.use is Use.READING and own.running.get(shard) == hold.token
        if not reading or state.marks[shard] == hold.token or not process.may_use(shard, state.now):
            continue
        if hold.token > state.marks[shard]:
            yield Move(
                f"{own.instance} reads shard {shard}", attrs.evolve(state, marks={**state.marks, shard: hold.token})
            )
        else:
            step = session.refused(own, shard, hold.token, Access.FENCED)
            yield Move(f"{own.instance} is fenced on shard {shard}", _taken(state, number, process, step))


def _ends(state: State, number: int, process: Process) -> Moves:
    own = process.session
    if state.budget.deaths:
        spent = attrs.evolve(state, budget=_spend(state, "deaths"))
        dead = attrs.evolve(process, dead=True, reply=None)
        yield Move(f"{own.instance} dies", spent.with_process(number, dead), fault=True)
    if state.budget.leaves and not own.stopping:
        spent = attrs.evolve(state, budget=_spend(state, "leaves"))
        yield Move(f"{own.instance} leaves", _taken(spent, number, process, session.stop(own)), fault=True)
    if state.budget.twins and own.phase is Phase.MEMBER:
        spent = attrs.evolve(state, budget=_spend(state, "twins"))
        instance = InstanceId(f"i{len(state.processes)}")
        twin = Process(Session(own.member, instance), (instance,))
        yield Move(
            f"{instance} starts as {own.member}", attrs.evolve(spent, processes=(*spent.processes, twin)), fault=True
        )


def readers(state: State) -> list[tuple[ShardIndex, InstanceId, Token]]:
    """Who may read, handle or acknowledge at this instant."""
    return [
        (shard, process.session.instance, hold.token)
        for process in state.processes
        for shard, hold in process.session.held.items()
        if process.may_use(shard, state.now)
    ]
