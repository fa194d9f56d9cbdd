"""Real processes that handlers end: the message is found out and goes, its neighbours do not notice."""

import itertools
import os
import signal
import threading
from contextlib import suppress

import pytest

from tests.quarantine.boxes import Put
from tests.quarantine.conftest import NODES, Boxes, is_alive, wait_until

MOST_DEATHS = 2 + NODES
"""Two losses make a suspect; and while one death is being reported, the message may have come to another node."""

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("how", ["exit", "segfault", "sys.exit"])
def test_g6_a_handler_that_ends_its_process_ends_as_a_dead_letter_and_its_neighbours_are_exact(
    boxes: Boxes, how: str
) -> None:
    with boxes.daemon() as daemon:
        boxes.put((f"n{number}", Put(f"long {number}", "call:long")) for number in range(3))
        wait_until(lambda: boxes.noted("calls") >= 3, "the long calls have begun", daemon)
        boxes.put([("bad", Put("before")), ("bad", Put("culprit", how)), ("bad", Put("after"))])
        boxes.put((f"n{number % 10}", Put(f"{number}", "wait")) for number in range(40))
        (letter,) = wait_until(boxes.dead, "it is a dead letter", daemon)
        assert letter.reason == "worker_lost" and "culprit" in letter.envelope.body
        assert letter.envelope.failures == 0
        (boxes.folder / "go").touch()
        wait_until(lambda: boxes.waiting() == 0, "all is done", daemon)
        assert boxes.contents("bad").handled == ["before", "after"], "the actor goes on with its next message"
        row = boxes.row("bad")
        assert row is not None and row.status == "active"
        for number in range(10):
            handled = [text for text in boxes.contents(f"n{number}").handled if not text.startswith("long")]
            assert handled == [f"{n}" for n in range(40) if n % 10 == number]
        assert [boxes.contents(f"n{number}").answers for number in range(3)] == [[f"long {n}"] for n in range(3)]
        assert len(boxes.dead()) == 1
        # What has become of a message may be known before the last death of a node has been logged.
        tried = f"message {letter.envelope.id} ({letter.envelope.type}) is tried in quarantine"
        each = "each death was one of a node, or of a trial"
        wait_until(
            lambda: boxes.noted("deaths", "culprit") == daemon.deaths() + daemon.log().count(tried) > 0, each, daemon
        )
        assert daemon.deaths() <= MOST_DEATHS
        assert daemon.end() == 0


@pytest.mark.parametrize("how", ["exit", "segfault"])
def test_g6_a_call_that_ends_its_process_ends_as_a_dead_letter_and_its_caller_is_told(boxes: Boxes, how: str) -> None:
    with boxes.daemon() as daemon:
        boxes.put((f"n{number}", Put(f"long {number}", "call:long")) for number in range(3))
        wait_until(lambda: boxes.noted("calls") >= 3, "the long calls have begun", daemon)
        boxes.put([("bad", Put("culprit", f"call:{how}")), ("bad", Put("good", "call:wait"))])
        (letter,) = wait_until(boxes.dead, "it is a dead letter", daemon)
        assert letter.reason == "worker_lost" and "culprit" in letter.envelope.body
        (boxes.folder / "go").touch()
        wait_until(lambda: boxes.waiting() == 0, "all is done", daemon)
        assert sorted(boxes.contents("bad").answers) == ["failed: target-failed", "good"]
        assert [boxes.contents(f"n{number}").answers for number in range(3)] == [[f"long {n}"] for n in range(3)]
        assert len(boxes.dead()) == 1
        assert daemon.deaths() <= MOST_DEATHS
        assert daemon.end() == 0


def test_g6_an_answer_whose_handler_ends_the_process_is_found_out_although_it_was_not_on_disk(boxes: Boxes) -> None:
    with boxes.daemon() as daemon:
        boxes.put([("bad", Put("culprit", "call:deadly-answer")), ("n1", Put("x", "call:wait"))])
        (letter,) = wait_until(boxes.dead, "it is a dead letter", daemon)
        assert (letter.reason, letter.envelope.type) == ("worker_lost", "quarantine_test.worked")
        wait_until(lambda: boxes.waiting() == 0, "all is done", daemon)
        assert boxes.contents("n1").answers == ["x"]
        assert boxes.contents("bad").answers == []
        assert daemon.deaths() <= MOST_DEATHS + 1
        assert daemon.end() == 0


def test_g8_a_kill_every_second_dead_letters_nothing_and_charges_no_failure(boxes: Boxes) -> None:
    sent: dict[str, list[str]] = {f"n{number}": [] for number in range(20)}
    with boxes.daemon() as daemon:
        killed: set[int] = set()
        pause = threading.Event()
        # A busy machine is slow to start the nodes that are killed next: the storm lasts until it was one.
        for second in itertools.takewhile(lambda second: second < 10 or len(killed) < 3, itertools.count()):
            for number in range(20):
                sent[f"n{number}"].append(f"{second}.{number}")
            boxes.put((f"n{n}", Put(f"{second}.{n}", ("wait", "call:wait", "", "call:")[n % 4])) for n in range(20))
            pause.wait(1.0)
            victim = next((pid for pid in reversed(daemon.pids()) if pid not in killed and is_alive(pid)), None)
            if victim is not None:
                os.kill(victim, signal.SIGKILL)
                killed.add(victim)
        wait_until(lambda: boxes.waiting() == 0, "all is done", daemon)
        assert boxes.dead() == []
        for key, texts in sent.items():
            assert boxes.contents(key).handled == texts, "each once, in order"
            called = texts if int(key[1:]) % 2 else []
            assert sorted(boxes.contents(key).answers) == sorted(called)
        assert boxes.failed_ever() == 0
        assert daemon.end() == 0


def test_g8_the_loss_of_a_host_charges_nobody(boxes: Boxes) -> None:
    with boxes.daemon() as daemon:
        boxes.put((f"n{number}", Put(f"long {number}", "call:long")) for number in range(3))
        wait_until(lambda: boxes.noted("calls") >= 3, "the long calls have begun", daemon)
        daemon.kill()
        for pid in daemon.pids():
            with suppress(ProcessLookupError):  # it has noticed already that it is alone
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(is_alive(pid) for pid in daemon.pids()), "all of it is gone", daemon)
        assert boxes.charged() == 0
    (boxes.folder / "go").touch()
    with boxes.daemon() as daemon:
        wait_until(lambda: boxes.waiting() == 0, "all is done", daemon)
        assert [boxes.contents(f"n{number}").answers for number in range(3)] == [[f"long {n}"] for n in range(3)]
        assert "is tried in quarantine" not in daemon.log()
        assert daemon.end() == 0


def test_g8_a_drain_charges_nobody(boxes: Boxes) -> None:
    with boxes.daemon(drain_seconds=1) as daemon:
        boxes.put([("n1", Put("long", "call:long"))])
        wait_until(lambda: boxes.noted("calls") >= 1, "the long call has begun", daemon)
        assert daemon.end() == 3, "the call does not end, so that it is given back"
        assert boxes.charged() == 0


def test_rule_11_a_node_whose_loop_stands_still_is_replaced_and_what_stopped_it_is_tried_alone(boxes: Boxes) -> None:
    with boxes.daemon(impatient=True) as daemon:
        boxes.put([("bad", Put("culprit", "stuck")), *((f"n{number}", Put("x", "wait")) for number in range(20))])
        wait_until(lambda: "is tried in quarantine" in daemon.log(), "it is a suspect", daemon)
        assert "its loop stands still" in daemon.log()
        wait_until(lambda: all(boxes.contents(f"n{n}").handled == ["x"] for n in range(20)), "others go on", daemon)
        assert boxes.contents("bad").handled == [] and boxes.dead() == []
        still = "its loop stands still"
        wait_until(lambda: daemon.log().count(still) == daemon.deaths(), "each end was logged", daemon)
        deaths = daemon.deaths()
        assert deaths <= MOST_DEATHS
        boxes.put([("n1", Put("y"))])
        wait_until(lambda: boxes.contents("n1").handled == ["x", "y"], "a node serves", daemon)
        assert daemon.deaths() == deaths, "it stops nobody any more"
