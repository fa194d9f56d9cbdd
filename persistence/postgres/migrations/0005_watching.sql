-- What screens watch by: see the tables in schema.sql.
--
-- The new column has a constant default, so that the table is not written anew. It is filled where a journal or a first
-- turn tells the time, by two steps into an index for each actor, and before there are indexes on it.

ALTER TABLE callboard.actor ADD created_at timestamptz NOT NULL DEFAULT 'epoch';
UPDATE callboard.actor a SET created_at = known.at
FROM (
    SELECT w.ctid AS place, coalesce(
        (SELECT j.at FROM callboard.journal j WHERE j.shard = w.shard AND j.address = w.address AND j.seq = 1),
        (SELECT min(t.at) FROM callboard.turn t WHERE t.shard = w.shard AND t.recipient = w.address AND t.version = 1)
    ) AS at
    FROM callboard.actor w
) known
WHERE a.ctid = known.place AND known.at IS NOT NULL;

CREATE INDEX actor_status ON callboard.actor (kind, status, address) WHERE kind <> '';
CREATE INDEX actor_created ON callboard.actor (kind, created_at, address) WHERE kind <> '';
CREATE INDEX message_failing ON callboard.message (sender, shard, id) WHERE failing_since IS NOT NULL;
CREATE INDEX decision_open ON callboard.decision (run, number) WHERE status IN ('pending', 'approved');
CREATE INDEX dead_letter_open_of ON callboard.dead_letter (recipient, number) WHERE settled = '';
CREATE INDEX dead_letter_open_from ON callboard.dead_letter (sender, number) WHERE settled = '';

CREATE FUNCTION callboard.tell_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'actor' THEN
        PERFORM callboard.tell('actor', NEW.address);
    ELSIF TG_TABLE_NAME = 'decision' THEN
        PERFORM callboard.tell('decision', NEW.id);
    ELSIF TG_TABLE_NAME = 'dead_letter' THEN
        PERFORM callboard.tell('dead', NEW.number::text);
    ELSE
        PERFORM callboard.tell('node', NEW.number::text);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER tell AFTER UPDATE OF status ON callboard.actor FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION callboard.tell_change();
CREATE TRIGGER tell AFTER INSERT OR UPDATE ON callboard.decision FOR EACH ROW
    EXECUTE FUNCTION callboard.tell_change();
CREATE TRIGGER tell AFTER INSERT OR UPDATE ON callboard.dead_letter FOR EACH ROW
    EXECUTE FUNCTION callboard.tell_change();
CREATE TRIGGER tell AFTER INSERT OR UPDATE ON callboard.node FOR EACH ROW
    EXECUTE FUNCTION callboard.tell_change();
