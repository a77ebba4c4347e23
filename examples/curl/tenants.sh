#!/bin/sh
# The admin API: tenants with quotas, keys with scopes, usage, and the audit log. Needs the admin key of the gateway. A deployment
# with an admin port serves this API only there.
. "$(dirname "$0")/api.sh"
: "${CODEBOX_ADMIN_KEY:?Set it to the admin key}" "${CODEBOX_ADMIN_URL:=$CODEBOX_URL}"

admin() { curl -sS --fail-with-body -H "Authorization: Bearer $CODEBOX_ADMIN_KEY" "$@"; }
TENANTS="$CODEBOX_ADMIN_URL/v1/admin/tenants"
KEYS="$CODEBOX_ADMIN_URL/v1/admin/keys"

TENANT=$(admin "$TENANTS" -d '{"name": "acme", "quotas": {"boxes": 1, "requestsPerMinute": 600}}' | field id)
trap 'admin -X DELETE "$TENANTS/$TENANT"' EXIT

# The key is returned only once. This one may only run code.
MADE=$(admin "$KEYS" -d '{"tenant": "'"$TENANT"'", "name": "backend", "scopes": ["run"], "expiresInSeconds": 86400}')
CODEBOX_KEY=$(echo "$MADE" | field key)
api -D - "$CODEBOX_URL/v1/run" -d '{"language": "python", "code": "6 * 7"}'; echo
# → "requests";q=600;w=60
# → "text":"42"
api "$CODEBOX_URL/v1/boxes" || true; echo
# → "detail":"This key lacks the scope boxes:read."

# Rotate the key; the old one stays valid for a minute.
KEY=$(admin "$KEYS/$(echo "$MADE" | field id)/rotate" -d '{"overlapSeconds": 60}' | field id)
admin -X PATCH "$TENANTS/$TENANT" -d '{"quotas": {"boxes": 0}}'; echo
# → "quotas":{"boxes":0,
api "$CODEBOX_URL/v1/run" -d '{"language": "python", "code": "6 * 7"}' || true; echo
# → "code":"quota_exceeded"
# → "quota":{"name":"boxes","limit":0,"used":0}

# Usage by day and user. A tenant reads its own at /v1/usage.
admin "$TENANTS/$TENANT/usage"; echo
# → "boxes":1,
# → "executions":1,

admin -X DELETE "$KEYS/$KEY"
admin "$CODEBOX_ADMIN_URL/v1/admin/audit?tenant=$TENANT"; echo
# → "action":"key.revoke"
# → "action":"tenant.update"
# → "action":"key.rotate"
# → "action":"key.create"
# → "action":"tenant.create"
