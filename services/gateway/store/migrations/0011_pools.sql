CREATE TABLE "pools" (
	"driver" text NOT NULL,
	"template" text NOT NULL,
	"generation" text NOT NULL,
	"size" integer NOT NULL,
	CONSTRAINT "pools_driver_template_pk" PRIMARY KEY("driver","template")
);
--> statement-breakpoint
CREATE TABLE "waiting" (
	"box_id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"driver" text NOT NULL,
	"template" text NOT NULL,
	"generation" text,
	"turn" integer NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"seen_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"until" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "boxes" ADD COLUMN "startup_kind" text;--> statement-breakpoint
ALTER TABLE "instances" ADD COLUMN "template" text;--> statement-breakpoint
ALTER TABLE "instances" ADD COLUMN "generation" text;--> statement-breakpoint
ALTER TABLE "instances" ADD COLUMN "gateway_id" text;--> statement-breakpoint
ALTER TABLE "waiting" ADD CONSTRAINT "waiting_box_id_boxes_id_fk" FOREIGN KEY ("box_id") REFERENCES "public"."boxes"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "waiting_tenant" ON "waiting" USING btree ("tenant_id");--> statement-breakpoint
CREATE INDEX "instances_warm" ON "instances" USING btree ("driver","template","generation","created_at") WHERE "instances"."state" = 'warm';