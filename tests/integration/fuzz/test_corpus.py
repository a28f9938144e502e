"""What once reached far, or failed, is read again at every change; and a little that nobody has tried yet."""

import itertools
import os
import random

import pytest

from tests.fuzz import corpus
from tests.fuzz.targets import TARGETS

FRESH = int(os.environ.get("STREAMSHARD_FUZZ", "300"))
"""How many inputs of a target are made anew; the same ones in every run."""


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_kept_brings_out_typed_errors_alone(target: str) -> None:
    inputs = corpus.kept(target)

    assert inputs, "nothing is kept of it: make some"
    for data in inputs:
        TARGETS[target](data)


@pytest.mark.parametrize("target", TARGETS)
def test_so_does_what_is_made_of_it(target: str) -> None:
    made = corpus.changed(corpus.kept(target), random.Random(target))

    for data in itertools.islice(made, FRESH):
        TARGETS[target](data)


def test_what_is_kept_comes_back_as_it_was() -> None:
    every = bytes(range(256))

    corpus.keep("none-of-the-targets", [b"longer", every, b"\n", every])
    found = corpus.kept("none-of-the-targets")
    (corpus.FOLDER / "none-of-the-targets.txt").unlink()

    assert found == [b"\n", b"longer", every]
