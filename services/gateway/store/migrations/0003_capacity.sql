-- A statement sees the rows of its beginning, so it cannot wait for a lock and then count what others committed meanwhile. Within a volatile
-- function each statement sees the rows of its own beginning: whoever calls these two decides on what they return in one round trip, and
-- holds the lock of all gateways until its transaction ends. Older gateways take the same lock.
CREATE FUNCTION lock_capacity(
  of_site text, of_template text DEFAULT NULL, of_generation text DEFAULT NULL,
  OUT instances integer, OUT memory_mb double precision,
  OUT ending_instances integer, OUT ending_memory_mb double precision,
  OUT pooled integer
) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(7302113806);
  SELECT
    count(*), coalesce(sum(one.memory_mb), 0),
    count(*) FILTER (WHERE state = 'destroying'), coalesce(sum(one.memory_mb) FILTER (WHERE state = 'destroying'), 0),
    count(*) FILTER (WHERE box_id IS NULL AND state IN ('creating', 'warm') AND template = of_template AND generation = of_generation)
  INTO instances, memory_mb, ending_instances, ending_memory_mb, pooled
  FROM instances one WHERE driver = of_site;
END $$;
--> statement-breakpoint
-- The turn after the last one of the tenant, but not one that has passed, and the number of boxes that wait. Boxes that were not renewed for
-- some seconds are ignored.
CREATE FUNCTION next_turn(
  of_site text, of_tenant text, gone_seconds integer,
  OUT waiting integer, OUT waiting_of_tenant integer, OUT turn integer
) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(7302113806);
  DELETE FROM waiting WHERE until < now();
  SELECT
    count(*), count(*) FILTER (WHERE tenant_id = of_tenant),
    greatest(coalesce(max(one.turn) FILTER (WHERE tenant_id = of_tenant), -1) + 1, min(one.turn), 0)
  INTO waiting, waiting_of_tenant, turn
  FROM waiting one WHERE driver = of_site AND seen_at > now() - make_interval(secs => gone_seconds) AND until > now();
END $$;
--> statement-breakpoint
-- Gateways of the first versions did not write the memory of instances, nor update it when they enlarged one.
UPDATE instances SET memory_mb = greatest(instances.memory_mb, (boxes.limits ->> 'memoryMb')::int)
  FROM boxes WHERE boxes.id = instances.box_id AND instances.memory_mb < (boxes.limits ->> 'memoryMb')::int;
--> statement-breakpoint
UPDATE instances SET memory_mb = 1024 WHERE memory_mb = 0;
