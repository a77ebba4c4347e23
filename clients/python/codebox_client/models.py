# Generated from openapi.yaml by generate.py.

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, ConfigDict, Field
from typing_extensions import TypeAliasType

from codebox_client._model import Model, WithOutputs, WithStreams


class AuditEntry(Model):
    action: str
    """
    For example `tenant.create` or `key.revoke`.
    """
    actor: str
    """
    `admin`, or `gateway` for what the gateway did by itself.
    """
    at: AwareDatetime
    details: dict[str, Any]
    """
    The values that were set; never a key.
    """
    id: str
    request_id: str | None
    target: str
    """
    The id of the object that was changed.
    """
    tenant: str | None


class Startup(Model):
    """
    `warm` when the instance had been started before the request; and the time from the request until the box was ready.
    """

    kind: Literal["warm", "cold"]
    ms: int


class BoxCause(Model):
    code: Literal[
        "deleted",
        "idle",
        "expired",
        "start_failed",
        "cpu_limit",
        "instance_lost",
        "unresponsive",
        "memory_limit",
        "evicted",
        "preempted",
        "node_lost",
        "unschedulable",
        "image_unavailable",
        "gpu_unavailable",
        "volume_missing",
    ]
    detail: str


class Cpu(Model):
    limit_cpus: float
    limit_ms: int | None
    """
    The total that it may use (cpuSeconds); null without a limit.
    """
    used_ms: int
    """
    CPU time of all its processes since the box was started; with cpuSeconds, since it was ready to use.
    """


class Disk(Model):
    """
    The volume of the box; null when the box does not respond.
    """

    limit_bytes: int
    used_bytes: int


class Memory(Model):
    limit_bytes: int
    peak_bytes: int | None
    """
    Peak memory so far, including page cache; null if the host does not report it.
    """
    used_bytes: int
    """
    Memory in use, without page cache that can be dropped.
    """


class Pids(Model):
    """
    Processes and threads.
    """

    count: int
    limit: int


class BoxStats(Model):
    at: AwareDatetime
    """
    When it was measured.
    """
    cpu: Cpu
    disk: Disk | None
    """
    The volume of the box; null when the box does not respond.
    """
    memory: Memory
    oom_kills: int | None
    """
    Processes that were killed because memory ran out; null where the host does not count them.
    """
    pids: Pids
    """
    Processes and threads.
    """


class BoxVolume(Model):
    name: str
    path: str
    read_only: bool
    volume: str


class BuildEventStep(Model):
    seq: int
    text: str
    type: Literal["step"]


class BuildEventOutput(Model):
    seq: int
    text: str
    type: Literal["output"]


class BuildEventDone(Model):
    cause: str | None
    seq: int
    state: Literal["ready", "failed", "replaced"]
    type: Literal["done"]


BuildEvent = TypeAliasType("BuildEvent", BuildEventStep | BuildEventOutput | BuildEventDone)


class Quota(Model):
    """
    For cpu_limit, when the tenant has no CPU time left today: the tenant's quota, in seconds.
    """

    limit: int
    name: str
    used: int


class Cause(Model):
    code: str
    """
    timeout (stage is what it took to stop the run); cpu_limit (the status is timeout; with quota if it was the daily quota of the tenant, over all its boxes); output_limit; interrupted; signal (signal is its name); exit (exitCode is its code); oom (process is the one that ran out of memory); disk_full (usedBytes and limitBytes of the volume); pids_limit (the run filled the box with processes, and what it left running was ended); kernel_start (the kernel did not start or did not respond in time: no code has run); restarted, context_deleted (the context was restarted or deleted); box_… (the box has ended: box_deleted, box_idle, box_lost, box_memory_limit, box_unresponsive, …); not_started (none of the code has run or will run: retry); journal_lost, protocol_error, no_end (the box did not report the end); internal (the kernel or the box server failed, not the code; the status is killed).
    """
    detail: str
    exit_code: int | None = None
    limit_bytes: int | None = None
    """
    The limit of memory for oom, of the volume for disk_full.
    """
    peak_memory_bytes: int | None = None
    """
    The peak memory of the whole box until then.
    """
    process: Literal["kernel", "command", "child"] | None = None
    """
    Which process ran out of memory: the kernel with the variables, the command, or another process.
    """
    quota: Quota | None = None
    """
    For cpu_limit, when the tenant has no CPU time left today: the tenant's quota, in seconds.
    """
    signal: str | None = None
    stage: Literal["interrupt", "restart", "box"] | None = None
    """
    What it took to stop the run: an interrupt, a new kernel, or the end of the box.
    """
    used_bytes: int | None = None


class ChangedFiles(Model):
    complete: bool | None = None
    created: list[str]
    deleted: list[str]
    modified: list[str]


class Truncated(Model):
    """
    How many points and whole series were left out.
    """

    points: int
    series: int


class Tick(Model):
    label: str
    value: float


class ChartAxis(Model):
    label: str | None
    range: list[Any]
    """
    The visible range, from the start of the axis to its end: an inverted axis starts with the larger value.
    """
    scale: str
    """
    linear, log, symlog, logit, asinh or the name of another scale.
    """
    ticks: list[Tick] | None = None
    """
    Ticks with labels; for an axis of categories, all categories.
    """
    type: Literal["number", "category", "date"]


class ChartSeriesLine(Model):
    color: str | None
    label: str | None
    line: Literal["solid", "dashed", "dashdot", "dotted"]
    marker: str | None
    opacity: float | None = None
    step: Literal["pre", "mid", "post"] | None = None
    type: Literal["line"]
    width: float
    """
    Width in points.
    """
    x: list[float | str | None]
    y: list[float | str | None]


class ChartSeriesScatter(Model):
    """
    Points without a line; sizes in square points.
    """

    color: str | None
    colors: list[str | None] | None = None
    label: str | None
    marker: str | None
    opacity: float | None = None
    size: float | None = None
    sizes: list[float | None] | None = None
    type: Literal["scatter"]
    values: list[float | None] | None = None
    """
    The values that the colours represent.
    """
    x: list[float | str | None]
    y: list[float | str | None]


class ChartSeriesBar(Model):
    """
    Grouped bars differ in offset, stacked ones in base.
    """

    base: list[float | str | None]
    color: str | None
    colors: list[str | None] | None = None
    high: list[float | str | None] | None = None
    label: str | None
    low: list[float | str | None] | None = None
    """
    Where error bars start; high: where they end.
    """
    offset: list[float | None] | None = None
    """
    The distance of the middle from that category; left out when it is 0.
    """
    opacity: float | None = None
    orientation: Literal["vertical", "horizontal"]
    position: list[float | str | None]
    """
    The middle of each bar; on an axis of categories, the nearest category.
    """
    type: Literal["bar"]
    value: list[float | None]
    """
    The length of each bar; it ends at base + value.
    """
    width: list[float | None]
    """
    In units of the axis (days on an axis of dates); neighbouring categories are 1 apart.
    """


class ChartSeriesHistogram(Model):
    base: list[float | str | None]
    color: str | None
    edges: list[float | str | None]
    """
    The edges of the bins: one more than values.
    """
    label: str | None
    opacity: float | None = None
    orientation: Literal["vertical", "horizontal"]
    type: Literal["histogram"]
    value: list[float | str | None]


class ChartSeriesPie(Model):
    """
    All wedges of one ring, in order.
    """

    colors: list[str | None]
    fractions: list[float | None]
    """
    Shares of the circle.
    """
    inner_radius: float
    """
    The inner radius of a ring; 0 for a pie.
    """
    labels: list[str | None]
    radius: float
    type: Literal["pie"]
    values: list[float | None]
    """
    The values as plotted; for wedges drawn one by one, their fractions.
    """


class ChartSeriesBox(Model):
    """
    One box of a box plot.
    """

    color: str | None
    high: float | str | None
    label: str | None
    low: float | str | None
    """
    The end of the lower whisker; high: of the upper one.
    """
    mean: float | str | None
    """
    Null when the plot does not show it.
    """
    median: float | str | None
    offset: float | None = None
    opacity: float | None = None
    orientation: Literal["vertical", "horizontal"]
    outliers: list[float | str | None]
    position: float | str | None
    q1: float | str | None
    q3: float | str | None
    type: Literal["box"]


class ChartSeriesErrorbar(Model):
    color: str | None
    label: str | None
    line: bool
    """
    Whether a line joins the points.
    """
    marker: str | None
    opacity: float | None = None
    type: Literal["errorbar"]
    x: list[float | str | None]
    x_high: list[float | str | None] | None = None
    x_low: list[float | str | None] | None = None
    y: list[float | str | None]
    y_high: list[float | str | None] | None = None
    y_low: list[float | str | None] | None = None


class ChartSeriesArea(Model):
    """
    One region of fill_between, or one body of a violin plot.
    """

    color: str | None
    from_: list[float | str | None]
    label: str | None
    opacity: float | None = None
    orientation: Literal["vertical", "horizontal"]
    position: list[float | str | None]
    to: list[float | str | None]
    type: Literal["area"]


class ChartSeriesSegments(Model):
    """
    Straight lines that are not joined, such as those of hlines and vlines.
    """

    color: str | None
    label: str | None
    opacity: float | None = None
    type: Literal["segments"]
    x0: list[float | str | None]
    x1: list[float | str | None]
    y0: list[float | str | None]
    y1: list[float | str | None]


class ChartSeriesRule(Model):
    """
    A line across everything: axhline is horizontal, axvline vertical.
    """

    color: str | None
    label: str | None
    opacity: float | None = None
    orientation: Literal["vertical", "horizontal"]
    type: Literal["rule"]
    value: float | str | None


class ChartSeriesSpan(Model):
    """
    A band across everything: axvspan is vertical, from and to are along x.
    """

    color: str | None
    from_: float | str | None
    label: str | None
    opacity: float | None = None
    orientation: Literal["vertical", "horizontal"]
    to: float | str | None
    type: Literal["span"]


class ChartSeriesImage(Model):
    """
    An image or a heat map; its pixels are only in the PNG.
    """

    columns: int
    extent: list[float | None]
    """
    Left, right, bottom and top.
    """
    label: str | None
    rows: int
    type: Literal["image"]


class ChartSeriesUnknown(Model):
    """
    An artist that only the PNG shows, by matplotlib's name.
    """

    artist: str
    count: int
    type: Literal["unknown"]


ChartSeries = TypeAliasType(
    "ChartSeries",
    ChartSeriesLine
    | ChartSeriesScatter
    | ChartSeriesBar
    | ChartSeriesHistogram
    | ChartSeriesPie
    | ChartSeriesBox
    | ChartSeriesErrorbar
    | ChartSeriesArea
    | ChartSeriesSegments
    | ChartSeriesRule
    | ChartSeriesSpan
    | ChartSeriesImage
    | ChartSeriesUnknown,
)


class Checkpoint(Model):
    """
    When the files of the box were last stored outside it, and how many bytes they take there.
    """

    at: AwareDatetime
    size_bytes: int


class CommandStarted(Model):
    command: str | None = None
    """
    The id of the command, with which its events can be read again.
    """
    pid: int
    seq: int
    type: Literal["started"]


class CommandStderr(Model):
    seq: int
    text: str
    type: Literal["stderr"]


class CommandStdout(Model):
    seq: int
    text: str
    type: Literal["stdout"]


class Context(Model):
    created_at: AwareDatetime
    cwd: str
    """
    The folder where it was started, relative to /mnt/data; "" is /mnt/data itself.
    """
    default: bool
    """
    Whether executions that name only its language run here.
    """
    id: str
    language: str
    last_activity_at: AwareDatetime
    state: Literal["starting", "idle", "busy", "dead"]


class CreatedLink(Model):
    box: str
    created_at: AwareDatetime
    download: str | None
    expires_at: AwareDatetime
    id: str
    max_bytes: int | None
    method: Literal["GET", "PUT"]
    once: bool
    path: str
    url: str
    """
    A path at this gateway, which needs no key. It is a secret, and only in this response.
    """
    used_at: AwareDatetime | None
    """
    When a link with `once` was used.
    """


class CreatedWebhook(Model):
    created_at: AwareDatetime
    enabled: bool
    failing_since: AwareDatetime | None
    """
    Since when all deliveries have failed. After five days the webhook is disabled.
    """
    former_secret_until: AwareDatetime | None
    """
    Until when the secret before the last rotation signs too; null if it was never rotated.
    """
    id: str
    secret: str
    """
    Verifies the signatures. It is only in this response.
    """
    types: list[str]
    url: str


class ExecutionClear(Model):
    origin: str | None = None
    """
    The earlier execution of the context whose thread, task or timer produced this; absent for output of the execution itself.
    """
    seq: int
    type: Literal["clear"]
    wait: bool


class ExecutionDisplay(Model):
    display_id: str | None = None
    metadata: dict[str, Any] | None = None
    """
    What a program says about its data, by MIME type, such as the width and height of an image.
    """
    mime: dict[str, Any]
    """
    Data by MIME type; binary data is base64. `application/vnd.codebox.chart+json` is a Chart.
    """
    origin: str | None = None
    """
    The earlier execution of the context whose thread, task or timer produced this; absent for output of the execution itself.
    """
    seq: int
    type: Literal["display"]


class ExecutionDisplayUpdate(Model):
    display_id: str
    metadata: dict[str, Any] | None = None
    """
    What a program says about its data, by MIME type, such as the width and height of an image.
    """
    mime: dict[str, Any]
    """
    Data by MIME type; binary data is base64. `application/vnd.codebox.chart+json` is a Chart.
    """
    origin: str | None = None
    """
    The earlier execution of the context whose thread, task or timer produced this; absent for output of the execution itself.
    """
    seq: int
    type: Literal["display_update"]


class ExecutionInputRequest(Model):
    password: bool
    prompt: str
    seq: int
    type: Literal["input_request"]


class ExecutionReply(Model):
    """
    What a Jupyter client learns from the reply of its kernel: the values of its expressions, and requests such as to show a help text.
    """

    expressions: dict[str, dict[str, Any]]
    payload: list[dict[str, Any]]
    seq: int
    type: Literal["reply"]


class ExecutionResult(Model):
    main: Literal[True]
    metadata: dict[str, Any] | None = None
    """
    What a program says about its data, by MIME type, such as the width and height of an image.
    """
    mime: dict[str, Any]
    """
    Data by MIME type; binary data is base64. `application/vnd.codebox.chart+json` is a Chart.
    """
    seq: int
    type: Literal["result"]


class ExecutionStarted(Model):
    context: str
    execution: str | None = None
    """
    The id of the execution, with which its events can be read again.
    """
    execution_count: int | None = None
    language: str
    seq: int
    type: Literal["started"]


class ExecutionStderr(Model):
    origin: str | None = None
    """
    The earlier execution of the context whose thread, task or timer produced this; absent for output of the execution itself.
    """
    seq: int
    text: str
    type: Literal["stderr"]


class ExecutionStdout(Model):
    origin: str | None = None
    """
    The earlier execution of the context whose thread, task or timer produced this; absent for output of the execution itself.
    """
    seq: int
    text: str
    type: Literal["stdout"]


class ExportFailure(Model):
    code: Literal[
        "not_found",
        "too_large",
        "too_many_files",
        "refused",
        "unreachable",
        "box_unavailable",
        "timeout",
        "canceled",
        "interrupted",
        "internal",
    ]
    """
    `refused`: the store responded with an error; `unreachable`: it did not respond, or is at an address that may not be reached; `interrupted`: the gateway ended meanwhile.
    """
    detail: str
    path: str | None
    """
    The file or folder that failed, if it was one.
    """


class ExportSummary(Model):
    box: str
    created_at: AwareDatetime
    ended_at: AwareDatetime | None
    failure: ExportFailure | None
    file_count: int
    """
    How many files have arrived, each as a whole.
    """
    id: str
    size_bytes: int
    """
    The size of these files.
    """
    skipped: int
    """
    Entries of folders that are no files, such as symbolic links.
    """
    state: Literal["running", "done", "failed"]
    to: str | None
    """
    The URL of the bucket and its folder; null for an export to URLs.
    """


class ExportedFile(Model):
    encoded_path: str | None = None
    """
    Only for a name that is not UTF-8, which has U+FFFD in `path`: its bytes, percent-encoded, as in the URL of the file.
    """
    etag: str | None
    """
    The ETag that the store returned.
    """
    key: str | None
    """
    Its key in the bucket.
    """
    path: str
    size_bytes: int


class FileEntry(Model):
    encoded_path: str | None = None
    """
    Only for a name that is not UTF-8, which has U+FFFD in `path`: its bytes, percent-encoded, as in the URL of the file.
    """
    etag: str | None = None
    metadata: dict[str, str] | None = None
    """
    What a client of the dialect e2b has noted about the file.
    """
    mode: int | None = None
    """
    The permission bits, as a number.
    """
    modified_at: AwareDatetime
    name: str
    path: str
    """
    Relative to /mnt/data.
    """
    size_bytes: int
    target: str | None = None
    """
    Where a symbolic link leads, as an absolute path.
    """
    type: Literal["file", "directory", "symlink", "other"]


class InstalledPackage(Model):
    name: str
    version: str


KeyScope = TypeAliasType("KeyScope", Literal["boxes:read", "boxes:write", "run", "files", "usage"])
"""
`boxes:read`: read boxes, templates, volumes, runs and their outputs. `boxes:write`: create, change and delete boxes and volumes; creating one with packages or files needs `run` or `files` as well. `run`: run code and commands, install packages, connect to terminals and ports, `POST /v1/run`. `files`: read and write files. `usage`: read usage.
"""


class LeftProcess(Model):
    age_ms: int | None = None
    command: str
    memory_bytes: int
    pid: int


LeftProcesses = TypeAliasType("LeftProcesses", list[LeftProcess] | None)
"""
Processes that the run started and that still run, including daemons: at most 20, largest first.
"""


class Limits(Model):
    model_config = ConfigDict(
        extra="forbid",
    )
    cpu_seconds: float | None = None
    """
    CPU time of everything in the box over its whole life, including its start (some seconds); without it there is no limit. Once it is spent, runs end with cause cpu_limit and new ones are refused (403 cpu_limit); files stay accessible. A box that uses 5 s plus 10 % more is deleted.
    """
    cpus: float
    """
    Number of CPUs; a fraction is a share of one CPU.
    """
    disk_mb: int
    """
    The volume that holds the working folder and the home folder.
    """
    memory_mb: int
    """
    Memory in MiB, page cache included; no swap.
    """
    pids: int
    """
    Processes and threads.
    """


class Link(Model):
    box: str
    created_at: AwareDatetime
    download: str | None
    expires_at: AwareDatetime
    id: str
    max_bytes: int | None
    method: Literal["GET", "PUT"]
    once: bool
    path: str
    used_at: AwareDatetime | None
    """
    When a link with `once` was used.
    """


class MissingLibraryHint(Model):
    """
    The program needs a library of the system that its image lacks.
    """

    code: Literal["missing_library"]
    detail: str
    library: str
    """
    The file or the name of the library, such as `libpango-1.0-0`.
    """


NetworkPolicy = TypeAliasType("NetworkPolicy", Literal["none", "internet"])


class NewApiKey(Model):
    created_at: AwareDatetime
    expires_at: AwareDatetime | None
    id: str
    key: str
    """
    The key itself. It is returned only once: the gateway keeps only its hash.
    """
    name: str
    revoked_at: AwareDatetime | None
    scopes: list[KeyScope]
    state: Literal["active", "expired", "revoked"]
    tenant: str


class NotebookCell(Model):
    """
    A code cell of a notebook begins or has ended.
    """

    cells: int
    """
    How many cells the notebook has, those with text included.
    """
    duration_ms: float | None = None
    execution_count: int | None = None
    id: str | None
    index: int
    """
    The place of the cell among all cells of the notebook, from 0.
    """
    outputs: list[dict[str, Any]] | None = None
    """
    The outputs of a cell that has ended, as in the file; null when they are larger than 1 MiB, and then only the file has them.
    """
    seq: int
    status: Literal["running", "ok", "error"]
    type: Literal["cell"]


OnIdle = TypeAliasType("OnIdle", Literal["delete", "pause", "hibernate"])
"""
What happens to an idle box: it is deleted with its files, it is frozen with its variables, or only its files are kept.
"""


class OutputTruncated(Model):
    """
    Output was dropped at this point because the run printed more than is kept.
    """

    dropped_bytes: int
    dropped_events: int
    seq: int
    type: Literal["truncated"]


class Package(Model):
    name: str
    source: Literal["image", "user"]
    """
    Whether it came with the box or was installed in it.
    """
    version: str


PackageManager = TypeAliasType("PackageManager", Literal["pip", "npm"])


class Quotas(Model):
    model_config = ConfigDict(
        extra="forbid",
    )
    boxes: int | None
    """
    Boxes that have not ended.
    """
    concurrent_executions: int | None
    """
    Executions that run or wait in a queue; commands and installers do not count.
    """
    cpu_seconds_per_day: int | None
    """
    CPU time of all boxes in a day (UTC). Once it is spent, everything that runs in them is ended and nothing new is run.
    """
    requests_per_minute: int | None
    """
    Requests to the API and to ports of boxes, and each operation sent over the WebSocket of executions. Any other WebSocket counts once, when it is opened.
    """
    storage_mb: int | None
    """
    Sum of the disk limits of all boxes that have not ended, and of the sizes of all volumes.
    """
    templates: int | None
    """
    Templates that the tenant has built; 0 forbids it to. Without this quota there may be 100.
    """


class RestartKernelHint(Model):
    """
    Kernels that run do not use a package that the box has now: they need a restart.
    """

    code: Literal["restart_kernel"]
    detail: str
    manager: PackageManager
    package: str
    version: str | None = None
    """
    The version of the image, which running kernels may still use, if it has the package.
    """


class RunFile(Model):
    base64: str | None
    """
    Null for a file over 4 MiB, or beyond 16 MiB in total, and with `"returnFiles": "names"`.
    """
    change: Literal["created", "modified"]
    path: str
    size_bytes: int


class SearchMatch(Model):
    column: int | None = None
    """
    The position of the first match, in bytes, from 1.
    """
    encoded_path: str | None = None
    """
    Only for a name that is not UTF-8, which has U+FFFD in `path`: its bytes, percent-encoded, as in the URL of the file.
    """
    line: int | None = None
    path: str
    text: str | None = None
    """
    The line, cut to 400 bytes.
    """
    type: Literal["file", "directory", "symlink", "other"] | None = None


class Gpus(Model):
    """
    The GPUs of each box; null for none.
    """

    count: int
    kind: str
    """
    `nvidia.com/gpu` for whole ones, or the name of a share of one.
    """


class Template(Model):
    gpus: Gpus | None
    """
    The GPUs of each box; null for none.
    """
    idle_seconds: int
    language: str
    """
    The language of code that names none.
    """
    languages: list[str] | None
    """
    What its boxes run, the default first; null until an instance of its current image has been started.
    """
    limits: Limits
    max_lifetime_seconds: int
    max_limits: Limits
    name: str
    network: NetworkPolicy
    version: int | None
    """
    The version that boxes are created from; null for a template of the operator.
    """
    warm: int
    """
    How many instances are kept running, ready to become boxes at once.
    """


class TemplateContent(Model):
    name: str
    version: str


class TemplateDetail(Model):
    """
    `packages` and `programs` are null until an instance of the current image has been started.
    """

    gpus: Gpus | None
    """
    The GPUs of each box; null for none.
    """
    idle_seconds: int
    language: str
    """
    The language of code that names none.
    """
    languages: list[str] | None
    """
    What its boxes run, the default first; null until an instance of its current image has been started.
    """
    limits: Limits
    max_lifetime_seconds: int
    max_limits: Limits
    name: str
    network: NetworkPolicy
    packages: list[TemplateContent] | None
    """
    The Python packages, including dependencies, by name.
    """
    programs: list[TemplateContent] | None
    """
    Programs that code often uses; with the local driver they are those of the host.
    """
    version: int | None
    """
    The version that boxes are created from; null for a template of the operator.
    """
    warm: int
    """
    How many instances are kept running, ready to become boxes at once.
    """


class TemplateVersion(Model):
    cause: str | None
    """
    Why the build failed.
    """
    created_at: AwareDatetime
    finished_at: AwareDatetime | None
    size_bytes: int | None
    """
    The size of its stored files.
    """
    state: Literal["building", "ready", "failed", "replaced"]
    """
    New boxes are created from the version that is `ready`. It is `replaced` once a later one is; boxes that exist stay.
    """
    template: str
    version: int


class Tenant(Model):
    created_at: AwareDatetime
    id: str
    name: str
    quotas: Quotas
    state: Literal["active", "suspended", "deleted"]


class Terminal(Model):
    box: str
    clients: int
    """
    How many clients are attached now.
    """
    cols: int
    created_at: AwareDatetime
    cwd: str
    """
    The folder where it was started, relative to /mnt/data; "" is /mnt/data itself, and a folder outside of it is absolute.
    """
    id: str
    pid: int
    """
    The process id of its shell inside the box.
    """
    rows: int


class Ticket(Model):
    expires_at: AwareDatetime
    ticket: str


class Usage(Model):
    box_seconds: float
    """
    Time during which boxes existed, including paused boxes but not hibernated ones.
    """
    boxes: int
    """
    Boxes that became ready.
    """
    cpu_ms: float
    """
    CPU time of everything in the boxes, as the host counts it.
    """
    day: date
    executions: int
    """
    Executions that ended, with any status.
    """
    peak_memory_bytes: float
    """
    The peak memory of a single box.
    """
    user: str | None
    """
    Null for boxes without a user.
    """
    wall_ms: float
    """
    Their run time.
    """


class Variable(Model):
    length: int | None = None
    name: str
    preview: str
    """
    The beginning of the value as text, or its class when it cannot be shown.
    """
    shape: list[int] | None = None
    """
    The shape of an array or a table.
    """
    size_bytes: int | None = None
    """
    The size of the object itself, without the objects that it refers to.
    """
    type: str
    """
    The name of its class.
    """


class Volume(Model):
    created_at: AwareDatetime
    id: str
    name: str
    size_mb: int
    user: str | None


class WatchEnd(Model):
    """
    The last event: the box has ended.
    """

    cause: Cause
    type: Literal["end"]
    version: int


class WatchReady(Model):
    """
    The first event: all following changes happened after this version.
    """

    complete: bool
    """
    False when there are more folders than can be watched.
    """
    mode: Literal["inotify", "polling"]
    type: Literal["ready"]
    version: int


class WatchRemove(Model):
    path: str
    type: Literal["remove"]
    version: int


class WatchRename(Model):
    """
    A folder moves with its contents; an earlier entry at `path` is replaced.
    """

    entry: FileEntry | None = None
    from_: str
    path: str
    type: Literal["rename"]
    version: int


class WatchReset(Model):
    """
    Changes are missing: list the folder anew. Either the changes after `after` are no longer known; or the reader was too slow, and the stream ends; or there are more folders than can be watched; or a scan failed.
    """

    reason: Literal["forgotten", "slow", "limit", "lost"]
    type: Literal["reset"]
    version: int


class WatchWrite(Model):
    entry: FileEntry | None = None
    path: str
    type: Literal["create", "write"]
    version: int


class Webhook(Model):
    created_at: AwareDatetime
    enabled: bool
    failing_since: AwareDatetime | None
    """
    Since when all deliveries have failed. After five days the webhook is disabled.
    """
    former_secret_until: AwareDatetime | None
    """
    Until when the secret before the last rotation signs too; null if it was never rotated.
    """
    id: str
    types: list[str]
    url: str


class WebhookDelivery(Model):
    attempts: int
    created_at: AwareDatetime
    delivered_at: AwareDatetime | None
    id: str
    """
    The `webhook-id` of all its attempts.
    """
    last_error: str | None
    last_status: int | None
    """
    The HTTP status of the last response.
    """
    next_attempt_at: AwareDatetime | None
    payload: dict[str, Any]
    """
    The body: `type`, `timestamp` and `data`.
    """
    state: Literal["pending", "delivered", "failed"]
    type: str


class ApiKey(Model):
    created_at: AwareDatetime
    expires_at: AwareDatetime | None
    id: str
    name: str
    revoked_at: AwareDatetime | None
    scopes: list[KeyScope]
    state: Literal["active", "expired", "revoked"]
    tenant: str


class Box(Model):
    cause: BoxCause | None = None
    checkpoint: Checkpoint | None
    continuity: Literal["new", "reused", "restored", "lost"]
    """
    What the caller gets: a new box, the same box as before, a box with the earlier files but without the earlier variables (since `restoredAt`), or a box whose files and variables are lost.
    """
    created_at: AwareDatetime
    expires_at: AwareDatetime
    id: str
    idle_seconds: int
    last_active_at: AwareDatetime
    limits: Limits
    metadata: dict[str, str]
    name: str | None
    network: NetworkPolicy
    on_idle: OnIdle
    restored_at: AwareDatetime | None
    startup: Startup | None
    """
    `warm` when the instance had been started before the request; and the time from the request until the box was ready.
    """
    state: Literal["creating", "ready", "paused", "hibernated", "deleting", "deleted", "failed", "lost"]
    template: str
    user: str | None
    volumes: Annotated[list[BoxVolume], Field(validate_default=True)] = []


class Caller(Model):
    key: str
    """
    The id of the key, which is not a secret.
    """
    scopes: list[KeyScope] | None
    """
    What the key may do; null for everything.
    """
    tenant: str


class ChartAxes(Model):
    bars: Literal["single", "grouped", "stacked", "overlaid"] | None = None
    bounds: list[Any]
    """
    Left, bottom, width and height as shares of the figure.
    """
    legend: bool
    projection: str
    """
    rectilinear; polar, where x is the angle; or another one.
    """
    series: list[ChartSeries]
    shares: Literal["x", "y"] | None = None
    """
    The axis that the two have in common.
    """
    title: str | None
    twin_of: int | None = None
    """
    The index of the axes that these axes overlay with a y axis (or x axis) of their own.
    """
    x: ChartAxis
    y: ChartAxis


class ExecutionDone(Model):
    cause: Cause | None = None
    cpu_ms: float | None = None
    duration_ms: float
    execution_count: int | None = None
    files: ChangedFiles | None = None
    peak_memory_bytes: int | None = None
    processes: LeftProcesses | None = None
    queued_ms: float | None = None
    seq: int
    state_lost: bool
    """
    Whether the variables of the context are lost.
    """
    status: Literal["ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]
    type: Literal["done"]


class ExecutionInstall(Model):
    exit_code: int | None
    manager: PackageManager
    packages: list[InstalledPackage]
    seq: int
    text: str
    type: Literal["install"]


class ExecutionSummary(Model):
    box: str
    cause: Cause | None = None
    context: str | None
    cpu_ms: float | None
    created_at: AwareDatetime
    duration_ms: float | None
    execution_count: int | None
    files: ChangedFiles | None
    finished_at: AwareDatetime | None
    id: str
    language: str | None
    last_seq: int
    peak_memory_bytes: int | None
    processes: LeftProcesses
    queued_ms: float | None
    started_at: AwareDatetime | None
    """
    Null while it waits for others in its context.
    """
    state_lost: bool
    status: Literal["running", "ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]


class Export(Model):
    box: str
    created_at: AwareDatetime
    ended_at: AwareDatetime | None
    failure: ExportFailure | None
    file_count: int
    """
    How many files have arrived, each as a whole.
    """
    files: list[ExportedFile]
    """
    The files that have arrived, once the export has ended. They are fewer than `fileCount` if their list would have more than 1 MiB, or if the gateway that exported them ended.
    """
    id: str
    size_bytes: int
    """
    The size of these files.
    """
    skipped: int
    """
    Entries of folders that are no files, such as symbolic links.
    """
    state: Literal["running", "done", "failed"]
    to: str | None
    """
    The URL of the bucket and its folder; null for an export to URLs.
    """


class PackageConflictHint(Model):
    """
    The installer refused the versions of packages.
    """

    code: Literal["package_conflict"]
    detail: str
    manager: PackageManager
    package: str
    version: str | None = None
    """
    The only version that this box can have.
    """


class PackageHint(Model):
    code: Literal["install_package"]
    detail: str
    manager: PackageManager
    module: str
    """
    The module that the program imports.
    """
    package: str
    """
    What to install: `packages: [package]`.
    """


WatchEvent = TypeAliasType(
    "WatchEvent",
    Annotated[
        WatchReady | WatchWrite | WatchRemove | WatchRename | WatchReset | WatchEnd,
        Field(discriminator="type"),
    ],
)


class Chart(Model):
    axes: list[ChartAxes]
    height: int
    title: str | None
    truncated: Truncated | None = None
    """
    How many points and whole series were left out.
    """
    version: Literal[1]
    width: int
    """
    In pixels, as height.
    """


Hint = TypeAliasType(
    "Hint",
    Annotated[
        PackageHint | PackageConflictHint | RestartKernelHint | MissingLibraryHint,
        Field(discriminator="code"),
    ],
)


InstallationHint = TypeAliasType(
    "InstallationHint",
    Annotated[PackageConflictHint | RestartKernelHint, Field(discriminator="code")],
)


class RunError(Model):
    hint: Hint | None = None
    name: str
    traceback: list[str]
    value: str


class CommandDone(Model):
    cause: Cause | None = None
    cpu_ms: float | None = None
    duration_ms: float
    exit_code: int | None
    files: ChangedFiles | None = None
    hint: InstallationHint | None = None
    installed: list[InstalledPackage] | None = None
    """
    Packages that an installation added or changed.
    """
    processes: LeftProcesses | None = None
    seq: int
    signal: str | None
    status: Literal["ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]
    type: Literal["done"]


CommandEvent = TypeAliasType(
    "CommandEvent",
    Annotated[
        CommandStarted | CommandStdout | CommandStderr | NotebookCell | OutputTruncated | CommandDone,
        Field(discriminator="type"),
    ],
)


class CommandSummary(Model):
    argv: list[str] | None
    box: str
    cause: Cause | None = None
    command: str | None
    cpu_ms: float | None
    cwd: str
    """
    The folder where it was started, relative to /mnt/data; "" is /mnt/data itself, and a folder outside of it is absolute.
    """
    duration_ms: float | None
    exit_code: int | None
    files: ChangedFiles | None
    hint: InstallationHint | None = None
    id: str
    installed: list[InstalledPackage] | None = None
    """
    For an installation: the packages that it added or changed.
    """
    last_seq: int
    pid: int | None
    processes: LeftProcesses
    signal: str | None
    status: Literal["running", "ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]


class ExecutionError(Model):
    hint: Hint | None = None
    name: str
    seq: int
    traceback: list[str]
    type: Literal["error"]
    value: str


ExecutionEvent = TypeAliasType(
    "ExecutionEvent",
    Annotated[
        ExecutionStarted
        | ExecutionStdout
        | ExecutionStderr
        | OutputTruncated
        | ExecutionResult
        | ExecutionDisplay
        | ExecutionDisplayUpdate
        | ExecutionClear
        | ExecutionInputRequest
        | ExecutionError
        | ExecutionInstall
        | ExecutionReply
        | ExecutionDone,
        Field(discriminator="type"),
    ],
)


class RunStepResult(Model):
    cause: Cause | None = None
    cpu_ms: float | None
    """
    CPU time of the run; null if the box does not report it.
    """
    duration_ms: float
    error: RunError | None
    exit_code: int | None
    """
    The exit code of a program; null for code in a kernel.
    """
    outputs: list[
        ExecutionStarted
        | ExecutionStdout
        | ExecutionStderr
        | OutputTruncated
        | ExecutionResult
        | ExecutionDisplay
        | ExecutionDisplayUpdate
        | ExecutionClear
        | ExecutionInputRequest
        | ExecutionError
        | ExecutionInstall
        | ExecutionReply
        | ExecutionDone
        | CommandStarted
        | CommandStdout
        | CommandStderr
        | NotebookCell
        | CommandDone
    ]
    signal: str | None
    """
    The signal that ended a program, such as SIGSEGV; null for code in a kernel.
    """
    status: Literal["ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]
    stderr: str
    stdout: str
    text: str | None


class Command(Model):
    argv: list[str] | None
    box: str
    cause: Cause | None = None
    command: str | None
    cpu_ms: float | None
    cwd: str
    """
    The folder where it was started, relative to /mnt/data; "" is /mnt/data itself, and a folder outside of it is absolute.
    """
    duration_ms: float | None
    exit_code: int | None
    files: ChangedFiles | None
    hint: InstallationHint | None = None
    id: str
    installed: list[InstalledPackage] | None = None
    """
    For an installation: the packages that it added or changed.
    """
    last_seq: int
    outputs: list[CommandEvent]
    """
    Both streams in order: every event except started and done.
    """
    pid: int | None
    processes: LeftProcesses
    signal: str | None
    status: Literal["running", "ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]
    stderr: str
    stdout: str


class Execution(WithStreams):
    box: str
    cause: Cause | None = None
    context: str | None
    cpu_ms: float | None
    created_at: AwareDatetime
    duration_ms: float | None
    error: RunError | None
    execution_count: int | None
    files: ChangedFiles | None
    finished_at: AwareDatetime | None
    id: str
    language: str | None
    last_seq: int
    outputs: list[ExecutionEvent] | None
    """
    All outputs in order: every event except started and done. Null when the box no longer has them.
    """
    peak_memory_bytes: int | None
    processes: LeftProcesses
    queued_ms: float | None
    started_at: AwareDatetime | None
    """
    Null while it waits for others in its context.
    """
    state_lost: bool
    status: Literal["running", "ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]
    text: str | None
    """
    The plain text of the main result.
    """


class Run(WithOutputs):
    cause: Cause | None = None
    cpu_ms: float | None
    """
    CPU time of the run; null if the box does not report it.
    """
    duration_ms: float
    error: RunError | None
    exit_code: int | None
    """
    The exit code of a program; null for code in a kernel.
    """
    files: list[RunFile]
    """
    Files that the run created or changed.
    """
    outputs: list[
        ExecutionStarted
        | ExecutionStdout
        | ExecutionStderr
        | OutputTruncated
        | ExecutionResult
        | ExecutionDisplay
        | ExecutionDisplayUpdate
        | ExecutionClear
        | ExecutionInputRequest
        | ExecutionError
        | ExecutionInstall
        | ExecutionReply
        | ExecutionDone
        | CommandStarted
        | CommandStdout
        | CommandStderr
        | NotebookCell
        | CommandDone
    ]
    signal: str | None
    """
    The signal that ended a program, such as SIGSEGV; null for code in a kernel.
    """
    status: Literal["ok", "error", "timeout", "interrupted", "oom", "killed", "output_limit", "lost"]
    stderr: str
    stdout: str
    steps: list[RunStepResult] | None = None
    """
    For a request with `steps`: the result of each step that ran. The other fields are those of the last.
    """
    text: str | None
