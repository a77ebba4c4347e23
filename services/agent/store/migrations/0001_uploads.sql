CREATE TABLE "agent"."uploads" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"user_id" text,
	"name" text DEFAULT '' NOT NULL,
	"purpose" text DEFAULT '' NOT NULL,
	"size_bytes" bigint,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE INDEX "uploads_owner" ON "agent"."uploads" USING btree ("tenant_id","user_id","created_at","id");--> statement-breakpoint
CREATE INDEX "uploads_expire" ON "agent"."uploads" USING btree ("expires_at");