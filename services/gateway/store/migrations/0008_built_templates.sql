CREATE TABLE "build_logs" (
	"version_id" text NOT NULL,
	"seq" integer NOT NULL,
	"type" text NOT NULL,
	"text" text NOT NULL,
	CONSTRAINT "build_logs_version_id_seq_pk" PRIMARY KEY("version_id","seq")
);
--> statement-breakpoint
CREATE TABLE "template_versions" (
	"id" text PRIMARY KEY NOT NULL,
	"template_id" text NOT NULL,
	"number" integer NOT NULL,
	"state" text DEFAULT 'building' NOT NULL,
	"settings" jsonb NOT NULL,
	"build" text,
	"cause" text,
	"gateway_id" text,
	"attempts" integer DEFAULT 1 NOT NULL,
	"box_id" text,
	"blob_id" text,
	"storage_bytes" bigint,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"finished_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "templates" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"name" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "boxes" ADD COLUMN "base" text;--> statement-breakpoint
ALTER TABLE "quotas" ADD COLUMN "templates" integer;--> statement-breakpoint
ALTER TABLE "build_logs" ADD CONSTRAINT "build_logs_version_id_template_versions_id_fk" FOREIGN KEY ("version_id") REFERENCES "public"."template_versions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "template_versions" ADD CONSTRAINT "template_versions_template_id_templates_id_fk" FOREIGN KEY ("template_id") REFERENCES "public"."templates"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "templates" ADD CONSTRAINT "templates_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "template_versions_number" ON "template_versions" USING btree ("template_id","number");--> statement-breakpoint
CREATE INDEX "template_versions_state" ON "template_versions" USING btree ("state");--> statement-breakpoint
CREATE INDEX "template_versions_blob" ON "template_versions" USING btree ("blob_id");--> statement-breakpoint
CREATE UNIQUE INDEX "templates_name" ON "templates" USING btree ("tenant_id","name");