#!/bin/sh
# The agent with curl: a chat with a file, a streamed answer, one call without a chat, and the OpenAI API.
#   CODEBOX_KEY=$(cat .codebox/dev-key) examples/agent/curl/agent.sh
. "$(dirname "$0")/../../curl/api.sh"
: "${CODEBOX_AGENT_URL:=http://localhost:8090}"

chat="$CODEBOX_AGENT_URL/v1/chats/$(api "$CODEBOX_AGENT_URL/v1/chats" -d '{}' | field id)"
printf 'city,inhabitants\nUlm,126000\nBonn,331000\n' | api -T - "$chat/files/cities.csv"; echo
# → Columns: city (text), inhabitants (integer)

# Stream the answer: text, code, output, files.
api -N -H 'Accept: text/event-stream' "$chat/messages" -d '{"content": "What is 6 * 7?", "files": ["cities.csv"]}'
# → event: code
# → "text":"42\n"
# → event: done

# Send a question, and get the answer with its code and files in one response.
api "$CODEBOX_AGENT_URL/v1/generate" -d '{"message": "Write the sum of 1 and 2 into a file."}'; echo
# → "content":"Three."
# → "name":"sum.csv"
# → "output":"made 3\n"

# The request that OpenAI clients send.
api "$CODEBOX_AGENT_URL/v1/chat/completions" -d '{"messages": [{"role": "user", "content": "Say bye."}]}'; echo
# → "content":"Bye."

api -X DELETE "$chat"
