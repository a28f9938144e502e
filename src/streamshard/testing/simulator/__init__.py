"""Whole clusters, and everything that may befall them, from a number: the same number, the same history."""

from streamshard.testing.simulator.choices import Choice
from streamshard.testing.simulator.profiles import PROFILES
from streamshard.testing.simulator.running import Outcome, replay, simulate

__all__ = ["PROFILES", "Choice", "Outcome", "replay", "simulate"]
