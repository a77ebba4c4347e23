#!/bin/sh
# Charts: a matplotlib figure is returned as PNG and as data, from which an app can draw its own chart.
. "$(dirname "$0")/api.sh"
in_box

api "$BOX/executions" -d '{"code": "import matplotlib.pyplot as plt\nplt.bar([\"a\", \"b\"], [3, 5], label=\"sold\")\nplt.title(\"Sales\")", "timeoutSeconds": 120}' |
  grep -o '"application/vnd.codebox.chart+json":.*'
# → "title":"Sales"
# → "type":"bar"
