"""A fault, the rule that it breaks, and what has to notice it."""

import inspect
from collections.abc import Mapping
from types import MappingProxyType

import attrs

from tests.mutants import members, shards, stores
from tests.mutants.edits import Mutation
from tests.mutants.killers import Killer
from tests.unit.cluster import mutants


def _functions() -> dict[str, Mutation]:
    made = inspect.getmembers(mutants, inspect.isfunction)
    return {name: function for name, function in made if function.__module__ == mutants.__name__}


MUTATIONS: Mapping[str, Mutation] = MappingProxyType({**_functions(), **members.EDITS, **stores.EDITS, **shards.EDITS})
"""How each is brought about."""


@attrs.frozen
class Mutant:
    """One fault."""

    name: str
    rule: str
    killer: Killer

    def dies(self) -> bool:
        """Whether it is noticed."""
        return self.killer.kills(self.name, MUTATIONS[self.name])
