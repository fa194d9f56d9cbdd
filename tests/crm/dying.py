"""A node dies before its n-th commit, and another one goes on."""

from callboard.actors.node import Node
from callboard.actors.testing import TestKit


class Death:
    """Kills the node that is about to make the `nth` commit of them all; `mend` lets another one begin."""

    def __init__(self, kit: TestKit, nth: int) -> None:
        self.kit = kit
        self.nth = nth
        self.count = 0
        self.victim: Node | None = None
        self.mended = False
        kit.store.before = self._before

    async def _before(self, number: int, operation: str) -> None:
        if operation != "commit" or self.victim is not None:
            return
        self.count += 1
        if self.count == self.nth:
            self.victim = next(node for node in self.kit.nodes if self.kit.session(node).number == number)
            self.kit.session(self.victim).crash()

    async def mend(self) -> None:
        """Bury the node that died, if one has, and let another begin."""
        if self.victim is not None and not self.mended:
            self.mended = True
            await self.kit.crash(self.victim)
            await self.kit.join()
