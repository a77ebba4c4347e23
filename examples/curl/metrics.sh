#!/bin/sh
# Metrics: the Prometheus endpoint, which needs no key. A traceparent header makes a request part of a trace.
. "$(dirname "$0")/api.sh"
in_box

parent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
api -H "traceparent: $parent" "$BOX/executions" -d '{"code": "6 * 7"}' | field text
# → 42

until curl -sS "$CODEBOX_URL/metrics" | grep '^codebox_executions_total{status="ok"'; do sleep 0.2; done
# → codebox_executions_total{status="ok",cause="none",language="python"}
curl -sS "$CODEBOX_URL/metrics" | grep -E '^codebox_(boxes\{|database_up)'
# → codebox_boxes{state="ready"}

# Metrics are labelled by route, never by box, tenant or user.
curl -sS "$CODEBOX_URL/metrics" | grep '^codebox_http_request_duration_seconds_count.*executions'
# → route="/v1/boxes/{box}/executions",status="200"
