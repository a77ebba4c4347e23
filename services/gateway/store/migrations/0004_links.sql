CREATE TABLE "links" (
	"id" text PRIMARY KEY NOT NULL,
	"hash" text NOT NULL,
	"tenant_id" text NOT NULL,
	"key_id" text NOT NULL,
	"box_id" text NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"path" text NOT NULL,
	"method" text NOT NULL,
	"once" boolean NOT NULL,
	"max_bytes" bigint,
	"download" text,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"used_at" timestamp (3) with time zone,
	CONSTRAINT "links_hash_unique" UNIQUE("hash")
);
--> statement-breakpoint
ALTER TABLE "links" ADD CONSTRAINT "links_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "links" ADD CONSTRAINT "links_key_id_api_keys_id_fk" FOREIGN KEY ("key_id") REFERENCES "public"."api_keys"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "links" ADD CONSTRAINT "links_box_id_boxes_id_fk" FOREIGN KEY ("box_id") REFERENCES "public"."boxes"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "links_box" ON "links" USING btree ("box_id","created_at","id");--> statement-breakpoint
CREATE INDEX "links_expires" ON "links" USING btree ("expires_at");