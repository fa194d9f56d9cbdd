"""The supervision cases recorded on real OTP, run against this runtime: `python -m tests.conformance FILE`.

cases        what a file holds, checked                      (supervision_cases.json is recorded)
model        OTP's supervisor, and where ours differs        (processes, clockwork; foretell plays a case on it)
expectation  what ours is to show in a case                  the recording, or what the model says of ours
cast         a recorded tree as one of ours                  (player: the actor behind each worker; diary)
recorder     what a node's commits show, in the recordings' words
driver       the steps of a case, on a stage                 (stages: memory by hand-driven time, or PostgreSQL)
play         whole cases, judged                             (everywhere: many of them; invent: random ones)
"""
