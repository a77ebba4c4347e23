CREATE TABLE "blobs" (
	"id" text PRIMARY KEY NOT NULL,
	"box_id" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
DROP INDEX "boxes_one_per_user";--> statement-breakpoint
ALTER TABLE "boxes" ADD COLUMN "on_idle" text DEFAULT 'delete' NOT NULL;--> statement-breakpoint
ALTER TABLE "boxes" ADD COLUMN "task" text;--> statement-breakpoint
ALTER TABLE "boxes" ADD COLUMN "task_id" text;--> statement-breakpoint
ALTER TABLE "boxes" ADD COLUMN "task_since" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "boxes" ADD COLUMN "task_until" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "boxes" ADD COLUMN "retry_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "boxes" ADD COLUMN "checkpoint_id" text;--> statement-breakpoint
ALTER TABLE "boxes" ADD COLUMN "checkpoint_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "boxes" ADD COLUMN "storage_bytes" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "boxes" ADD COLUMN "restored_at" timestamp (3) with time zone;--> statement-breakpoint
CREATE INDEX "blobs_box" ON "blobs" USING btree ("box_id");--> statement-breakpoint
CREATE INDEX "blobs_created" ON "blobs" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "boxes_task" ON "boxes" USING btree ("task_until") WHERE "boxes"."task" is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "boxes_one_per_user" ON "boxes" USING btree ("tenant_id","reusable") WHERE "boxes"."reusable" is not null and "boxes"."state" in ('creating', 'ready', 'paused', 'hibernated');