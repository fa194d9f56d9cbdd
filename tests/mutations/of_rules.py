"""Mutations that break a rule of the engine (R1 to R14)."""

from .mutation import Mutation

COMMIT = "persistence/postgres/functions/2_commit.sql"
POOLS = "tests/actors/test_supervisors_pools.py"
RULES = "tests/actors/test_rules.py"

OF_RULES = (
    Mutation(
        "the_fence_takes_no_lock",
        ("R1",),
        COMMIT,
        "AND epoch = _epoch AND status IN ('up', 'draining') FOR SHARE;",
        "AND epoch = _epoch AND status IN ('up', 'draining');",
        ("tests/postgres/test_fencing.py::test_s2_a_take_over_waits_for_the_commit_in_flight_and_reads_what_it_wrote",),
    ),
    Mutation(
        "a_take_over_leaves_the_epoch",
        ("R1",),
        "persistence/postgres/functions/3_nodes.sql",
        "UPDATE callboard.node SET epoch = epoch + 1, status = 'dead', ended_at = callboard.clock()",
        "UPDATE callboard.node SET ended_at = callboard.clock()",
        ("tests/contract/test_s2_epochs.py::test_s2_a_superseded_node_commits_nothing",),
    ),
    Mutation(
        "an_address_without_a_key_lives_with_its_parent",
        ("R2",),
        "mailbox/address.py",
        "    if colon < 0:\n        return address\n",
        "    if colon < 0:\n        return parent_of(address)\n",
        (
            "tests/mailbox/test_address.py::test_address_the_shard_of_an_address_never_changes",
            "tests/mailbox/test_address.py::test_address_a_family_is_all_below_the_first_key",
        ),
    ),
    Mutation(
        "a_message_is_written_into_its_sender_s_shard",
        ("R3",),
        "actors/context.py",
        "shard=row.shard if worker else shard_of(address),",
        "shard=row.shard,",
        (f"{RULES}::test_rule_3_other_shards_get_messages_only",),
    ),
    Mutation(
        "an_acknowledgement_reaches_into_other_shards",
        ("R3",),
        COMMIT,
        "WHERE m.shard = a.shard AND m.id = a.id AND m.held::integer = 0 OFFSET 0",
        "WHERE m.id = a.id AND m.held::integer = 0 OFFSET 0",
        ("tests/contract/test_s4_acknowledging.py::test_s4_acknowledging_in_another_shard_fails_the_unit",),
    ),
    Mutation(
        "acknowledging_need_not_hit",
        ("R4", "G1"),
        COMMIT,
        "IF _hit <> cardinality(_ack_id) THEN",
        "IF _hit > cardinality(_ack_id) THEN",
        (
            "tests/contract/test_s4_acknowledging.py::test_s4_acknowledging_a_missing_message_fails_the_unit",
            "tests/contract/test_s4_acknowledging.py::test_s4_a_message_is_acknowledged_once",
        ),
    ),
    Mutation(
        "a_reply_is_written_without_the_end_of_its_call",
        ("R4",),
        "actors/pool.py",
        "            unit.sends.append(answer)\n        self.committer.submit(unit, self._told(envelope))",
        "            self.committer.submit(Unit(envelope.shard, sends=[answer]))\n"
        "        self.committer.submit(unit, self._told(envelope))",
        (f"{RULES}::test_rule_4_a_worker_replies_only_together_with_the_end_of_its_message",),
    ),
    Mutation(
        "a_message_is_handed_over_past_older_ones",
        ("R5", "G2"),
        "actors/cells.py",
        "        if not cell.complete:\n            # Older ones wait",
        "        if cell.ended():\n            # Older ones wait",
        (
            "tests/actors/test_order.py::test_rule_5_nothing_is_handed_over_past_what_waits_on_disk",
            "tests/actors/test_order.py::test_g2_what_was_sent_by_a_commit_whose_answer_was_lost_is_not_overtaken",
        ),
    ),
    Mutation(
        "a_window_is_taken_for_the_whole_mailbox",
        ("R5",),
        "actors/reader.py",
        "            if len(envelopes) >= limit:\n",
        "            if len(envelopes) > limit:\n",
        ("tests/actors/test_order.py::test_rule_5_nothing_is_handed_over_past_what_waits_on_disk",),
    ),
    Mutation(
        "what_is_forgotten_counts_as_seen",
        ("R6",),
        "actors/cells.py",
        "        self.seen.difference_update(cell.ids)\n        cell.ids.clear()\n",
        "        cell.ids.clear()\n",
        (f"{RULES}::test_rule_6_what_waits_is_found_again_when_its_shard_comes_back",),
    ),
    Mutation(
        "an_id_is_forgotten_while_an_older_read_runs",
        ("R6", "G1"),
        "actors/cells.py",
        "        if self.reads_running:\n            self._retired.extend(ids)\n",
        "        if not ids:\n            self._retired.extend(ids)\n",
        ("tests/actors/test_order.py::test_a_read_older_than_the_acknowledgement_brings_nothing_back",),
    ),
    Mutation(
        "a_turn_is_not_written_down_as_running",
        ("R7",),
        "actors/pump.py",
        "        cell.busy = True\n        self.blame.enter(envelope)\n",
        "        cell.busy = True\n",
        ("tests/quarantine/test_suspects.py::test_rule_7_a_turn_that_does_not_wait_stands_in_the_file_too",),
    ),
    Mutation(
        "nobody_is_a_suspect",
        ("R7", "G6"),
        "actors/quarantine.py",
        "return envelope.losses >= SUSPECT_LOSSES",
        "return envelope.losses < 0",
        (
            "tests/quarantine/test_suspects.py::test_g6_a_message_that_ends_its_process_alone_is_a_dead_letter_and_its_actor_goes_on",
        ),
    ),
    Mutation(
        "a_busy_shard_is_given_away",
        ("R8",),
        "actors/handing.py",
        "idle = self.ownership.owned - self._busy()\n",
        "idle = set(self.ownership.owned)\n",
        ("tests/actors/test_workers.py::test_rule_8_rebalancing_skips_a_shard_with_a_running_call",),
    ),
    Mutation(
        "a_lock_that_is_free_is_a_death",
        ("R9",),
        "persistence/postgres/queries/node.sql",
        "SELECT callboard.lock_held(%(number)s)",
        "SELECT true OR callboard.lock_held(%(number)s)",
        (
            "tests/postgres/test_watching.py::test_rule_9_a_lock_that_was_never_seen_held_is_no_evidence",
            "tests/postgres/test_watching.py::test_rule_9_a_watcher_that_holds_the_lock_for_a_moment_is_not_the_member",
        ),
    ),
    Mutation(
        "one_session_alone_holds_the_lock",
        ("R10",),
        "persistence/postgres/heart.py",
        "if not self._holds_lock:",
        "if self._stopped.is_set():",
        ("tests/postgres/test_watching.py::test_rule_10_one_cut_connection_is_no_death",),
    ),
    Mutation(
        "a_dead_loop_has_a_heart",
        ("R11",),
        "persistence/postgres/heart.py",
        "if self._alive():",
        "if self._number:",
        ("tests/postgres/test_watching.py::test_rule_11_a_heart_whose_loop_is_dead_beats_no_more",),
    ),
    Mutation(
        "a_refused_batch_is_not_searched",
        ("R12",),
        "actors/committer.py",
        "        if len(batch) == 1:\n            entry = batch[0]\n",
        "        for entry in batch:\n",
        (
            "tests/actors/test_committer.py::test_rule_12_bisecting_finds_every_culprit_and_commits_all_others",
            f"{RULES}::test_rule_12_only_the_culprit_of_a_refused_batch_is_given_up",
        ),
    ),
    Mutation(
        "an_outside_asker_lives_in_a_node_s_shard",
        ("R13",),
        "mailbox/address.py",
        "    if address.startswith(CLIENT_PREFIX):\n",
        "    if not address:\n",
        (
            "tests/mailbox/test_address.py::test_address_outside_askers_live_in_a_shard_of_their_own",
            "tests/actors/test_client.py::test_an_ask_gets_its_reply",
        ),
    ),
    Mutation(
        "a_walk_through_a_pool_ends_with_its_first_page",
        ("R14",),
        "actors/instances.py",
        "        if walk.more:\n            self._next_page(pool, known)\n",
        "        if walk.left:\n            self._next_page(pool, known)\n",
        (f"{POOLS}::test_instances_are_stopped_and_started_in_pages_in_the_place_of_their_pool",),
    ),
    Mutation(
        "the_failures_of_a_pool_are_all_kept",
        ("R14", "G10"),
        "actors/instances.py",
        "if len(known.failures) >= FAILING_LIMIT:",
        "if len(known.failures) < 0:",
        (f"{POOLS}::test_g10_a_storm_in_a_pool_leaves_a_bounded_state",),
    ),
)
