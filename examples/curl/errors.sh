#!/bin/sh
# Errors: problem+json with a machine-readable code and a pointer to each invalid field; and how to retry a request safely.
. "$(dirname "$0")/api.sh"
in_box

api "$BOX/executions" -d '{"code": 1, "timeout": 5}' || true; echo
# → "status":400
# → "code":"invalid_request"
# → "pointer":"/code"
# → "pointer":"/timeout"

# The box of another tenant looks like a missing one.
api "$CODEBOX_URL/v1/boxes/box-nobodys" || true; echo
# → "code":"not_found"

# Requests with the same key take effect once, however often they are sent.
key="example-$$-$(date +%s)"
for _ in 1 2; do
  api -H "Idempotency-Key: $key" "$BOX/executions" -d '{"code": "n = globals().get(\"n\", 0) + 1; n"}'; echo
done
# → "text":"1"
# → "text":"1"
