#!/bin/sh
# Boxes: create one for a user, get the same one again, find it, change it, end it.
. "$(dirname "$0")/api.sh"

# Each template tells how many boxes of it are kept warm, to be had in milliseconds.
api "$CODEBOX_URL/v1/templates"; echo
# → "name":"python"
# → "warm":

id=$(api "$CODEBOX_URL/v1/boxes" -d '{"user": "grace", "env": {"GREETING": "hello"}, "metadata": {"plan": "free"}}' | field id)
api "$CODEBOX_URL/v1/boxes/$id"; echo
# → "state":"ready"
# → "user":"grace"
# → "startup":{"kind":

# The same user's living box, wherever it was made.
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

# It can still be read: that tells why it is not there any more.
api "$CODEBOX_URL/v1/boxes/$id"; echo
# → "state":"deleted"
