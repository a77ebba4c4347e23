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
ALTER TABLE "idempotency_keys" DROP CONSTRAINT "idempotency_keys_tenant_id_tenants_id_fk";
--> statement-breakpoint
ALTER TABLE "api_keys" ADD COLUMN "scopes" jsonb;--> statement-breakpoint
ALTER TABLE "instances" ADD COLUMN "metered_at" timestamp (3) with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "instances" ADD COLUMN "metered_cpu_ms" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "tenants" ADD COLUMN "state" text DEFAULT 'active' NOT NULL;--> statement-breakpoint
ALTER TABLE "quotas" ADD CONSTRAINT "quotas_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "request_windows" ADD CONSTRAINT "request_windows_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "usage" ADD CONSTRAINT "usage_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "audit_created" ON "audit" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "boxes_living" ON "boxes" USING btree ("tenant_id") WHERE "boxes"."ended_at" is null;--> statement-breakpoint
CREATE INDEX "executions_running_tenant" ON "executions" USING btree ("tenant_id") WHERE "executions"."status" = 'running';--> statement-breakpoint
CREATE INDEX "tenants_created" ON "tenants" USING btree ("created_at","id");