"""`resume` and `pause`: what stands goes on, and what cannot be resumed is told what would make it go on."""

import pytest

from tests.service.conftest import APP, Cli, Said, execute, query, until


def status(dsn: str, run: str) -> str:
    return str(query(dsn, f"SELECT status FROM callboard.actor WHERE address = '/desk/run:{run}'")[0][0])


def stand(cli: Cli, dsn: str, run: str, how: str, reason: str) -> None:
    """A run that waits for a person, and stands as its row is made to say."""
    assert cli("run", APP, "close 7", "--id", run, dsn=dsn).code == 0
    execute(dsn, f"UPDATE callboard.actor SET status = '{how}', reason = '{reason}' WHERE address = '/desk/run:{run}'")


def resumed(cli: Cli, dsn: str) -> Said:
    """What `run` says of run r once its node has read that it shall go on; before, it stands still (5)."""
    found = list[Said]()

    def goes_on() -> bool:
        found.append(cli("run", APP, "close 7", "--id", "r", "--json", dsn=dsn))
        return found[-1].code != 5

    until(goes_on, "it goes on")
    return found[-1]


@pytest.mark.parametrize(
    ("how", "will"),
    [
        ("parked", "it tries the message again that it was parked on"),
        ("paused", "it takes its messages again"),
        ("failed", "it goes on with its next message"),
    ],
)
def test_resume_says_why_it_stood_and_what_it_will_do_and_it_goes_on(
    cli: Cli, database: str, how: str, will: str
) -> None:
    stand(cli, database, "r", how, "the price list was wrong")
    said = cli("show", "r", "--follow", dsn=database)
    assert said.code == 1 and f"{how}: the price list was wrong" in said.out, "what stands is not waited for"
    said = cli("resume", "r", "--reason", "price list mended", dsn=database)
    assert said.code == 0
    assert f"run r was {how}: the price list was wrong" in said.out and will in said.out
    assert "no node serves it at the moment" in said.err
    row = query(database, "SELECT action, object, before, after, note, channel FROM callboard.audit "
                          "WHERE action = 'resume'")  # fmt: skip
    assert row == [("resume", "/desk/run:r", how, "active", "price list mended", "cli")]
    assert cli("approve", "r", dsn=database).code == 0
    assert resumed(cli, database).code == 0
    assert cli("show", "r", "--json", dsn=database).document["status"] == "completed"


def test_a_paused_run_stands_until_it_is_resumed(cli: Cli, database: str) -> None:
    assert cli("run", APP, "close 7", "--id", "r", dsn=database).code == 0
    said = cli("pause", "r", "--reason", "stock-taking", dsn=database)
    assert said.code == 0 and "told to pause: it takes no messages" in said.out
    assert cli("approve", "r", dsn=database).code == 0
    said = cli("run", APP, "close 7", "--id", "r", dsn=database)
    assert said.code == 5 and "stands still, it is paused" in said.err and "stock-taking" in said.err
    document = cli("resume", "r", "--json", dsn=database).document
    assert document["schema"] == "callboard.standing/1"
    assert (document["run_id"], document["status"], document["asked"]) == ("r", "paused", "resume")
    assert "stock-taking" in document["reason"]
    assert resumed(cli, database).document["status"] == "completed"


def test_a_held_call_is_not_resumed_it_wants_a_decision(cli: Cli, shared: str) -> None:
    cli("run", APP, "close 7", "--id", "held", dsn=shared)
    said = cli("resume", "held", dsn=shared)
    assert said.code == 5
    assert "waits for a decision" in said.one_line() and "callboard approvals show desk.run:held.1" in said.err


def test_what_has_ended_moves_or_has_not_begun_is_refused_with_the_way_out(cli: Cli, shared: str) -> None:
    cli("run", APP, "hello", "--id", "over", dsn=shared)
    assert "callboard fork over --say TEXT" in cli("resume", "over", dsn=shared).one_line()
    assert "there is nothing to pause" in cli("pause", "over", dsn=shared).one_line()
    run = cli("submit", APP, "hello", "--json", dsn=shared).document["run_id"]
    said = cli("resume", run, dsn=shared)
    assert said.code == 5 and "callboard daemon APP" in said.one_line()
    said = cli("resume", "nobody", dsn=shared)
    assert said.code == 3 and "no run 'nobody'" in said.one_line()
    said = cli("resume", "/desk/nobody", dsn=shared)
    assert said.code == 3 and "no actor at /desk/nobody" in said.one_line()


def test_actors_that_are_no_runs_are_paused_and_resumed_by_address(cli: Cli, database: str) -> None:
    cli("run", APP, "hello", dsn=database)
    assert cli("pause", "/desk", "--reason", "night", dsn=database).code == 0

    def is_paused() -> bool:
        cli("run", APP, "hello", "--timeout", "2", dsn=database)
        found = cli("actors", "show", "/desk", "--json", dsn=database).document["items"][0]
        return bool(found["status"] == "paused")

    until(is_paused, "a node has read it")
    said = cli("resume", "/desk", "--reason", "morning", dsn=database)
    assert said.code == 0 and "/desk was paused" in said.out and "night" in said.out


def test_a_dry_run_checks_everything_shows_the_message_and_sends_nothing(cli: Cli, database: str) -> None:
    stand(cli, database, "r", "parked", "no key")
    before = (
        query(database, "SELECT count(*) FROM callboard.message"),
        query(database, "SELECT count(*) FROM callboard.audit"),
    )
    for command, kind in (
        (("resume", "r"), "sys.resume"),
        (("tell", "r", "hurry"), "run.tell"),
        (("cancel", "r", "--reason", "no"), "run.cancel"),
        (("fork", "r", "--at", "2"), "run.fork"),
        (("submit", APP, "hello"), "run.start"),
    ):
        said = cli(*command, "--dry-run", dsn=database)
        assert said.code == 0 and f"would send {kind} to /desk/run:" in said.out, said.err
        assert "nothing was sent" in said.err
        document = cli(*command, "--dry-run", "--json", dsn=database).document
        rehearsal = document.get("rehearsal", document)
        assert rehearsal["schema"] == "callboard.rehearsal/1" and rehearsal["messages"][0]["type"] == kind
        assert rehearsal["audit"][0]["action"] == command[0]
    assert cli("tell", "nobody", "x", "--dry-run", dsn=database).code == 3
    after = (
        query(database, "SELECT count(*) FROM callboard.message"),
        query(database, "SELECT count(*) FROM callboard.audit"),
    )
    assert after == before and status(database, "r") == "parked"
