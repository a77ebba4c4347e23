CREATE TABLE "sites" (
	"name" text PRIMARY KEY NOT NULL,
	"place" text NOT NULL
);
--> statement-breakpoint
ALTER TABLE "gateways" ADD COLUMN "site" text;--> statement-breakpoint
ALTER TABLE "gateways" ADD COLUMN "place" text;