CREATE TABLE "file_exports" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"box_id" text NOT NULL,
	"gateway_id" text,
	"state" text DEFAULT 'running' NOT NULL,
	"target" text,
	"is_canceled" boolean DEFAULT false NOT NULL,
	"files" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"file_count" integer DEFAULT 0 NOT NULL,
	"size_bytes" bigint DEFAULT 0 NOT NULL,
	"skipped" integer DEFAULT 0 NOT NULL,
	"failure" jsonb,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"ended_at" timestamp (3) with time zone
);
--> statement-breakpoint
ALTER TABLE "file_exports" ADD CONSTRAINT "file_exports_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "file_exports" ADD CONSTRAINT "file_exports_box_id_boxes_id_fk" FOREIGN KEY ("box_id") REFERENCES "public"."boxes"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "file_exports_box" ON "file_exports" USING btree ("box_id","created_at","id");--> statement-breakpoint
CREATE INDEX "file_exports_tenant" ON "file_exports" USING btree ("tenant_id","state");--> statement-breakpoint
CREATE INDEX "file_exports_state" ON "file_exports" USING btree ("state","ended_at");--> statement-breakpoint
CREATE FUNCTION tell_of_export() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM tell_webhooks(NEW.tenant_id, 'export.ended', jsonb_build_object(
    'export', NEW.id, 'box', NEW.box_id, 'user', (SELECT user_id FROM boxes WHERE id = NEW.box_id), 'state', NEW.state,
    'fileCount', NEW.file_count, 'sizeBytes', NEW.size_bytes, 'failure', NEW.failure), NULL);
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER file_exports_told AFTER UPDATE ON "file_exports"
  FOR EACH ROW WHEN (OLD.state = 'running' AND NEW.state <> 'running') EXECUTE FUNCTION tell_of_export();
