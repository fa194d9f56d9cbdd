"""Cases that nobody recorded: random trees and scripts, the same for the same seed.

What they are to show comes from the model, so they hold our runtime to it far from the recordings. No two things in
them happen at the same time without the supervisor deciding about them in a fixed order: what is left to chance in OTP
cannot be foretold.
"""

import random
from typing import Any

Spec = dict[str, Any]

STRATEGIES = ("one_for_one", "one_for_all", "rest_for_one")
RESTARTS = ("permanent", "transient", "temporary")
REASONS = ("boom", "boom", "normal", "shutdown")
FAILING: tuple[Any, ...] = ([2], [2, 3], {"from": 2}, [3], [1])


def tree_case(seed: int) -> Spec:
    """A tree of supervisors and what happens to it."""
    return _TreeCase(random.Random(seed)).case(f"TREE-{seed}")


def pool_case(seed: int) -> Spec:
    """A simple_one_for_one supervisor and what happens to it."""
    chance = random.Random(seed)
    template = {**_worker(chance, "tmpl"), "restart": chance.choice(("transient", "temporary"))}
    root = _supervisor(chance, "root", "simple_one_for_one", [template])
    names = ("i1", "i2", "i3")[: chance.randint(1, 3)]
    script: list[Spec] = [{"do": "start_tree", "result": ""}]
    script += [{"do": "start_instance", "supervisor": "root", "name": name, "result": ""} for name in names]
    count = {"do": "count_children", "supervisor": "root", "result": ""}
    for _ in range(chance.randint(1, 4)):
        crash = {"do": "crash", "target": chance.choice(names), "reason": chance.choice(REASONS)}
        script.append(dict(chance.choice((crash, crash, count))))
    script.append({"do": "is_alive", "ids": [*names, "root"], "result": ""})
    script.append({"do": "shutdown", "target": "root", "any_order_between_ids": True})
    return _case(f"POOL-{seed}", root, script)


def _case(id: str, tree: Spec, script: list[Spec]) -> Spec:
    return {"id": id, "tree": tree, "script": script, "durable": {"disposition": "adapt"}}


def _supervisor(chance: random.Random, id: str, strategy: str, children: list[Spec]) -> Spec:
    restarts = chance.randint(0, 3)
    return {
        "id": id,
        "kind": "supervisor",
        "strategy": strategy,
        "max_restarts": restarts,
        "within_seconds": 60,
        "children": children,
    }


def _worker(chance: random.Random, id: str) -> Spec:
    script: Spec = {}
    if chance.random() < 0.12:
        script["start_fails_on_incarnations"] = chance.choice(FAILING)
    if chance.random() < 0.25:
        script["cleanup_takes_ms"] = chance.choice((10, 30))
    if chance.random() < 0.15:
        script["cleanup_exits_with"] = chance.choice(("bug", "normal"))
    if chance.random() < 0.1:
        script["traps_stop"] = False
    spec: Spec = {"id": id, "kind": "worker", "script": script}
    if chance.random() < 0.5:
        spec["restart"] = chance.choice(RESTARTS)
    if chance.random() < 0.1:
        spec["shutdown"] = chance.choice(("brutal_kill", 5))
    return spec


class _TreeCase:
    """A case in the making."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.names = iter("abcdefghijklmnopqrstuvwxyz")
        self.supervisors: list[str] = []
        self.parents: dict[str, str] = {}
        """Of the workers."""

    def case(self, id: str) -> Spec:
        root = self._tree("root", 0)
        script: list[Spec] = [{"do": "start_tree", "result": ""}]
        script += [self._step() for _ in range(self.chance.randint(1, 5))]
        script.append({"do": "is_alive", "ids": [*self.supervisors, *self.parents], "result": ""})
        script.append({"do": "shutdown", "target": "root", "any_order_between_ids": True})
        return _case(id, root, script)

    def _tree(self, id: str, depth: int) -> Spec:
        chance = self.chance
        self.supervisors.append(id)
        auto = chance.choice(("never", "never", "never", "any_significant", "all_significant"))
        children = []
        for _ in range(chance.randint(1, 3)):
            child = self._child(id, depth)
            if auto != "never" and child.get("restart", "permanent") != "permanent":
                child["significant"] = chance.random() < 0.6
            children.append(child)
        spec = _supervisor(chance, id, chance.choice(STRATEGIES), children)
        if auto != "never":
            spec["auto_shutdown"] = auto
        if depth and chance.random() < 0.5:
            spec["restart"] = chance.choice(RESTARTS)
        return spec

    def _child(self, parent: str, depth: int) -> Spec:
        if depth < 2 and self.chance.random() < 0.3:
            return self._tree(f"s{len(self.supervisors)}", depth + 1)
        name = next(self.names)
        self.parents[name] = parent
        return _worker(self.chance, name)

    def _step(self) -> Spec:
        chance = self.chance
        workers, supervisor = list(self.parents), chance.choice(self.supervisors)
        worker = chance.choice(workers or ["root"])
        about = {"supervisor": self.parents.get(worker, "root"), "child": worker, "result": ""}
        siblings = [name for name in workers if self.parents[name] == supervisor]
        more = {"id": f"more-{supervisor}", "kind": "worker"}
        steps: list[Spec] = [
            *({"do": "crash", "target": worker, "reason": reason} for reason in REASONS),
            *({"do": do, **about} for do in ("terminate_child", "terminate_child", "restart_child", "delete_child")),
            {"do": "kill", "target": worker},
            {"do": "kill", "target": supervisor, "any_order_between_ids": True},
            {"do": "list_children", "supervisor": supervisor, "result": ""},
            {"do": "count_children", "supervisor": supervisor, "result": ""},
            {"do": "start_child", "supervisor": supervisor, "spec": more, "result": ""},
        ]
        if len(siblings) > 1:
            crashes = [[name, reason] for name, reason in zip(chance.sample(siblings, 2), ("r1", "r2"), strict=True)]
            together = {"do": "crash_together_before_supervisor_reacts", "supervisor": supervisor, "crashes": crashes}
            steps += [together, together]
        return chance.choice(steps)
