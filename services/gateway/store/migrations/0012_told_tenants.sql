-- Most tenants have no webhook: their ends are not looked up when another tenant has one.
CREATE OR REPLACE FUNCTION tell_of_executions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM webhooks WHERE enabled) THEN RETURN NULL; END IF;
  IF NOT EXISTS (
    SELECT FROM after_rows ended
    WHERE EXISTS (
      SELECT FROM webhooks hook
      WHERE hook.tenant_id = ended.tenant_id AND hook.enabled AND 'execution.ended' = ANY (hook.types)
    )
  ) THEN RETURN NULL; END IF;
  PERFORM tell_webhooks(ended.tenant_id, 'execution.ended', jsonb_build_object(
      'execution', ended.id, 'box', ended.box_id, 'user', box.user_id, 'language', ended.language, 'status', ended.status,
      'cause', coalesce(ended.done -> 'cause', ended.cause), 'durationMs', ended.done -> 'durationMs'), NULL)
    FROM after_rows ended
      JOIN before_rows running ON running.id = ended.id
      JOIN boxes box ON box.id = ended.box_id
    WHERE running.status = 'running' AND ended.status <> 'running';
  RETURN NULL;
END $$;
