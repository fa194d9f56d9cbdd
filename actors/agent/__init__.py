"""An LLM run is an actor: run, tools, gate, approval, budget, guardrails and adapters."""
