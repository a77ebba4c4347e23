#!/bin/sh
# Input: reply to a program that waits for input.
. "$(dirname "$0")/api.sh"
in_box

id=$(api "$BOX/executions" -d '{"code": "name = input(\"Who? \")\nprint(\"Hello\", name)", "detach": true}' | field id)
until api "$BOX/executions/$id" | grep -q '"type":"input_request","prompt":"Who? "'; do sleep 0.1; done
api "$BOX/executions/$id/input" -d '{"text": "Ada"}'
api -N "$BOX/executions/$id/events"
# → "type":"input_request","prompt":"Who? ","password":false
# → "text":"Hello Ada\n"
