"""The system prompt's fingerprint, recorded so that a change of prompt shows in the journal."""

from hashlib import sha256


def prompt_hash(text: str) -> str:
    """`sha256:` and the hexadecimal digest of a system prompt."""
    return "sha256:" + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
