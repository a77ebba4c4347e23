-- A minute's count of requests is not worth a write to disk; after a crash of the database it begins anew.
ALTER TABLE "request_windows" SET UNLOGGED;
--> statement-breakpoint
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the audit log is append-only';
END $$;
--> statement-breakpoint
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON "audit"
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
--> statement-breakpoint
-- The gateway answers 429 with what stands in the detail.
CREATE FUNCTION refuse_over_quota(quota text, most bigint, used bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'over quota' USING
    ERRCODE = 'CBQ01',
    DETAIL = json_build_object('name', quota, 'limit', most, 'used', used)::text;
END $$;
--> statement-breakpoint
-- After the insert, so that a row that gives way to an older one does not count. The lock lets one insert of a tenant count at a
-- time, and each sees what the one before has committed.
CREATE FUNCTION keep_box_quotas() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  quota quotas%ROWTYPE;
  own_mb bigint := (NEW.limits ->> 'diskMb')::bigint;
  living bigint;
  all_mb bigint;
BEGIN
  SELECT * INTO quota FROM quotas
    WHERE tenant_id = NEW.tenant_id AND (boxes IS NOT NULL OR storage_mb IS NOT NULL)
    FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  SELECT count(*), sum((limits ->> 'diskMb')::bigint) INTO living, all_mb FROM boxes
    WHERE tenant_id = NEW.tenant_id AND ended_at IS NULL;
  IF living > quota.boxes THEN
    PERFORM refuse_over_quota('boxes', quota.boxes, living - 1);
  END IF;
  IF all_mb > quota.storage_mb THEN
    PERFORM refuse_over_quota('storageMb', quota.storage_mb, all_mb - own_mb);
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER boxes_quotas AFTER INSERT ON "boxes" FOR EACH ROW EXECUTE FUNCTION keep_box_quotas();
--> statement-breakpoint
CREATE FUNCTION keep_execution_quota() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  most integer;
  running bigint;
BEGIN
  SELECT concurrent_executions INTO most FROM quotas
    WHERE tenant_id = NEW.tenant_id AND concurrent_executions IS NOT NULL
    FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  SELECT count(*) INTO running FROM executions WHERE tenant_id = NEW.tenant_id AND status = 'running';
  IF running > most THEN
    PERFORM refuse_over_quota('concurrentExecutions', most, running - 1);
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER executions_quota AFTER INSERT ON "executions" FOR EACH ROW EXECUTE FUNCTION keep_execution_quota();
--> statement-breakpoint
-- Deferred to the commit, which makes the time short for which the row of a busy tenant is locked.
CREATE FUNCTION count_box() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO usage (tenant_id, user_id, day, boxes)
    VALUES (NEW.tenant_id, coalesce(NEW.user_id, ''), (now() AT TIME ZONE 'utc')::date, 1)
    ON CONFLICT (tenant_id, day, user_id) DO UPDATE SET boxes = usage.boxes + 1;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER boxes_usage AFTER UPDATE ON "boxes" DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (OLD.startup_ms IS NULL AND NEW.startup_ms IS NOT NULL) EXECUTE FUNCTION count_box();
--> statement-breakpoint
-- In the order of the key, so that two gateways cannot wait for each other. A box does not tell of more time than has passed.
CREATE FUNCTION count_executions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO usage (tenant_id, user_id, day, executions, wall_ms)
    SELECT
      ended.tenant_id, coalesce(box.user_id, ''), (now() AT TIME ZONE 'utc')::date, count(*),
      sum(least(
        coalesce((ended.done ->> 'durationMs')::numeric, 0),
        extract(epoch FROM ended.finished_at - ended.created_at) * 1000))::bigint
    FROM after_rows ended
      JOIN before_rows running ON running.id = ended.id
      JOIN boxes box ON box.id = ended.box_id
    WHERE running.status = 'running' AND ended.status <> 'running'
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (tenant_id, day, user_id) DO UPDATE SET
      executions = usage.executions + excluded.executions,
      wall_ms = usage.wall_ms + excluded.wall_ms;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER executions_usage AFTER UPDATE ON "executions" REFERENCING OLD TABLE AS before_rows NEW TABLE AS after_rows
  FOR EACH STATEMENT EXECUTE FUNCTION count_executions();
--> statement-breakpoint
-- A warm instance belongs to nobody: what it did until it is claimed is nobody's use.
CREATE FUNCTION begin_metering() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.metered_at := now();
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER instances_claimed BEFORE UPDATE OF box_id ON "instances"
  FOR EACH ROW WHEN (OLD.box_id IS NULL AND NEW.box_id IS NOT NULL) EXECUTE FUNCTION begin_metering();
