"""For pytest, with ``-p tests.mutants.plugin``: everything runs under the mutant that STREAMSHARD_MUTANT names."""

import os
from collections.abc import Iterator

import pytest

from tests.mutants.mutant import MUTATIONS


@pytest.fixture(autouse=True, scope="session")
def mutant() -> Iterator[None]:
    """Apply it before the first test."""
    with pytest.MonkeyPatch.context() as patch:
        MUTATIONS[os.environ["STREAMSHARD_MUTANT"]](patch)
        yield
