-- Of those there are nobody knows the key; they live an hour at most, and browsers get new ones.
DELETE FROM "port_sessions";--> statement-breakpoint
DELETE FROM "tickets";--> statement-breakpoint
ALTER TABLE "port_sessions" ADD COLUMN "key_id" text NOT NULL;--> statement-breakpoint
ALTER TABLE "tickets" ADD COLUMN "key_id" text NOT NULL;--> statement-breakpoint
ALTER TABLE "port_sessions" ADD CONSTRAINT "port_sessions_key_id_api_keys_id_fk" FOREIGN KEY ("key_id") REFERENCES "public"."api_keys"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "tickets" ADD CONSTRAINT "tickets_key_id_api_keys_id_fk" FOREIGN KEY ("key_id") REFERENCES "public"."api_keys"("id") ON DELETE cascade ON UPDATE no action;