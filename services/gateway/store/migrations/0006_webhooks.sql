CREATE TABLE "webhook_deliveries" (
	"id" text PRIMARY KEY NOT NULL,
	"webhook_id" text NOT NULL,
	"type" text NOT NULL,
	"payload" jsonb NOT NULL,
	"once" text,
	"state" text DEFAULT 'pending' NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"next_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"delivered_at" timestamp (3) with time zone,
	"last_status" integer,
	"last_error" text
);
--> statement-breakpoint
CREATE TABLE "webhooks" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"url" text NOT NULL,
	"types" text[] NOT NULL,
	"enabled" boolean DEFAULT true NOT NULL,
	"failing_since" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "webhook_deliveries" ADD CONSTRAINT "webhook_deliveries_webhook_id_webhooks_id_fk" FOREIGN KEY ("webhook_id") REFERENCES "public"."webhooks"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "webhooks" ADD CONSTRAINT "webhooks_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "webhook_deliveries_due" ON "webhook_deliveries" USING btree ("webhook_id","next_at") WHERE "webhook_deliveries"."state" = 'pending';--> statement-breakpoint
CREATE INDEX "webhook_deliveries_list" ON "webhook_deliveries" USING btree ("webhook_id","created_at","id");--> statement-breakpoint
CREATE INDEX "webhook_deliveries_created" ON "webhook_deliveries" USING btree ("created_at");--> statement-breakpoint
CREATE UNIQUE INDEX "webhook_deliveries_once" ON "webhook_deliveries" USING btree ("webhook_id","once");--> statement-breakpoint
CREATE INDEX "webhooks_tenant" ON "webhooks" USING btree ("tenant_id","created_at","id");--> statement-breakpoint
-- Writes an event for each webhook of a tenant that wants it, unless a thousand wait there already. The lock lets no webhook be removed
-- in between, which would fail the transaction that the event tells about.
CREATE FUNCTION tell_webhooks(tenant text, kind text, data jsonb, once text) RETURNS void LANGUAGE sql AS $$
  INSERT INTO webhook_deliveries (id, webhook_id, type, payload, once)
    SELECT
      'evt-' || replace(gen_random_uuid()::text, '-', ''), hook.id, kind,
      jsonb_build_object(
        'type', kind,
        'timestamp', to_char(now() AT TIME ZONE 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'data', jsonb_strip_nulls(data)),
      once
    FROM webhooks hook
    WHERE hook.tenant_id = tenant AND hook.enabled AND kind = ANY (hook.types)
      AND (SELECT count(*) FROM (
        SELECT FROM webhook_deliveries waits WHERE waits.webhook_id = hook.id AND waits.state = 'pending' LIMIT 1000
      ) waiting_here) < 1000
    FOR KEY SHARE OF hook
    ON CONFLICT DO NOTHING;
$$;
--> statement-breakpoint
CREATE FUNCTION tell_of_executions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM webhooks WHERE enabled) THEN RETURN NULL; END IF;
  PERFORM tell_webhooks(ended.tenant_id, 'execution.ended', jsonb_build_object(
      'execution', ended.id, 'box', ended.box_id, 'user', box.user_id, 'language', ended.language, 'status', ended.status,
      'cause', coalesce(ended.done -> 'cause', ended.cause), 'durationMs', ended.done -> 'durationMs'), NULL)
    FROM after_rows ended
      JOIN before_rows running ON running.id = ended.id
      JOIN boxes box ON box.id = ended.box_id
    WHERE running.status = 'running' AND ended.status <> 'running';
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER executions_told AFTER UPDATE ON "executions" REFERENCING OLD TABLE AS before_rows NEW TABLE AS after_rows
  FOR EACH STATEMENT EXECUTE FUNCTION tell_of_executions();
--> statement-breakpoint
CREATE FUNCTION tell_of_box() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM tell_webhooks(NEW.tenant_id, 'box.ended', jsonb_build_object(
    'box', NEW.id, 'user', NEW.user_id, 'template', NEW.template,
    'state', CASE NEW.state WHEN 'deleting' THEN 'deleted' ELSE NEW.state END, 'cause', NEW.cause), NULL);
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER boxes_told AFTER UPDATE ON "boxes"
  FOR EACH ROW WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION tell_of_box();
--> statement-breakpoint
-- Once a day: two meters that add to different users at once may each miss that they exceed the quota together, the next one does not.
CREATE FUNCTION tell_of_cpu_quota() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  most bigint;
  used numeric;
BEGIN
  IF NOT EXISTS (
    SELECT FROM webhooks WHERE tenant_id = NEW.tenant_id AND enabled AND 'quota.exceeded' = ANY (types)
  ) THEN RETURN NULL; END IF;
  SELECT cpu_seconds_per_day INTO most FROM quotas WHERE tenant_id = NEW.tenant_id;
  IF most IS NULL THEN RETURN NULL; END IF;
  SELECT sum(cpu_ms) INTO used FROM usage WHERE tenant_id = NEW.tenant_id AND day = NEW.day;
  IF used >= most * 1000 THEN
    PERFORM tell_webhooks(NEW.tenant_id, 'quota.exceeded', jsonb_build_object(
      'quota', 'cpuSecondsPerDay', 'limit', most, 'day', NEW.day), 'cpuSecondsPerDay ' || NEW.day);
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER usage_told_insert AFTER INSERT ON "usage"
  FOR EACH ROW WHEN (NEW.cpu_ms > 0) EXECUTE FUNCTION tell_of_cpu_quota();
--> statement-breakpoint
CREATE TRIGGER usage_told_update AFTER UPDATE OF cpu_ms ON "usage"
  FOR EACH ROW WHEN (NEW.cpu_ms > OLD.cpu_ms) EXECUTE FUNCTION tell_of_cpu_quota();
