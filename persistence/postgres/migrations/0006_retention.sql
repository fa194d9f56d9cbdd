-- What retention needs: to know the forks of a run, which read its journal for as long as they are there. Few events are of
-- this type, so the index costs the others no more than a comparison.

CREATE INDEX journal_forked ON callboard.journal (substring(body FROM '"origin":"([^"]+)"')) WHERE type = 'run.forked';
