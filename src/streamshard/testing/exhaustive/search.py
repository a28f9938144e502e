"""Breadth first through a scope: every state is judged, and from every state there has to be a way to get well."""

from array import array
from collections import deque
from collections.abc import Callable, Iterator

import attrs

from streamshard.core.ids import ShardIndex
from streamshard.core.invariants import group_step_violations, group_violations, reader_violations
from streamshard.core.session import Phase, Use
from streamshard.errors import MetadataCorrupt
from streamshard.testing.exhaustive.bench import Bench
from streamshard.testing.exhaustive.canonical import canonical
from streamshard.testing.exhaustive.moves import Move, moves, readers
from streamshard.testing.exhaustive.scopes import Scope
from streamshard.testing.exhaustive.state import Process, State

REPORT_EVERY = 1_000


@attrs.frozen
class Breach:
    """What must not be, and the shortest way there."""

    problem: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        numbered = [f"{place:3}. {step}" for place, step in enumerate(self.steps, 1)]
        return "\n".join([self.problem, *numbered])


@attrs.frozen
class Found:
    """What a search came to."""

    scope: Scope
    states: int
    transitions: int
    exhausted: bool
    breach: Breach | None = None


def explore(scope: Scope, at_most: int | None = None, report: Callable[[int, int], None] | None = None) -> Found:
    """Search a scope to its end, or to the first breach, or to ``at_most`` states.

    ``report`` hears now and then how many states are known, and how many of them wait.
    """
    return _Search(scope, at_most, report).run()


class _Search:
    def __init__(self, scope: Scope, at_most: int | None, report: Callable[[int, int], None] | None) -> None:
        self._scope, self._at_most, self._report = scope, at_most, report
        self._bench = Bench(scope)
        self._numbers: dict[bytes, int] = {}
        self._parents, self._told = array("L"), list[str]()
        self._well = bytearray()
        self._edges_to: list[array[int]] = []
        """For each state, those that lead to it without a fault."""
        self._waiting: deque[State] = deque()
        self._transitions = 0

    def run(self) -> Found:
        self._note(self._bench.first, 0, "")
        number = 0
        while self._waiting:
            if self._at_most is not None and len(self._numbers) >= self._at_most:
                return self._found(exhausted=False)
            breach = self._expand(number, self._waiting.popleft())
            if breach is not None:
                return self._found(exhausted=False, breach=breach)
            number += 1
            if self._report is not None and number % REPORT_EVERY == 0:
                self._report(len(self._numbers), len(self._waiting))
        return self._found(exhausted=True, breach=self._stuck())

    def _found(self, *, exhausted: bool, breach: Breach | None = None) -> Found:
        return Found(self._scope, len(self._numbers), self._transitions, exhausted, breach)

    def _expand(self, number: int, state: State) -> Breach | None:
        try:
            for move in moves(self._bench, state):
                self._transitions += 1
                problem = next(problems(state, move), None)
                if problem is not None:
                    return Breach(problem, (*self._way_to(number), move.told))
                self._lead(number, move)
        except MetadataCorrupt as broken:
            return Breach(broken.message, (*self._way_to(number), "a coordinator ticks"))
        return None

    def _lead(self, number: int, move: Move) -> None:
        after = self._note(move.state, number, move.told)
        if not move.fault and after != number:
            self._edges_to[after].append(number)

    def _note(self, state: State, parent: int, told: str) -> int:
        key = canonical(state, self._bench.unit_ms)
        known = self._numbers.get(key)
        if known is not None:
            return known
        number = self._numbers[key] = len(self._numbers)
        self._parents.append(parent)
        self._told.append(told)
        self._well.append(is_well(state))
        self._edges_to.append(array("L"))
        self._waiting.append(state)
        return number

    def _way_to(self, number: int) -> tuple[str, ...]:
        steps = []
        while number:
            steps.append(self._told[number])
            number = self._parents[number]
        return tuple(reversed(steps))

    def _stuck(self) -> Breach | None:
        """I8, as far as it goes without a bound: nobody is ever where no way leads to a group that is well."""
        if self._scope.moments is not None:
            return None  # getting well may take longer than time goes on here
        good = deque(number for number, well in enumerate(self._well) if well)
        reached = bytearray(self._well)
        while good:
            for before in self._edges_to[good.popleft()]:
                if not reached[before]:
                    reached[before] = 1
                    good.append(before)
        stuck = next((number for number, fine in enumerate(reached) if not fine), None)
        return None if stuck is None else Breach("I8: from here the group never gets well", self._way_to(stuck))


def problems(before: State, move: Move) -> Iterator[str]:
    """The invariants that a move has broken."""
    after = move.state
    yield from (f"I1a: {text}" for text in reader_violations(readers(after)))
    if after.record is before.record:
        return
    yield from group_violations(after.record)
    if not move.forgot:
        yield from group_step_violations(before.record, after.record)
        yield from _freed(before, after)


def _freed(before: State, after: State) -> Iterator[str]:
    for shard, holding in before.record.holdings.items():
        now = after.record.holdings.get(shard)
        if now is not None and now.token == holding.token:
            continue
        for process in after.processes:
            hold = process.session.held.get(shard)
            mine = process.session.instance == holding.instance and hold is not None and hold.token == holding.token
            if mine and process.may_use(shard, after.now):
                yield f"I2: shard {shard} was freed while {holding.instance} may still use it"


def is_well(state: State) -> bool:
    """Every name is served, every shard is read by one process, and no quarantine is left."""
    alive = [process for process in state.processes if not process.ended and not process.session.stopping]
    if not alive:
        return True
    served = {process.session.member for process in alive if _is_served(process)}
    if state.record.quarantine is not None or served != {process.session.member for process in alive}:
        return False
    return all(sum(_reads(process, shard, state) for process in alive) == 1 for shard in state.marks)


def _is_served(process: Process) -> bool:
    return process.session.phase is Phase.MEMBER and process.session.settled


def _reads(process: Process, shard: ShardIndex, state: State) -> bool:
    hold = process.session.held.get(shard)
    if hold is None or hold.use is not Use.READING or not process.may_use(shard, state.now):
        return False
    return process.session.running.get(shard) == hold.token
