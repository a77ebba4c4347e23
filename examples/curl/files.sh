#!/bin/sh
# Files: upload, download, ranges, and conditional writes.
. "$(dirname "$0")/api.sh"
in_box

# Uploads are streamed and atomic. Code finds the files in its working folder.
printf 'x,y\n1,1\n2,4\n' | api -T - "$BOX/files/data/table.csv"; echo
# → "path":"data/table.csv"
# → "sizeBytes":12
api "$BOX/executions" -d '{"code": "len(open(\"data/table.csv\").readlines())"}'; echo
# → "text":"3"

api "$BOX/files/data/table.csv"
# → 2,4
api -r 0-2 "$BOX/files/data/table.csv"; echo
# → x,y

# Upload several files in one request, then list the folder.
printf 'A' > "${TMPDIR:-/tmp}/codebox-a.$$"
api -F "file=@${TMPDIR:-/tmp}/codebox-a.$$;filename=data/a.txt" -F "file=@${TMPDIR:-/tmp}/codebox-a.$$;filename=data/b.txt" "$BOX/files"; echo
# → "path":"data/b.txt"
rm "${TMPDIR:-/tmp}/codebox-a.$$"
api "$BOX/files/data"; echo
# → "name":"a.txt"
# → "name":"b.txt"
# → "name":"table.csv"

# Overwrite a file only if it has not changed since it was read.
etag=$(api -I "$BOX/files/data/table.csv" | tr -d '\r' | sed -n 's/^etag: //Ip')
printf 'x,y\n' | api -T - -H "If-Match: $etag" "$BOX/files/data/table.csv" -o /dev/null
printf 'lost' | api -T - -H "If-Match: $etag" "$BOX/files/data/table.csv" || true; echo
# → "code":"precondition_failed"

api -X DELETE "$BOX/files/data"
api "$BOX/files/"; echo
# → "items":[]
