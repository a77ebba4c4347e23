CREATE TABLE "volumes" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"user_id" text,
	"name" text NOT NULL,
	"size_mb" integer NOT NULL,
	"site" text NOT NULL,
	"state" text DEFAULT 'creating' NOT NULL,
	"gateway_id" text,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "boxes" ADD COLUMN "volumes" jsonb DEFAULT '[]'::jsonb NOT NULL;--> statement-breakpoint
ALTER TABLE "volumes" ADD CONSTRAINT "volumes_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "volumes_tenant" ON "volumes" USING btree ("tenant_id","created_at","id");--> statement-breakpoint
CREATE INDEX "volumes_unsettled" ON "volumes" USING btree ("site") WHERE "volumes"."state" <> 'ready';--> statement-breakpoint
CREATE UNIQUE INDEX "volumes_name" ON "volumes" USING btree ("tenant_id",coalesce("user_id", ''),"name") WHERE "volumes"."state" <> 'deleting';
--> statement-breakpoint
-- The lock lets no volume be deleted between the check and the commit of the box.
CREATE FUNCTION use_volumes() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  wanted text[] := ARRAY(SELECT DISTINCT value ->> 'id' FROM jsonb_array_elements(NEW.volumes));
  found integer;
BEGIN
  PERFORM 1 FROM volumes WHERE id = ANY(wanted) AND tenant_id = NEW.tenant_id AND state = 'ready' FOR KEY SHARE;
  GET DIAGNOSTICS found = ROW_COUNT;
  IF found < cardinality(wanted) THEN
    RAISE EXCEPTION 'a volume of the box is gone' USING ERRCODE = 'CBV01';
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER boxes_volumes AFTER INSERT ON "boxes" FOR EACH ROW WHEN (NEW.volumes <> '[]'::jsonb) EXECUTE FUNCTION use_volumes();
--> statement-breakpoint
-- What the boxes and the volumes of a tenant may hold together.
CREATE FUNCTION storage_of(tenant text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT sum((limits ->> 'diskMb')::bigint) FROM boxes WHERE tenant_id = tenant AND ended_at IS NULL), 0)::bigint
    + coalesce((SELECT sum(size_mb) FROM volumes WHERE tenant_id = tenant), 0)::bigint;
$$;
--> statement-breakpoint
CREATE OR REPLACE FUNCTION keep_box_quotas() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  quota quotas%ROWTYPE;
  living bigint;
  all_mb bigint;
BEGIN
  SELECT * INTO quota FROM quotas
    WHERE tenant_id = NEW.tenant_id AND (boxes IS NOT NULL OR storage_mb IS NOT NULL)
    FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  IF quota.boxes IS NOT NULL THEN
    SELECT count(*) INTO living FROM boxes WHERE tenant_id = NEW.tenant_id AND ended_at IS NULL;
    IF living > quota.boxes THEN
      PERFORM refuse_over_quota('boxes', quota.boxes, living - 1);
    END IF;
  END IF;
  IF quota.storage_mb IS NOT NULL THEN
    all_mb := storage_of(NEW.tenant_id);
    IF all_mb > quota.storage_mb THEN
      PERFORM refuse_over_quota('storageMb', quota.storage_mb, all_mb - (NEW.limits ->> 'diskMb')::bigint);
    END IF;
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE FUNCTION keep_volume_quotas() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  most bigint;
  all_mb bigint;
BEGIN
  SELECT storage_mb INTO most FROM quotas WHERE tenant_id = NEW.tenant_id AND storage_mb IS NOT NULL FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  all_mb := storage_of(NEW.tenant_id);
  IF all_mb > most THEN
    PERFORM refuse_over_quota('storageMb', most, all_mb - NEW.size_mb);
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER volumes_quotas AFTER INSERT ON "volumes" FOR EACH ROW EXECUTE FUNCTION keep_volume_quotas();
