-- All that this migration and those released with it change, while older gateways serve: asked for one by one, with the first
-- held for as long as indexes are made, they would be waited for by whoever has the second and waits for the first. What refers to
-- boxes comes before them, as in most statements.
LOCK TABLE "idempotency_keys", "tickets", "port_sessions", "instances", "boxes" IN ACCESS EXCLUSIVE MODE;--> statement-breakpoint
DROP INDEX "boxes_living";--> statement-breakpoint
CREATE INDEX "boxes_user" ON "boxes" USING btree ("tenant_id","user_id","created_at","id");--> statement-breakpoint
CREATE INDEX "boxes_expires" ON "boxes" USING btree ("expires_at") WHERE "boxes"."ended_at" is null;--> statement-breakpoint
CREATE INDEX "boxes_ended" ON "boxes" USING btree ("ended_at") WHERE "boxes"."ended_at" is not null;--> statement-breakpoint
CREATE INDEX "port_sessions_box" ON "port_sessions" USING btree ("box_id");--> statement-breakpoint
CREATE INDEX "tickets_box" ON "tickets" USING btree ("box_id");--> statement-breakpoint
CREATE INDEX "boxes_living" ON "boxes" USING btree ("tenant_id","created_at","id") WHERE "boxes"."ended_at" is null;