CREATE SCHEMA IF NOT EXISTS "agent";
--> statement-breakpoint
CREATE TABLE "agent"."blobs" (
	"id" text PRIMARY KEY NOT NULL,
	"chat_id" text NOT NULL,
	"size_bytes" bigint DEFAULT 0 NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "agent"."chats" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"user_id" text,
	"title" text,
	"model" text,
	"approval" text DEFAULT 'never' NOT NULL,
	"template" text,
	"box_id" text,
	"box_restored_at" timestamp (3) with time zone,
	"remove_at" timestamp (3) with time zone,
	"lost" text,
	"input_tokens" bigint DEFAULT 0 NOT NULL,
	"output_tokens" bigint DEFAULT 0 NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "agent"."messages" (
	"id" text PRIMARY KEY NOT NULL,
	"position" bigint GENERATED ALWAYS AS IDENTITY (sequence name "agent"."messages_position_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"chat_id" text NOT NULL,
	"role" text NOT NULL,
	"status" text NOT NULL,
	"question_id" text,
	"content" text DEFAULT '' NOT NULL,
	"parts" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"files" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"model" text,
	"input_tokens" integer,
	"output_tokens" integer,
	"rounds" integer,
	"last_seq" integer,
	"error" jsonb,
	"history" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"agent_id" text,
	"lease_until" timestamp (3) with time zone,
	"asked" jsonb,
	"is_stop_asked" boolean DEFAULT false NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "agent"."secrets" (
	"name" text PRIMARY KEY NOT NULL,
	"value" text NOT NULL
);
--> statement-breakpoint
ALTER TABLE "agent"."messages" ADD CONSTRAINT "messages_chat_id_chats_id_fk" FOREIGN KEY ("chat_id") REFERENCES "agent"."chats"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "blobs_chat" ON "agent"."blobs" USING btree ("chat_id");--> statement-breakpoint
CREATE INDEX "chats_owner" ON "agent"."chats" USING btree ("tenant_id","user_id","created_at","id");--> statement-breakpoint
CREATE INDEX "chats_remove" ON "agent"."chats" USING btree ("remove_at") WHERE "agent"."chats"."remove_at" is not null;--> statement-breakpoint
CREATE INDEX "messages_chat" ON "agent"."messages" USING btree ("chat_id","position");--> statement-breakpoint
CREATE UNIQUE INDEX "messages_one_running" ON "agent"."messages" USING btree ("chat_id") WHERE "agent"."messages"."status" = 'running';--> statement-breakpoint
CREATE INDEX "messages_lease" ON "agent"."messages" USING btree ("lease_until") WHERE "agent"."messages"."status" = 'running';
