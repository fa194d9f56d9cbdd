"""Tests against real model servers; each is skipped where its server is not named in the environment."""
