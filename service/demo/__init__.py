"""The demonstration: a desk of agents works real tickets over a real database, and a node is killed in a refund.

    database.py   a database of its own, the desk's records, the tickets
    nodes.py      the node processes: started, listened to, killed, drained
    stage.py      the play: tickets, the kill, the take-over, the question to a person
    question.py   what is asked, of whom, why, and the answer
    proof.py      what must be true at the end, looked up in the ledger and the journals
    report.py     how all of it is told

Everything a node does here it does in production too; only the hook that makes it hang between a refund's commit and
its return is the demonstration's own.
"""

from .stage import DemoOptions, run_demo

__all__ = ["DemoOptions", "run_demo"]
