"""What operators and programs ask of a supervisor: start, stop, start again, forget, list and count children.

As OTP's `start_child`, `terminate_child`, `restart_child`, `delete_child`, `which_children` and `count_children`, with
the same answers. A stop is never made to wait: it ends a restart loop, a back-off and a start that is under way. It is
sticky: nobody but an operator starts that child again. The rest waits until the job under way is done.
"""

from urllib.parse import quote, unquote

from ..mailbox.message import Message
from .restart import UP, ChildState, ReplyTo
from .roster import is_pool
from .spec import Child, Spec, Supervisor
from .supervision import Supervision
from .supervisor_state import Job, Waiting
from .system import ChildDone, ChildRefused, Children, ChildView

WAITING_LIMIT = 1_000
"""What may wait for the job under way; who asks for more is refused."""


class OnDemand(Supervision):
    """The decisions of a supervisor, those that were asked for included."""

    def start_child(self, name: str, key: str, reply_to: ReplyTo) -> None:
        """An instance of a template; without a key a child of the tree that was deleted."""
        spec = self._spec(name)
        segment = f"{name}:{quote(key, safe='')}" if key else name
        if spec is None or self._key_is_wrong(spec, key):
            self.effects.answer(reply_to, ChildRefused(segment, "not_found"))
            return
        if is_pool(spec) and key:
            self.instances.start(name, key, reply_to)
            return
        known = self.find(segment)
        if known is not None:
            there = known.status in UP or known.status in ("restarting", "waiting")
            self.effects.answer(reply_to, ChildRefused(segment, "running" if there else "already_present"))
            return
        if self._waits("start", segment, reply_to):
            return
        if key:
            self.state.children.append(self.new(segment))
        else:
            self.state.removed = [other for other in self.state.removed if other != segment]
            self.adopt(self.state.tree)
        self._start(self.child(segment), "removed", reply_to)

    def restart_child(self, name: str, reply_to: ReplyTo) -> None:
        """A child that is down; what an operator stopped is not stopped any more."""
        child = self._known(name)
        if self._pool_of(name):
            self.effects.answer(reply_to, ChildRefused(name, "simple_one_for_one"))
        elif child is None:
            self.effects.answer(reply_to, ChildRefused(name, "not_found"))
        elif child.status == "running":
            self.effects.answer(reply_to, ChildRefused(name, "running"))
        elif child.status in ("restarting", "starting", "waiting"):
            self.effects.answer(reply_to, ChildRefused(name, "restarting"))
        elif not self._waits("restart", child.name, reply_to):
            self._start(child, child.status, reply_to)

    def terminate_child(self, name: str, reply_to: ReplyTo) -> None:
        """Stop a child, now; an instance of a pool is ended by that."""
        if pool := self._pool_of(name):
            key = name.partition(":")[2]
            self.instances.terminate(f"{pool}:{quote(unquote(key), safe='')}", reply_to)
            return
        child = self._known(name)
        if child is None:
            self.effects.answer(reply_to, ChildRefused(name, "not_found"))
            return
        after = "removed" if child.name in self.temporary() else "paused"
        if child.status in UP:
            child.asked.append(reply_to)
            if child.status == "starting":
                self._overtake(child)
            child.after = after
            if child.status != "stopping":
                job = self.state.job = self.state.job or Job("demand")
                if child.name not in job.stops:
                    job.stops.append(child.name)
            self.advance()
            return
        if child.status == "restarting":
            self.effects.forget(f"restart:{child.name}")
        if after == "removed":
            self.remove(child)
        elif child.status != "ended":
            child.status = "paused"
        self.effects.answer(reply_to, ChildDone(child.name, child.incarnation))
        self.advance()

    def delete_child(self, name: str, reply_to: ReplyTo) -> None:
        """Forget a child that is down."""
        child = self._known(name)
        if self._pool_of(name):
            self.effects.answer(reply_to, ChildRefused(name, "simple_one_for_one"))
        elif child is None:
            self.effects.answer(reply_to, ChildRefused(name, "not_found"))
        elif child.status in UP:
            self.effects.answer(reply_to, ChildRefused(name, "running"))
        elif child.status in ("restarting", "waiting"):
            self.effects.answer(reply_to, ChildRefused(name, "restarting"))
        else:
            self.remove(child)
            self.effects.answer(reply_to, ChildDone(child.name, child.incarnation))

    def children(self) -> Message:
        """Newest first; a pool is one line."""
        return Children([self._view(child) for child in reversed(self.state.children)])

    # --- inside ------------------------------------------------------------------------------------------------

    def demanded(self, item: Waiting) -> None:
        name, _, key = item.child.partition(":")
        if item.kind == "restart":
            self.restart_child(item.child, item.reply_to)
        elif self.find(item.child) is not None:
            self.effects.answer(item.reply_to, ChildRefused(item.child, "running"))
        else:
            self.start_child(name, key, item.reply_to)

    def _waits(self, kind: str, name: str, reply_to: ReplyTo) -> bool:
        """Whether it is kept until the job under way is done; refused at once where there is no later."""
        if self.state.end is not None:
            self.effects.answer(reply_to, ChildRefused(name, "stopping"))
            return True
        if len(self.state.waiting) >= WAITING_LIMIT:
            self.effects.answer(reply_to, ChildRefused(name, "busy"))
            return True
        if self.busy():
            self.state.waiting.append(Waiting(kind, name, reply_to=reply_to))  # type: ignore[arg-type]
            return True
        return False

    def _start(self, child: ChildState, former: str, reply_to: ReplyTo) -> None:
        child.after, child.status, child.failures = former, "waiting", 0
        self.state.job = Job("demand", starts=[child.name], reply_to=reply_to)
        self.advance()

    def _overtake(self, child: ChildState) -> None:
        """Its start is under way, and will be stopped: whoever asked for it is told."""
        job = self.state.job
        if job is not None and child.name in job.starts:
            job.starts.remove(child.name)
            if job.kind == "demand":
                self.effects.answer(job.reply_to, ChildRefused(child.name, "stopping"))

    def _known(self, name: str) -> ChildState | None:
        """By `name` or `name:key`, the key as it is or as addresses have it."""
        child = self.find(name)
        if child is None and ":" in name:
            head, _, key = name.partition(":")
            child = self.find(f"{head}:{quote(unquote(key), safe='')}")
        return child

    def _pool_of(self, name: str) -> str:
        """The pool whose instance this is; "" for all else."""
        head, _, key = name.partition(":")
        return head if key and is_pool(self._spec(head)) else ""

    def _spec(self, name: str) -> Spec | None:
        return next((spec for spec in self.spec.children if spec.name == name), None)

    def _key_is_wrong(self, spec: Spec, key: str) -> bool:
        if isinstance(spec, Child) and spec.is_worker:
            return True
        keyed = isinstance(spec, Child) and spec.keyed
        return keyed != bool(key)

    def _view(self, child: ChildState) -> ChildView:
        process = "none"
        detail: str = child.status
        if child.status in ("running", "stopping"):
            process, detail = "running", ""
        elif child.status in ("starting", "restarting", "waiting"):
            process, detail = "restarting", ""
        spec = self.spec_of(child.name)
        if is_pool(spec):
            detail = "pool"
        kind = "supervisor" if isinstance(spec, Supervisor) else "worker"
        return ChildView(child.name, process, kind, child.incarnation, detail)
