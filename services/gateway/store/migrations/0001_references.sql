ALTER TABLE "idempotency_keys" ADD COLUMN "reference" jsonb;
--> statement-breakpoint
-- What was a path, such as /v1/boxes/{box}/executions/{id}, is a reference from now on. Gateways that know only the path serve beside
-- newer ones for a while, so a trigger writes each from the other. A key that one of them takes over, which clears the path, loses its
-- reference too. Rows that are there already are left as they are: a tenant may have a million of them, and all keyed requests of older
-- gateways would wait until each is written. Newer ones read their path, until they are deleted after a day.
CREATE FUNCTION idempotency_reference(path text) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT CASE
    WHEN part[3] = 'admin' THEN jsonb_build_object('kind', rtrim(part[4], 's'), 'id', part[5])
    WHEN part[5] IS NULL THEN jsonb_build_object('kind', 'box', 'id', part[4])
    ELSE jsonb_build_object('kind', rtrim(part[5], 's'), 'box', part[4], 'id', part[6])
  END FROM (SELECT string_to_array(path, '/') AS part) AS split;
$$;
--> statement-breakpoint
CREATE FUNCTION idempotency_location(reference jsonb) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT CASE
    WHEN reference->>'kind' IN ('tenant', 'key') THEN format('/v1/admin/%ss/%s', reference->>'kind', reference->>'id')
    WHEN reference->>'kind' = 'box' THEN format('/v1/boxes/%s', reference->>'id')
    ELSE format('/v1/boxes/%s/%ss/%s', reference->>'box', reference->>'kind', reference->>'id')
  END;
$$;
--> statement-breakpoint
CREATE FUNCTION keep_idempotency_location() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.reference IS DISTINCT FROM OLD.reference THEN
    NEW.location := idempotency_location(NEW.reference);
  ELSE
    NEW.reference := idempotency_reference(NEW.location);
  END IF;
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER idempotency_keys_location BEFORE UPDATE OF "reference", "location" ON "idempotency_keys"
  FOR EACH ROW EXECUTE FUNCTION keep_idempotency_location();
