CREATE TABLE "gateways" (
	"id" text PRIMARY KEY NOT NULL,
	"alive_until" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "boxes" ADD COLUMN "gateway_id" text;--> statement-breakpoint
ALTER TABLE "executions" ADD COLUMN "gateway_id" text;--> statement-breakpoint
ALTER TABLE "idempotency_keys" ADD COLUMN "gateway_id" text;--> statement-breakpoint
ALTER TABLE "idempotency_keys" ADD COLUMN "may_have_started" boolean DEFAULT false NOT NULL;