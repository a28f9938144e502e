"""Faults in what happens to shards: reading, fencing, draining, sealing, provisioning, trimming."""

from collections.abc import Mapping
from types import MappingProxyType

from tests.mutants.edits import Edit, Edits, Mutation, ScriptEdit

EDITS: Mapping[str, Mutation] = MappingProxyType(
    {
        # reading
        "pending_is_looked_at_after_new_records": Edit(
            "testing.processes:Consumer._plan",
            'Command(run, "claim", run.cursor) if run.cursor is not None else Command(run, "read")',
            'Command(run, "read") if run.cursor is None or run.position is None else Command(run, "claim", run.cursor)',
        ),
        "pending_is_never_looked_at": Edit(
            "adapters.streams.memory_log:MemoryShardLog._claim",
            "sorted(entry for entry in group.pending if entry >= id_order(start))",
            "[]",
        ),
        "one_shard_is_never_polled": Edit(
            "testing.processes:Consumer.think",
            "if run.command is not None:",
            "if run.command is not None or run.access.shard == 1:",
        ),
        "the_lease_is_not_looked_at_before_an_order": Edits(
            (
                Edit(
                    "core.session:usable_until",
                    "hold.deadline if hold is not None",
                    "Instant(2**62) if hold is not None",
                ),
            )
        ),
        "an_order_under_an_earlier_token_is_let_through": Edit(
            "adapters.streams.memory_log:MemoryShardLog._enter", "access.token < mark or ", ""
        ),
        "the_highest_mark_is_not_kept": Edit(
            "adapters.streams.memory_backend:MemoryStreamBackend._raise_fence",
            "if mark != order.token and mark > min(order.floor, order.token):",
            "if False:",
        ),
        # draining and sealing
        "removed_shards_are_taken_away_at_once": Edit(
            "core.resharding:_drain_open", "phase=ShardPhase.DRAINING", "phase=ShardPhase.SEALED"
        ),
        "an_error_while_looking_means_drained": Edit(
            "core.proof:judge", "if not probe.exists:", "if not probe.exists or probe.groups:"
        ),
        "an_unknown_lag_means_drained": Edit(
            "core.proof:_is_off", "and group.lag != 0", "and group.lag is not None and group.lag != 0"
        ),
        "pending_records_don_t_matter": Edit("core.proof:_nothing_left", "group.pending == 0 and ", ""),
        "a_registered_group_may_be_missing": Edit(
            "adapters.streams.memory_backend:_drained", "if not counted.keys() >= set(order.registered):", "if False:"
        ),
        "a_seal_does_not_wait_for_producers": Edit(
            "core.stream_wants:_has_left_routing", "shard.index < record.routed_count or ", "True or "
        ),
        "a_seal_leaves_no_mark": Edit(
            "adapters.streams.memory_backend:MemoryStreamBackend.seal",
            "fence.generation, fence.sealed, fence.layout = order.generation, True, order.layout",
            "fence.generation, fence.sealed, fence.layout = order.generation, False, order.layout",
        ),
        "a_retired_key_stays": Edit(
            "adapters.streams.memory_backend:MemoryStreamBackend.seal", "self._world.lose_shard(key)", "pass"
        ),
        "a_provisioner_compares_no_life": Edit(
            "adapters.streams.memory_backend:MemoryStreamBackend._provision",
            "if fence.sealed_in(order.generation) or fence.later_than(order.generation, order.layout):",
            "if False:",
        ),
        "an_added_shard_starts_with_its_next_record": Edit(
            "core.stream_wants:_starts", 'if creating else "0"', 'if creating else "$"'
        ),
        "an_added_shard_is_routed_before_it_is_made": Edit(
            "core.resharding:scale",
            "_grow(after, begun, context.marks) if grows(begun)",
            "attrs.evolve(_grow(after, begun, context.marks), routed_count=begun.to_count) if grows(begun)",
        ),
        "a_rollback_opens_before_seals_are_shut_out": Edit(
            "core.resharding:rollback",
            "after = record\n",
            "after = with_shards(record, [attrs.evolve(s, phase=ShardPhase.OPEN) for s in _inside(record, active)"
            " if s.phase is ShardPhase.DRAINING])\n",
        ),
        "a_rollback_after_the_first_seal": Edit("core.resharding:rollback", "if active.any_sealed:", "if False:"),
        "a_retired_key_that_came_back_is_left_alone": Edit(
            "core.draining:_came_back", "return probe.exists and", "return False and"
        ),
        "a_resharding_ends_while_a_removed_shard_is_held": Edit(
            "core.resharding:_still_held", "return any(", "return False and any("
        ),
        "a_group_without_members_blocks_the_next_scale": Edit(
            "core.resharding:groups_seen", "if summaries[name].live_members]", "]"
        ),
        "two_scales_at_once": Edit("core.resharding:_scale_refusal", "if record.resharding is not None:", "if False:"),
        # producers
        "a_routing_is_used_for_ever": Edit("core.lease:usable", "if now >= lease.ends_at:", "if False:"),
        "an_append_to_redis_makes_the_key": Edit(
            "adapters.streams.redis_log:xadd",
            'return ("XADD", record.key, "NOMKSTREAM", *named',
            'return ("XADD", record.key, *named',
        ),
        # scripts
        "the_script_of_a_seal_looks_at_nothing": ScriptEdit(
            "seal", "kind ~= 'none' and (kind ~= 'stream' or not all_drained())", "false"
        ),
        "the_script_of_a_seal_forgets_the_mark": ScriptEdit("seal", "'sealed', '1'", "'sealed', '0'"),
        "the_script_of_a_seal_takes_an_unknown_lag": ScriptEdit(
            "seal", "group.lag == nil or group.lag == 0", "not group.lag or group.lag == 0"
        ),
        "a_seal_in_two_commands": Edit(
            "adapters.streams.redis_backend:RedisStreamBackend.seal",
            "(reply,) = await self._run([",
            "(probe,) = await self.probe(order.prefix, [order.shard])\n"
            "    if any(group.pending or group.first_undelivered for group in probe.groups):\n"
            "        return GuardResult.NOT_EMPTY\n"
            "    drop = shard_call(load('drop_shard'), order.prefix, order.shard, *guard)\n"
            "    (reply,) = await self._run([drop] or [",
        ),
        "the_script_of_a_provisioner_compares_no_life": ScriptEdit(
            "provision",
            "if sealed_for(marks, generation) or later_known(marks, generation, layout) then",
            "if false then",
        ),
        "the_script_of_a_raise_compares_nothing": ScriptEdit(
            "raise_fence",
            "if marks.token ~= token and (marks.token > floor or marks.token > token) then",
            "if false then",
        ),
        "the_script_of_a_read_compares_no_token": ScriptEdit("read", "if token < marks.token or", "if"),
        "the_script_of_an_ack_compares_no_token": ScriptEdit("acknowledge", "if token < marks.token or", "if"),
        "the_script_of_a_claim_goes_by_idle_time": ScriptEdit(
            "claim", "'XAUTOCLAIM', key, group_name, ARGV[4], '0'", "'XAUTOCLAIM', key, group_name, ARGV[4], '60000'"
        ),
        "the_script_of_a_trim_forgets_what_is_pending": ScriptEdit(
            "trim", "return pending[1] > 0 and before(pending[2], last) and pending[2] or last", "return last"
        ),
    }
)
