"""The adapters' programs in docs/examples run, and do what they say."""

import pytest

from tests.test_examples import run


def test_w43_a_loop_of_your_own_is_wrapped_and_asks_its_model_twice() -> None:
    code, lines = run("loop_of_your_own.py")
    assert code == 0
    assert lines == [
        "(the model is asked)",
        "awaiting_approval",
        "(refunding A-8891)",
        "(the model is asked)",
        "completed - Done: {'refund_id': 'RF-A-8891'}",
    ]


def test_w43_a_graph_is_wrapped_and_its_interrupt_waits_for_a_person() -> None:
    pytest.importorskip("langgraph", reason="needs the extra langgraph")
    code, lines = run("graph_with_approval.py")
    assert code == 0
    assert lines == [
        "(looking A-8891 up)",
        "awaiting_approval - Refund 64 for A-8891?",
        "(refunding A-8891)",
        "completed - Refunded: RF-A-8891.",
    ]
