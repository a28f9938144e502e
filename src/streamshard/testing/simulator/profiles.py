"""Kinds of bad days: which faults come how often, and how much there is of everything."""

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from streamshard.testing.network import Fate

Rates = Mapping[str, float]
"""How often an act is chosen in a simulated second, in a run of middling intensity."""

GOES_ON: Rates = MappingProxyType(
    {
        "a_late_heartbeat_arrives": 2.0,
        "a_late_answer_arrives": 2.0,
        "an_answer_goes_on": 1.5,
        "a_tick_goes_on": 1.0,
        "a_command_goes_on": 1.0,
        "an_order_of_a_dead_process_arrives": 1.0,
        "answers_will_stand_elsewhere": 0.3,
    }
)
"""What lets begun things go on; chosen in every profile."""

PAUSES: Rates = MappingProxyType(
    {
        "a_coordinator_stops": 0.08,
        "a_tick_stands_in_the_middle": 0.2,
        "a_member_stops": 0.15,
        "handlers_get_stuck": 0.03,
        "orders_get_slow": 0.06,
        "a_producer_stops": 0.15,
        "only_time_passes": 0.3,
    }
)
COMINGS: Rates = MappingProxyType(
    {
        "a_member_starts": 0.1,
        "a_member_leaves": 0.06,
        "a_member_is_killed": 0.05,
        "a_member_is_restarted": 0.06,
        "a_member_forks": 0.03,
        "handlers_fail": 0.1,
    }
)
COORDINATORS: Rates = MappingProxyType({"a_coordinator_crashes": 0.08, "a_coordinator_stops": 0.08})
LEASES: Rates = MappingProxyType({"a_coordinator_is_restarted_with_another_lease": 0.06})
STORE: Rates = MappingProxyType(
    {
        "the_store_does_not_answer": 0.2,
        "an_answer_of_the_store_is_lost": 0.2,
        "the_store_forgets_the_renewals": 0.05,
        "the_store_is_reached_over_a_new_connection": 0.05,
    }
)
HEARD_ALL_THE_SAME: Rates = MappingProxyType(
    {
        "a_coordinator_crashes": 0.08,
        "a_tick_stands_in_the_middle": 0.2,
        **{name: rate for name, rate in STORE.items() if name != "the_store_does_not_answer"},
    }
)
"""Not one that stops, or is without its store: it hears nobody, and a member may be missed for a whole lease."""
LOSSES: Rates = MappingProxyType(
    {"the_store_loses_its_last_commits": 0.06, "a_record_is_torn": 0.03, "a_record_is_deleted": 0.03}
)
SCALING: Rates = MappingProxyType(
    {"an_operator_scales": 0.12, "an_operator_rolls_back": 0.05, "a_producer_that_slept_writes": 0.15}
)
GROUPS: Rates = MappingProxyType(
    {"the_group_is_deleted": 0.03, "the_group_is_created": 0.08, "an_operator_changes_what_is_kept": 0.03}
)
SHARDS: Rates = MappingProxyType(
    {
        "a_replica_stays_behind": 0.12,
        "a_shard_is_out_of_reach": 0.06,
        "redis_goes_away": 0.03,
        "an_operator_deletes_a_record": 0.06,
        "an_operator_trims_a_stream": 0.03,
        "an_operator_deletes_a_name": 0.03,
        "an_operator_moves_a_group": 0.03,
        "an_operator_destroys_a_group": 0.04,
        "an_operator_deletes_a_key": 0.03,
        "a_stranger_reads": 0.05,
    }
)
CLOCKS: Rates = MappingProxyType({"a_wall_clock_steps": 0.1, "a_clock_changes_its_rate": 0.1})
LINKS: Rates = MappingProxyType({"a_link_is_cut": 0.1, "a_member_beats_twice": 0.1})

ALL_FATES = tuple(fate for fate in Fate if fate is not Fate.GOOD)


@attrs.frozen
class Profile:
    """One kind of day."""

    name: str
    rates: Rates
    bad_weather: float = 0.0
    """Which share of the heartbeats meets a fate that is not good."""
    fates: tuple[Fate, ...] = ALL_FATES
    members: tuple[int, int] = (1, 6)
    shards: tuple[int, int] = (1, 6)
    coordinators: tuple[int, int] = (1, 3)
    chaos_ms: tuple[int, int] = (20_000, 60_000)
    illegal: bool = False
    steady: bool = False
    """The members stay, each is heard of now and then, and so nothing moves."""
    once: bool = False
    """One fault in all the run."""


def _profiles(*profiles: Profile) -> Mapping[str, Profile]:
    return MappingProxyType({profile.name: profile for profile in profiles})


EVERYTHING: Rates = MappingProxyType(
    {**PAUSES, **COMINGS, **COORDINATORS, **LEASES, **STORE, **LOSSES, **SCALING, **GROUPS, **SHARDS, **CLOCKS, **LINKS}
)

PROFILES = _profiles(
    Profile("calm", {}, members=(2, 8), shards=(1, 16), steady=True),
    Profile("steady", {**HEARD_ALL_THE_SAME, **CLOCKS, "only_time_passes": 0.3},
            bad_weather=0.15, steady=True),
    Profile("swizzle", {"a_link_is_cut": 0.8, **SCALING}, members=(2, 8)),
    Profile("lossy", {**LINKS, **STORE}, bad_weather=0.35),
    Profile("pauses", {**PAUSES, **SCALING, **LEASES}, bad_weather=0.05),
    Profile("rollback-storm", {**STORE, "the_store_loses_its_last_commits": 0.4, **GROUPS}, bad_weather=0.05),
    Profile("failover-storm", {**SHARDS, "a_replica_stays_behind": 0.5, **SCALING}, bad_weather=0.02),
    Profile("churn", {name: 8 * rate for name, rate in COMINGS.items()}, bad_weather=0.05, members=(2, 8)),
    Profile("scale-storm", {**PAUSES, "an_operator_scales": 0.35, "an_operator_rolls_back": 0.2,
                            "a_producer_that_slept_writes": 0.5, **COORDINATORS}, bad_weather=0.05),
    Profile("clocks", {"a_wall_clock_steps": 0.6, "a_clock_changes_its_rate": 0.6, **PAUSES, **COMINGS, **LEASES}),
    Profile("illegal-clocks", {"a_clock_changes_its_rate": 0.8, **PAUSES, **COMINGS, **LINKS}, bad_weather=0.1,
            illegal=True),
    Profile("hostile", {"somebody_means_harm": 3.0, **COMINGS, **PAUSES}, bad_weather=0.02),
    Profile("single-fault", EVERYTHING, fates=ALL_FATES, once=True),
    Profile("everything", {**EVERYTHING, "somebody_means_harm": 0.3}, bad_weather=0.1, chaos_ms=(20_000, 90_000)),
)  # fmt: skip
"""Every profile by its name."""
