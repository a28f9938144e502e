"""A coordinator's process, and the clocks that processes go by."""

from typing import Any

from streamshard.adapters.stores.memory import MemoryStore
from streamshard.core.coordinator import Coordinator
from streamshard.core.replies import HeartbeatReply
from streamshard.testing.clock import ManualClock
from streamshard.testing.network import Letter
from streamshard.testing.stepping import Errand

RATES = (1000, 1005, 995)
"""Clock rates in per mille: any two differ by one per cent at most."""


class RatedClock(ManualClock):
    """One process's clock: starts anywhere, and runs a little too fast or too slow."""

    def __init__(self, boot: int, per_mille: int) -> None:
        super().__init__(boot)
        self._per_mille = per_mille
        self._real = 0
        self._shown = 0

    def run_at(self, per_mille: int) -> None:
        """Go at another rate from now on."""
        self._per_mille, self._real, self._shown = per_mille, 0, 0

    def pass_real(self, duration: int) -> None:
        """Let so much real time pass."""
        self._real += duration
        shown = self._real * self._per_mille // 1000
        self.advance(shown - self._shown)
        self._shown = shown


class CoordinatorProcess:
    """One coordinator's process; what it remembers ends with it."""

    def __init__(self, name: str, clock: RatedClock, store: MemoryStore, coordinator: Coordinator) -> None:
        self.name = name
        self.clock = clock
        self.store = store
        self.coordinator = coordinator
        self.asleep = False
        """The process is stopped: its clock goes on, it does nothing."""
        self.held: list[tuple[Letter, Errand[HeartbeatReply]]] = []
        """Answers that stand in the middle."""
        self.errands: list[Errand[Any]] = []
        """Operators' commands that stand in the middle."""
        self.ticking: Errand[None] | None = None
        """A tick that stands in the middle."""
        self.tick_at = clock.boot()

    def errand_of_a_tick(self) -> Errand[None]:
        """The tick that stands in the middle, or one that begins."""
        self.ticking = self.ticking or Errand(self.coordinator.tick())
        return self.ticking

    def end(self) -> None:
        """Be killed: nothing that stands in the middle ever goes on."""
        for errand in (*(e for _, e in self.held), *self.errands, *([self.ticking] if self.ticking else [])):
            errand.cancel()
