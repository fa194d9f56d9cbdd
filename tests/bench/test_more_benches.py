"""The benches of recovery, fan, depth, state, nodes, growth, latency and servers, each in a tiny size."""

import msgspec
import pytest

from callboard.bench import catalogue, deep, fan, growth, latency, nodes, recovery, servers, state

pytestmark = pytest.mark.timeout(900)


def read_back(report: msgspec.Struct) -> bool:
    """Whether its JSON says all of it."""
    return bool(msgspec.json.decode(msgspec.json.encode(report), type=type(report)) == report)


def test_recovery_reports_a_take_over_for_each_kill_and_each_freeze(server_dsn: str) -> None:
    sizes = recovery.Sizes(kills=1, freezes=1, ready_seconds=0.1, actors=256, a_second=300.0)
    report = recovery.run(server_dsn, sizes)
    assert read_back(report)
    assert (report.killed.latency.count, report.frozen.latency.count) == (1, 1)
    assert 0 < report.killed.latency.p50_ms <= report.killed.most_ms
    # a kill is seen by the lock that is freed, a freeze by nothing before the lease: the one cannot be the other
    assert report.frozen.latency.p50_ms > 1e3 * report.lease_seconds / 2


def test_fan_counts_each_message_that_arrives(server_dsn: str) -> None:
    report = fan.run(server_dsn, fan.Sizes(actors=5, each=3))
    assert read_back(report)
    assert (report.fan_in.count, report.fan_out.count) == (15, 15)
    assert report.fan_in.wal_bytes > 0 and report.fan_out.wal_bytes > 0


def test_deep_drains_a_part_while_urgent_messages_come_through(server_dsn: str) -> None:
    sizes = deep.Sizes(waiting=(60, 400), mailboxes=4, drained=40, urgent=3, urgent_every_seconds=0.0)
    report = deep.run(server_dsn, sizes)
    assert read_back(report)
    assert [one.waiting for one in report.deep] == [60, 400]
    assert all(one.drained >= 40 and one.urgent.count == 3 and one.urgent_missed == 0 for one in report.deep)


def test_state_reports_turns_and_steps_by_size_and_large_ones_write_more(server_dsn: str) -> None:
    sizes = state.Sizes(
        snapshot_bytes=(200, 20_000), turns=60, transcript_bytes=(200, 20_000), runs=2, steps=2, at_once=2
    )
    report = state.run(server_dsn, sizes)
    assert read_back(report)
    assert [one.bytes for one in report.turns] == [one.bytes for one in report.steps] == [200, 20_000]
    assert [one.cost.count for one in report.steps] == [4, 4]
    assert report.turns[1].cost.wal_bytes > 2 * report.turns[0].cost.wal_bytes


def test_nodes_reports_messages_of_all_nodes_together(server_dsn: str) -> None:
    report = nodes.run(server_dsn, nodes.Sizes(nodes=(1, 2), actors=40, tokens=10, warm_seconds=0.0, seconds=0.3))
    assert read_back(report)
    assert [one.nodes for one in report.shared] == [1, 2]
    assert all(one.messages > 0 and one.client_cpu_us >= 0 for one in report.shared)


def test_growth_reports_rows_and_wal_of_a_step_at_each_place(server_dsn: str) -> None:
    report = growth.run(server_dsn, growth.Sizes(places=(3, 8), around=2, runs=2))
    assert read_back(report)
    assert [place.step for place in report.places] == [3, 8]
    assert all(place.rows > 0 and place.wal_bytes > 0 and place.client_cpu_us > 0 for place in report.places)
    assert growth.stretches(growth.Sizes(places=(10, 100), around=20)) == [(10, 1, 30), (100, 80, 100)]


def test_latency_counts_in_commits_of_the_same_server(server_dsn: str) -> None:
    report = latency.run(server_dsn, latency.Sizes(asks=3, every_seconds=0.0))
    assert read_back(report)
    assert report.commit.count == report.sent_until_handled.count == report.sent_until_reply.count == 3
    assert report.handled_commits == pytest.approx(
        report.sent_until_handled.p50_ms / report.commit.p50_ms, rel=0.05, abs=0.02
    )


def test_servers_measures_both_in_turn_and_says_when_there_is_but_one(server_dsn: str) -> None:
    sizes = servers.Sizes(rounds=1, runs=2, at_once=2, steps=2)
    report = servers.run(server_dsn, sizes)
    assert read_back(report)
    assert [one.name for one in report.servers] == ["embedded", "by its DSN"] and not report.not_measured


def test_every_bench_of_the_catalogue_has_its_sizes_and_shorter_ones() -> None:
    for name in catalogue.CATALOGUE:
        assert catalogue.sizes_of(name, quick=True) != catalogue.sizes_of(name), name
