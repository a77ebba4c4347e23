#!/bin/sh
# Variables: list the variables of a context without running code in it.
. "$(dirname "$0")/api.sh"
in_box

api "$BOX/executions" -d '{"code": "import pandas as pd\nname = \"Ada\"\ntable = pd.DataFrame({\"a\": [1, 2, 3]})"}' -o /dev/null
context=$(api "$BOX/contexts" | field id)
api "$BOX/contexts/$context/variables"; echo
# → "name":"name","type":"str"
# → "name":"table","type":"DataFrame","shape":[3,1]
