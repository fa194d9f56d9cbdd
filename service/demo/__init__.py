"""The demonstration: a desk of agents works real tickets over a real database, and a node is killed in a refund.

    database.py   a database of its own, the desk's records, the tickets
    nodes.py      the node processes: started, listened to, killed, drained
    stage.py      the play: tickets, the kill, the take-over, the question to a person
    question.py   what is asked, of whom, why, and the answer
    proof.py      what must be true at the end, looked up in the ledger and the journals
    report.py     how all of it is told

Short stories of the same desk, each with its proof (`--scenario`):

    scenarios/        one file each; its docstring says how to write one
    story.py          what a story is
    story_stage.py    what it plays on: a database of its own, the desk in this process, customers, people, time
    story_clock.py, story_model.py, story_nodes.py, story_records.py
                      time by hand, agents whose part is written out, real processes and a kill -9, more records
    story_proof.py    what must hold whatever model played
    story_player.py   plays one or all; tale.py tells them

Everything a node does here it does in production too; only the hook that makes it hang between a refund's commit and
its return, and the clocks of a story's database, are the demonstration's own.
"""

from .stage import DemoOptions, run_demo

__all__ = ["DemoOptions", "run_demo"]
