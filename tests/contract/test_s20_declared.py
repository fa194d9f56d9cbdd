"""S20: at a glance, a call that people are asked about has what its tool declared of its sums, or no arguments."""

import pytest

from callboard.persistence.store import Session, Store
from tests.contract.build import decision, message, unit, write

pytestmark = pytest.mark.anyio
AGENT = "/desk/agent:of-d1"
DECLARED = '[{"path":"amount","sum":"USD minor","source":"declared","trust":"trusted"}]'


@pytest.mark.parametrize(("more", "kept"), [("", True), ("x" * 9_000, False)])
async def test_s20_what_is_declared_comes_with_the_arguments_or_neither_does(
    store: Store, node: Session, more: str, kept: bool
) -> None:
    known = DECLARED.replace("trusted", f"trusted{more}")
    await write(node, unit(AGENT, decisions=[decision("d1", message().id, run=AGENT, provenance=known)]))
    [glance] = await store.glances([AGENT])
    assert glance.pending is not None
    assert (glance.pending.provenance, bool(glance.pending.arguments)) == (known if kept else "", kept)
