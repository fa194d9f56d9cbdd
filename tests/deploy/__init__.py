"""Deploys: two versions of one program side by side, and what a change of a message or state type may do."""
