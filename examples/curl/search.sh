#!/bin/sh
# Search: files by name, lines by content.
. "$(dirname "$0")/api.sh"
in_box

printf 'import os\nTODO = "write it"\n' | api -T - "$BOX/files/src/main.py" -o /dev/null
printf 'todo: sleep\n' | api -T - "$BOX/files/notes.txt" -o /dev/null

api -G "$BOX/files:search" --data-urlencode 'name=*.py'; echo
# → "path":"src/main.py"
api -G "$BOX/files:search" --data-urlencode 'content=todo' -d caseSensitive=false; echo
# → "path":"notes.txt"
# → "line":2
api -G "$BOX/files:search" --data-urlencode 'content=(' || true; echo
# → "pointer":"/query/content"
