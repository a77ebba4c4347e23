-- The 4 migrations of the agent that its initial one was squashed from.
CREATE SCHEMA IF NOT EXISTS "agent";

CREATE TABLE "agent"."blobs" (
	"id" text PRIMARY KEY NOT NULL,
	"chat_id" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);

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
	"lost" text,
	"input_tokens" bigint DEFAULT 0 NOT NULL,
	"output_tokens" bigint DEFAULT 0 NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);

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
	"error" jsonb,
	"history" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"agent_id" text,
	"lease_until" timestamp (3) with time zone,
	"asked" jsonb,
	"is_stop_asked" boolean DEFAULT false NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);

CREATE TABLE "agent"."secrets" (
	"name" text PRIMARY KEY NOT NULL,
	"value" text NOT NULL
);

ALTER TABLE "agent"."messages" ADD CONSTRAINT "messages_chat_id_chats_id_fk" FOREIGN KEY ("chat_id") REFERENCES "agent"."chats"("id") ON DELETE cascade ON UPDATE no action;
CREATE INDEX "blobs_chat" ON "agent"."blobs" USING btree ("chat_id");
CREATE INDEX "chats_owner" ON "agent"."chats" USING btree ("tenant_id","user_id","created_at","id");
CREATE INDEX "messages_chat" ON "agent"."messages" USING btree ("chat_id","position");
CREATE UNIQUE INDEX "messages_one_running" ON "agent"."messages" USING btree ("chat_id") WHERE "agent"."messages"."status" = 'running';
CREATE INDEX "messages_lease" ON "agent"."messages" USING btree ("lease_until") WHERE "agent"."messages"."status" = 'running'
;
ALTER TABLE "agent"."messages" ADD COLUMN "last_seq" integer
;
ALTER TABLE "agent"."chats" ADD COLUMN "remove_at" timestamp (3) with time zone;
CREATE INDEX "chats_remove" ON "agent"."chats" USING btree ("remove_at") WHERE "agent"."chats"."remove_at" is not null
;
ALTER TABLE "agent"."blobs" ADD COLUMN "size_bytes" bigint DEFAULT 0 NOT NULL;
