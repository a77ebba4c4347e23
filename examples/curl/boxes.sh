#!/bin/sh
# Boxes: create one for a user, get the same one again, list, update and delete it.
. "$(dirname "$0")/api.sh"

# Each template shows how many boxes are kept warm, which start in milliseconds.
api "$CODEBOX_URL/v1/templates"; echo
# → "name":"python"
# → "warm":

id=$(api "$CODEBOX_URL/v1/boxes" -d '{"user": "grace", "env": {"GREETING": "hello"}, "metadata": {"plan": "free"}}' | field id)
api "$CODEBOX_URL/v1/boxes/$id"; echo
# → "state":"ready"
# → "user":"grace"
# → "startup":{"kind":

# Get the existing box of the same user.
api "$CODEBOX_URL/v1/boxes" -d '{"user": "grace", "reuse": true}'; echo
# → "continuity":"reused"

api "$CODEBOX_URL/v1/boxes?metadata=plan%3Dfree&limit=10"; echo
# → "metadata":{"plan":"free"}
# → "nextCursor":null

api -X PATCH "$CODEBOX_URL/v1/boxes/$id" -d '{"idleSeconds": 60, "metadata": {"plan": "pro"}}'; echo
# → "metadata":{"plan":"pro"}
# → "idleSeconds":60

api -X POST "$CODEBOX_URL/v1/boxes/$id/keepalive" -o /dev/null
api -X DELETE "$CODEBOX_URL/v1/boxes/$id"

# A deleted box can still be read, with the reason for its end.
api "$CODEBOX_URL/v1/boxes/$id"; echo
# → "state":"deleted"
