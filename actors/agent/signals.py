"""What guardrails see in the texts of one run, kept until it is in the journal."""

from collections.abc import Callable, Sequence

from ..guard.classifier import load_detector
from ..guard.patterns import scan
from ..guard.pii import Found
from ..guard.profiles import GuardrailProfile
from .guard_events import Action, Guarded, Layer
from .text import row_text

MAX_DETAIL_CHARS = 500
MAX_FINDINGS = 64
"""Of one answer."""
MAX_NAMED = 10
"""Places that one finding names."""


class Signals:
    """Findings since the last answer of the model."""

    def __init__(self, profile: GuardrailProfile, monotonic: Callable[[], float]) -> None:
        self._profile = profile
        self._monotonic = monotonic
        self._new: list[Guarded] = []

    def now(self) -> float:
        """Seconds, from wherever."""
        return self._monotonic()

    def forget(self) -> None:
        """They are in the journal."""
        self._new.clear()

    def since_the_last_answer(self) -> list[Guarded]:
        """They stay until the answer is in the journal (`forget`): it may be lost on its way."""
        return list(self._new)

    def search(self, text: str, layer: Layer, where: str, call: int = 0) -> None:
        """Look for signs that a text instructs who reads it: one finding at most, of the surest sign."""
        profile = self._profile
        if len(self._new) >= MAX_FINDINGS or not text:
            return
        began = self.now()
        found = [one for one in scan(text) if one.confidence >= profile.pattern_confidence] if profile.patterns else []
        score = self._score(text)
        if not found and not score:
            return
        best = max([*(one.confidence for one in found), score])
        rule = found[0].rule if found and found[0].confidence >= score else "detector"
        signs = [f"{one.rule} {one.text!r} [{one.start}:{one.end}]" for one in found[:MAX_NAMED]]
        if score:
            signs.append(f"detector {score:.2f}")
        action: Action = "ESCALATE" if profile.hits_to_hold and best >= profile.hit_confidence else "ALLOW"
        detail = row_text(f"{where}: {'; '.join(signs)}", MAX_DETAIL_CHARS)
        took = (self.now() - began) * 1000
        self._new.append(Guarded(layer, f"injection:{rule}", action, detail, call, round(best, 3), round(took, 3)))

    def _score(self, text: str) -> float:
        """What the classifier says, where it says more than its threshold; else 0."""
        detector = load_detector() if self._profile.detector else None
        if detector is None:
            return 0.0
        threshold = self._profile.detector_threshold
        score = detector.score(text)
        return score if score >= (detector.threshold if threshold is None else threshold) else 0.0

    def personal(self, found: Sequence[tuple[Found, str]], layer: Layer, where: str, call: int, began: float) -> None:
        """Note which personal data was hidden."""
        took = (self.now() - began) * 1000
        self._new += personal_data(found, layer, where, call, took)[: max(0, MAX_FINDINGS - len(self._new))]


def personal_data(
    found: Sequence[tuple[Found, str]], layer: Layer, where: str, call: int, latency_ms: float
) -> list[Guarded]:
    """Personal data that was hidden, one finding for each kind: its names and places, never the data itself."""
    findings: list[Guarded] = []
    for kind in dict.fromkeys(one.kind for one, _ in found):
        places = [f"{name}[{one.start}:{one.end}]" for one, name in found if one.kind == kind]
        more = f" and {len(places) - MAX_NAMED} more" if len(places) > MAX_NAMED else ""
        detail = row_text(f"{where}: {' '.join(places[:MAX_NAMED])}{more}", MAX_DETAIL_CHARS)
        findings.append(Guarded(layer, f"pii:{kind}", "REDACT", detail, call, 0.0, round(latency_ms, 3)))
    return findings
