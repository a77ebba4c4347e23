ALTER TABLE "instances" ADD COLUMN "memory_mb" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
-- What is warm now has the size of the built-in template.
UPDATE "instances" SET "memory_mb" = coalesce(
  (SELECT (box.limits ->> 'memoryMb')::integer FROM "boxes" box WHERE box.id = instances.box_id), 1024);
