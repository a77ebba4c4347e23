#!/bin/sh
# Archives: download a folder as one file, extract an archive in the box; move, copy, and fetch a URL into the box.
. "$(dirname "$0")/api.sh"
in_box

api "$BOX/files" -F 'file=@-;filename=site/index.html' < /dev/null -o /dev/null
echo 'body {}' | api -T - "$BOX/files/site/css/main.css" -o /dev/null
api "$BOX/files" -d '{"op": "copy", "from": "site", "to": "backup/site"}'; echo
# → "path":"backup/site"
api "$BOX/files" -d '{"op": "move", "from": "backup/site/css/main.css", "to": "backup/site/css/old.css"}'; echo
# → "path":"backup/site/css/old.css"

api "$BOX/files/backup?as=tar" | tar -t | sort
# → site/css/old.css
# → site/index.html

api "$BOX/files/site?as=zip" | api -T - "$BOX/files/site.zip" -o /dev/null
api "$BOX/files" -d '{"op": "extract", "path": "site.zip", "to": "unpacked"}'; echo
# → "path":"unpacked"
api "$BOX/files/unpacked?recursive=true"; echo
# → "path":"unpacked/css/main.css"

# The box itself sends the request, so its network policy applies: without a network it reaches only its own servers.
api "$BOX/commands" -d '{"command": "python3 -m http.server --bind 127.0.0.1 --directory site 8000", "detach": true}' -o /dev/null
until api "$BOX/ports/8000/" -o /dev/null 2> /dev/null; do sleep 0.1; done
api "$BOX/files" -d '{"op": "fetch", "url": "http://127.0.0.1:8000/css/main.css", "path": "fetched.css"}'; echo
# → "path":"fetched.css"
api "$BOX/files/fetched.css"
# → body {}
