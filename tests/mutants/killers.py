"""What has to notice a fault: one test, a machine, a small world searched to its end, or a simulated run."""

import importlib
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Protocol

import attrs
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from streamshard.testing.exhaustive.scopes import named
from streamshard.testing.exhaustive.search import explore
from streamshard.testing.simulator.running import simulate
from tests.mutants.edits import Mutation
from tests.unit.cluster.hazards import hunting

FAILED_TESTS = 1
"""Pytest's exit code for that alone: an error of the run itself kills nothing."""


class Killer(Protocol):
    """Something that fails under the fault."""

    @property
    def quick(self) -> bool:
        """Tried at every change."""
        ...

    def kills(self, name: str, mutation: Mutation) -> bool:
        """Whether it notices the fault of that name."""
        ...


def _fails(mutation: Mutation, run: Callable[[], object]) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        mutation(patch)
        try:
            run()
        except (Exception, pytest.fail.Exception):
            return True
    return False


@attrs.frozen
class Case:
    """A test without fixtures: "module:test" or "module:Class.test", below ``tests.unit``."""

    where: str
    quick: bool = True

    def __str__(self) -> str:
        return self.where.rpartition(":")[2].rpartition(".")[2]

    def kills(self, name: str, mutation: Mutation) -> bool:
        """Run it in this process."""
        return _fails(mutation, self._test())

    def _test(self) -> Callable[[], object]:
        module, _, path = self.where.partition(":")
        kind, _, name = path.rpartition(".")
        place = importlib.import_module(f"tests.unit.{module}")
        test: Callable[[], object] = getattr(getattr(place, kind)() if kind else place, name)
        assert not inspect.signature(test).parameters, f"{self.where} needs pytest: name it as a `Node`"
        return test


@attrs.frozen
class Node:
    """Whatever pytest can run, below ``tests``; in a process of its own."""

    node: str
    quick: bool = False

    def __str__(self) -> str:
        return self.node.rpartition("::")[2]

    def kills(self, name: str, mutation: Mutation) -> bool:
        """Run it under the plugin that applies the fault."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "tests.mutants.plugin"]
        ended = subprocess.run(
            [*command, f"tests/{self.node}"],
            env={**os.environ, "STREAMSHARD_MUTANT": name},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode in (0, FAILED_TESTS), ended.stdout + ended.stderr
        return ended.returncode == FAILED_TESTS


@attrs.frozen
class Machine:
    """A machine of the cluster, with the same examples in every run."""

    machine: type[RuleBasedStateMachine]
    quick: bool = True

    def __str__(self) -> str:
        return f"machine {self.machine.__name__}"

    def kills(self, name: str, mutation: Mutation) -> bool:
        """Let it look for a breach, and not for the shortest way there.

        Hypothesis takes numbers from whatever modules are loaded, so that the same examples are others beside
        other tests: before a fault is said to survive, it looks further.
        """
        return any(_fails(mutation, partial(self._look, examples)) for examples in (60, 300))

    def _look(self, examples: int) -> None:
        chosen = settings(hunting(examples), phases=[Phase.generate], print_blob=False)
        run_state_machine_as_test(self.machine, settings=chosen)


@attrs.frozen
class Search:
    """A scope of the exhaustive search."""

    scope: str
    quick: bool = True

    def __str__(self) -> str:
        return f"search of {self.scope}"

    def kills(self, name: str, mutation: Mutation) -> bool:
        """Search it, up to the first breach."""
        with pytest.MonkeyPatch.context() as patch:
            mutation(patch)
            return explore(named(self.scope)).breach is not None


@attrs.frozen
class Seed:
    """A simulated run."""

    seed: int
    profile: str
    quick: bool = True

    def __str__(self) -> str:
        return f"simulation {self.profile} {self.seed}"

    def kills(self, name: str, mutation: Mutation) -> bool:
        """Run it."""
        with pytest.MonkeyPatch.context() as patch:
            mutation(patch)
            return simulate(self.seed, self.profile).failure is not None
