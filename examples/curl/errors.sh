#!/bin/sh
# Errors: problem+json with a code for programs and a pointer to each fault; and how to repeat a request safely.
. "$(dirname "$0")/api.sh"
in_box

api "$BOX/executions" -d '{"code": 1, "timeout": 5}' || true; echo
# → "status":400
# → "code":"invalid_request"
# → "pointer":"/code"
# → "pointer":"/timeout"

# Another tenant's box is answered like one that does not exist.
api "$CODEBOX_URL/v1/boxes/box-nobodys" || true; echo
# → "code":"not_found"

# The same key does a thing once, however often the request is sent.
key="example-$$-$(date +%s)"
for _ in 1 2; do
  api -H "Idempotency-Key: $key" "$BOX/executions" -d '{"code": "n = globals().get(\"n\", 0) + 1; n"}'; echo
done
# → "text":"1"
# → "text":"1"
