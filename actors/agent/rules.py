"""What a desk's runs go by, beyond what each tool says of itself. One value for run, model worker and tool worker.

Everything here is fixed for the life of a node; what is fixed for a run is in its `RunStarted`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..guard.pii import Detect
from ..guard.plan import Planner
from ..guard.profiles import DEFAULT, GuardrailProfile
from .agents import MAX_DEPTH, AgentSpec
from .classifier import Classifier
from .compaction import Compaction
from .policies import Policy
from .streaming import Say
from .tool import Tool


@dataclass(frozen=True)
class Rules:
    """Rules of a desk; the defaults ask for nothing."""

    tools: Mapping[str, Tool] = field(default_factory=dict)
    """The desk's tools by name; filled in by `agent_children`."""
    tool_seconds: float | None = 600.0
    """How long one attempt at a call may take whose tool does not say; None: for ever."""
    tool_attempts: int = 3
    """How often a call is attempted whose tool does not say."""
    code_version: str = ""
    """Of the program, as its runs record it; "": made of prompt, tools and Callboard's own version."""
    policies: tuple[Policy, ...] = ()
    """Rules about which calls need people, beside what each tool says."""
    agents: Mapping[str, AgentSpec] = field(default_factory=dict)
    """Agents that runs may call, by name (`check_agents`)."""
    max_depth: int = MAX_DEPTH
    """How deep agents may call agents."""
    classifier: Classifier | None = None
    """Says before the first model call how much a run may spend of its budget; None: all of it."""
    compaction: Compaction | None = field(default_factory=Compaction)
    """How long a conversation may grow; None: for ever, until the model refuses it."""
    provider_down_seconds: float = 3600.0
    """For how long a model call fails before its run says `provider_down`."""
    stream: Say | None = None
    """Given (a store's `whisper`): the words of answers are whispered as they come (`streaming`)."""
    guardrail: str = DEFAULT
    """Name of the guardrail profile of runs that name none."""
    guardrails: Mapping[str, GuardrailProfile] = field(default_factory=dict)
    """Profiles of the desk's own by name, beside those that are built in."""
    pii_detectors: Mapping[str, Detect] = field(default_factory=dict)
    """What finds kinds of personal data beyond those that are built in."""
    planner: Planner | None = None
    """Says from a trusted goal which tools a run may call without asking; None: runs have no plan of their own."""


NO_RULES = Rules()
