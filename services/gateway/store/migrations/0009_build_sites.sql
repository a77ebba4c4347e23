ALTER TABLE "template_versions" ALTER COLUMN "attempts" SET DEFAULT 0;--> statement-breakpoint
ALTER TABLE "template_versions" ADD COLUMN "site" text;