CREATE TABLE "api_keys" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"hash" text NOT NULL,
	"name" text NOT NULL,
	"scopes" jsonb,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp (3) with time zone,
	"revoked_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "audit" (
	"id" text PRIMARY KEY NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"actor" text NOT NULL,
	"action" text NOT NULL,
	"tenant_id" text,
	"target" text NOT NULL,
	"request_id" text,
	"details" jsonb NOT NULL
);
--> statement-breakpoint
CREATE TABLE "blobs" (
	"id" text PRIMARY KEY NOT NULL,
	"box_id" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "boxes" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"user_id" text,
	"reusable" text,
	"state" text NOT NULL,
	"version" integer DEFAULT 1 NOT NULL,
	"cause" jsonb,
	"template" text NOT NULL,
	"metadata" jsonb NOT NULL,
	"limits" jsonb NOT NULL,
	"network" text NOT NULL,
	"idle_seconds" integer NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"last_active_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"ended_at" timestamp (3) with time zone,
	"startup_ms" integer,
	"startup_kind" text,
	"startup_cpu_ms" integer,
	"gateway_id" text,
	"on_idle" text DEFAULT 'delete' NOT NULL,
	"task" text,
	"task_id" text,
	"task_since" timestamp (3) with time zone,
	"task_until" timestamp (3) with time zone,
	"retry_at" timestamp (3) with time zone,
	"checkpoint_id" text,
	"checkpoint_at" timestamp (3) with time zone,
	"storage_bytes" bigint DEFAULT 0 NOT NULL,
	"spent_cpu_ms" bigint DEFAULT 0 NOT NULL,
	"restored_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "deployments" (
	"id" text PRIMARY KEY NOT NULL,
	"secret" text DEFAULT gen_random_uuid()::text || gen_random_uuid()::text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "executions" (
	"id" text PRIMARY KEY NOT NULL,
	"box_id" text NOT NULL,
	"tenant_id" text NOT NULL,
	"context" text,
	"language" text,
	"status" text NOT NULL,
	"timeout_ms" integer,
	"gateway_id" text,
	"cause" jsonb,
	"done" jsonb,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"finished_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "gateways" (
	"id" text PRIMARY KEY NOT NULL,
	"alive_until" timestamp (3) with time zone NOT NULL,
	"steady_since" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"site" text,
	"place" text
);
--> statement-breakpoint
CREATE TABLE "idempotency_keys" (
	"tenant_id" text NOT NULL,
	"key" text NOT NULL,
	"request_hash" text NOT NULL,
	"status" integer,
	"body" text,
	"content_type" text,
	"location" text,
	"gateway_id" text,
	"claim_id" text,
	"may_have_started" boolean DEFAULT false NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "idempotency_keys_tenant_id_key_pk" PRIMARY KEY("tenant_id","key")
);
--> statement-breakpoint
CREATE TABLE "instances" (
	"id" text PRIMARY KEY NOT NULL,
	"box_id" text,
	"driver" text NOT NULL,
	"state" text NOT NULL,
	"address" text,
	"template" text,
	"generation" text,
	"gateway_id" text,
	"memory_mb" integer DEFAULT 0 NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"metered_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"metered_cpu_ms" bigint DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "pools" (
	"driver" text NOT NULL,
	"template" text NOT NULL,
	"generation" text NOT NULL,
	"size" integer NOT NULL,
	CONSTRAINT "pools_driver_template_pk" PRIMARY KEY("driver","template")
);
--> statement-breakpoint
CREATE TABLE "port_sessions" (
	"hash" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"key_id" text NOT NULL,
	"box_id" text NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"port" integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE "quotas" (
	"tenant_id" text PRIMARY KEY NOT NULL,
	"boxes" integer,
	"concurrent_executions" integer,
	"cpu_seconds_per_day" integer,
	"storage_mb" integer,
	"requests_per_minute" integer
);
--> statement-breakpoint
CREATE TABLE "request_windows" (
	"tenant_id" text PRIMARY KEY NOT NULL,
	"started_at" timestamp (3) with time zone NOT NULL,
	"taken" integer NOT NULL,
	"granted" integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE "sites" (
	"name" text PRIMARY KEY NOT NULL,
	"place" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tenants" (
	"id" text PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"state" text DEFAULT 'active' NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tickets" (
	"hash" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"key_id" text NOT NULL,
	"box_id" text NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "usage" (
	"tenant_id" text NOT NULL,
	"user_id" text NOT NULL,
	"day" date NOT NULL,
	"boxes" integer DEFAULT 0 NOT NULL,
	"box_ms" bigint DEFAULT 0 NOT NULL,
	"executions" integer DEFAULT 0 NOT NULL,
	"wall_ms" bigint DEFAULT 0 NOT NULL,
	"cpu_ms" bigint DEFAULT 0 NOT NULL,
	"peak_memory_bytes" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "usage_tenant_id_day_user_id_pk" PRIMARY KEY("tenant_id","day","user_id")
);
--> statement-breakpoint
CREATE TABLE "waiting" (
	"box_id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"driver" text NOT NULL,
	"template" text NOT NULL,
	"generation" text,
	"turn" integer NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"seen_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"until" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "boxes" ADD CONSTRAINT "boxes_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "executions" ADD CONSTRAINT "executions_box_id_boxes_id_fk" FOREIGN KEY ("box_id") REFERENCES "public"."boxes"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "instances" ADD CONSTRAINT "instances_box_id_boxes_id_fk" FOREIGN KEY ("box_id") REFERENCES "public"."boxes"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "port_sessions" ADD CONSTRAINT "port_sessions_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "port_sessions" ADD CONSTRAINT "port_sessions_key_id_api_keys_id_fk" FOREIGN KEY ("key_id") REFERENCES "public"."api_keys"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "port_sessions" ADD CONSTRAINT "port_sessions_box_id_boxes_id_fk" FOREIGN KEY ("box_id") REFERENCES "public"."boxes"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "quotas" ADD CONSTRAINT "quotas_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "request_windows" ADD CONSTRAINT "request_windows_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "tickets" ADD CONSTRAINT "tickets_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "tickets" ADD CONSTRAINT "tickets_key_id_api_keys_id_fk" FOREIGN KEY ("key_id") REFERENCES "public"."api_keys"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "tickets" ADD CONSTRAINT "tickets_box_id_boxes_id_fk" FOREIGN KEY ("box_id") REFERENCES "public"."boxes"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "usage" ADD CONSTRAINT "usage_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "waiting" ADD CONSTRAINT "waiting_box_id_boxes_id_fk" FOREIGN KEY ("box_id") REFERENCES "public"."boxes"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "api_keys_tenant" ON "api_keys" USING btree ("tenant_id");--> statement-breakpoint
CREATE INDEX "audit_created" ON "audit" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "blobs_box" ON "blobs" USING btree ("box_id");--> statement-breakpoint
CREATE INDEX "blobs_created" ON "blobs" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "boxes_tenant" ON "boxes" USING btree ("tenant_id","created_at","id");--> statement-breakpoint
CREATE INDEX "boxes_state" ON "boxes" USING btree ("state");--> statement-breakpoint
CREATE INDEX "boxes_task" ON "boxes" USING btree ("task_until") WHERE "boxes"."task" is not null;--> statement-breakpoint
CREATE INDEX "boxes_living" ON "boxes" USING btree ("tenant_id","created_at","id") WHERE "boxes"."ended_at" is null;--> statement-breakpoint
CREATE INDEX "boxes_user" ON "boxes" USING btree ("tenant_id","user_id","created_at","id");--> statement-breakpoint
CREATE INDEX "boxes_expires" ON "boxes" USING btree ("expires_at") WHERE "boxes"."ended_at" is null;--> statement-breakpoint
CREATE INDEX "boxes_ended" ON "boxes" USING btree ("ended_at") WHERE "boxes"."ended_at" is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "boxes_one_per_user" ON "boxes" USING btree ("tenant_id","reusable") WHERE "boxes"."reusable" is not null and "boxes"."state" in ('creating', 'ready', 'paused', 'hibernated');--> statement-breakpoint
CREATE INDEX "executions_box" ON "executions" USING btree ("box_id","created_at","id");--> statement-breakpoint
CREATE INDEX "executions_running" ON "executions" USING btree ("box_id") WHERE "executions"."status" = 'running';--> statement-breakpoint
CREATE INDEX "executions_running_tenant" ON "executions" USING btree ("tenant_id") WHERE "executions"."status" = 'running';--> statement-breakpoint
CREATE INDEX "idempotency_keys_created" ON "idempotency_keys" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "idempotency_keys_answers" ON "idempotency_keys" USING btree ("tenant_id","created_at") WHERE "idempotency_keys"."body" is not null;--> statement-breakpoint
CREATE INDEX "instances_box" ON "instances" USING btree ("box_id");--> statement-breakpoint
CREATE INDEX "instances_warm" ON "instances" USING btree ("driver","template","generation","created_at") WHERE "instances"."state" = 'warm';--> statement-breakpoint
CREATE INDEX "port_sessions_expires" ON "port_sessions" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "port_sessions_box" ON "port_sessions" USING btree ("box_id");--> statement-breakpoint
CREATE INDEX "tenants_created" ON "tenants" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "tickets_expires" ON "tickets" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "tickets_box" ON "tickets" USING btree ("box_id");--> statement-breakpoint
CREATE INDEX "waiting_tenant" ON "waiting" USING btree ("tenant_id");
--> statement-breakpoint
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
