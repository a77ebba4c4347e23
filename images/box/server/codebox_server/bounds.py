"""Every limit of the box server, in one place. Sizes in bytes, times in seconds unless the name says otherwise."""

KIB = 1024
MIB = 1024 * KIB

# Streams (stdout and stderr together) of one run. The first half is sent live, the second half is a ring buffer.
STREAM_BYTES = 8 * MIB
STREAM_EVENTS = 10_000
# The most that a request may ask for instead. The limit on events grows with it.
STREAM_BYTES_MAX = 56 * MIB
# A run that writes this much is interrupted.
FLOOD_BYTES = 10 * STREAM_BYTES
FLOOD_EVENTS = 10 * STREAM_EVENTS

# Rich output (results, displays, errors) of one run.
RICH_BYTES = 16 * MIB
RICH_EVENTS = 10_000
# A display with a longer id cannot be updated.
DISPLAY_ID_CHARACTERS = 1000
# An event without data counts as this much output.
EVENT_BYTES = 64
# What a Jupyter client learns from the reply of a kernel only.
REPLY_BYTES = 4 * MIB
# JSON in one display event: MIME types, keys and values, and nesting levels. The gateway
# refuses events with 524,288 keys and values or more than 64 levels.
MIME_TYPES = 100
JSON_VALUES = 500_000
JSON_LEVELS = 60
TRACEBACK_BYTES = 1 * MIB
ERROR_FIELD_BYTES = 64 * KIB

# Stream text: the first chunk is sent at once, then one event for what follows within this time or up to this size.
COALESCE_SECONDS = 0.02
COALESCE_BYTES = 16 * KIB

# Events within this time reach a reader in one piece.
LINGER_SECONDS = 0.003

# The head of an event stream is sent after this time at the latest, with or without events.
HEAD_SECONDS = 0.05

# How much of the events of one run is sent over the connection that runs share, where the gateway buffers it. Each
# reply counts for this much more than its events. The gateway requests what exceeds the limit.
SHARED_RUN_BYTES = 256 * KIB
SHARED_REPLY_BYTES = KIB

# Journals of the whole box. The oldest finished runs are dropped first.
JOURNAL_BYTES = 64 * MIB
JOURNAL_RUNS = 2_000
RECEIVED_IDS = 20_000
REFUSED_IDS = 1_000

# Why a kernel did not start, with the end of what it has written to stderr. That is read in parts, with a pause after
# each full one, so that a kernel that writes without end does not keep the box server busy.
KERNEL_FAULT_CHARACTERS = 2_000
KERNEL_STDERR_CHARACTERS = 1_800
KERNEL_STDERR_READ_BYTES = 64 * KIB
KERNEL_STDERR_PAUSE_SECONDS = 0.01

# The wait for a network policy: how long it may take, and the failed attempts in a row that prove it.
BLOCKED_SECONDS = 30
BLOCKED_TRIES = 3
BLOCKED_TRY_SECONDS = 0.3
BLOCKED_PAUSE_SECONDS = 0.1

# TLS in front of the server: how long a handshake may take, and what one connection buffers in each direction.
TLS_HANDSHAKE_SECONDS = 10
TLS_BUFFER_BYTES = 64 * KIB

# Output of a kernel that the box server may not have received yet, kept in case the kernel dies.
FINAL_OUTPUT_BYTES = 4 * MIB

# ZeroMQ itself refuses larger messages of a kernel.
KERNEL_MESSAGE_BYTES = 64 * MIB
# How many messages are read from one kernel before other work gets its turn.
DRAIN_MESSAGES = 100

# How much may be buffered for a WebSocket client that does not read before it is disconnected.
SOCKET_BUFFER_BYTES = 32 * MIB

# How much lower the priority of all processes is than that of the box server. The server needs little CPU time, and so
# can still end runs in time and respond while hundreds of processes compete for the CPU.
NICE = 10

QUEUE_WAITING = 16
# How many executions a Jupyter client that connects again may find, and for how long after their end.
CLIENT_RUNS = 50
CLIENT_SECONDS = 3600.0
# The length of an id, a session or a name in the header of a Jupyter message.
HEADER_CHARACTERS = 200
# Executions of a context whose threads and tasks are recognised by their output: the latest ones, and those still
# writing.
ORIGINS_KNOWN = 1000
CONTEXTS = 16
COMMANDS_RUNNING = 64

# Notebooks: the size of a file, the cells in it, the outputs of one cell in its event, and the longest line that the
# process of a run may send.
NOTEBOOK_BYTES = 64 * MIB
NOTEBOOK_CELLS = 10_000
CELL_OUTPUT_BYTES = 1 * MIB
REPORT_LINE_BYTES = 4 * MIB
# An event of a cell without its outputs, and how often the file is written while its cells run.
REPORT_BYTES = 4 * KIB
NOTEBOOK_WRITE_SECONDS = 2.0

# Tunnels to servers inside the box. Each has one buffer per direction.
TUNNELS = 64
TUNNEL_BUFFER_BYTES = 64 * KIB
TUNNEL_PLACE_SECONDS = 1.0
TUNNEL_CONNECT_SECONDS = 5.0
# How long one side may be silent after the other has ended.
TUNNEL_HALF_OPEN_SECONDS = 60.0

# The fork server: how long a fork may take, how long it waits until the box is idle, how long it stays away after it
# ended, and the memory of a box below which there is none.
FORK_SECONDS = 10.0
FORK_SERVER_DELAY_SECONDS = 1.0
FORK_SERVER_PAUSE_SECONDS = 1.0
FORK_SERVER_PAUSE_SECONDS_MAX = 60.0
FORK_SERVER_MEMORY_BYTES = 384 * MIB

# Terminals: how much output of each is kept, how far its slowest client may fall behind before the terminal is held up,
# how much is read before others get their turn (and for how long), and how much is sent in one piece.
TERMINALS = 16
TERMINAL_SIDE_MAX = 1_000
SCREEN_BYTES = 256 * KIB
SCREEN_BEHIND_BYTES = 128 * KIB
TERMINAL_READ_BYTES = 64 * KIB
TERMINAL_BREATH_SECONDS = 0.002
TERMINAL_SEND_BYTES = 32 * KIB
# How much unread input of a terminal is buffered, and how long further input is held up before it is dropped.
TERMINAL_INPUT_BYTES = 1 * MIB
TERMINAL_INPUT_SECONDS = 10.0
# How long a full-screen program sees a different size, which makes it redraw its screen for a new client.
TERMINAL_NUDGE_SECONDS = 0.1

# Deadlines.
# How long a kernel may take to respond for the first time, and how often one run waits for that. The gateway waits for
# the same total.
KERNEL_START_SECONDS = 60.0
KERNEL_WAITS = 2
# How often a kernel that ends unexpectedly is restarted for one run.
KERNEL_ATTEMPTS = 3
VARIABLES_SECONDS = 6.0
# Deadlines for all saved variables, beyond those within the kernel, and how many that cannot be kept are named.
SAVE_VARIABLES_SECONDS = 75.0
CHECK_VARIABLES_SECONDS = 55.0
LOAD_VARIABLES_SECONDS = 50.0
FAULTS_LISTED = 200
# How long a build has the saved variables for itself, in case its gateway dies: no build may take longer.
HOLD_VARIABLES_SECONDS = 3600.0
PROOF_SECONDS = 20.0
ENVIRONMENT_SECONDS = 5.0
# Deadlines for warming up a box, and for changing its environment.
WARM_SECONDS = 60.0
BIND_SECONDS = 15.0
IDLE_GRACE_SECONDS = 2.0
KILL_AFTER_SECONDS = 2.0
# A kernel that was killed but still exists: how often it is killed again, and when the box ends for one that hangs in
# the host, and for any.
KILL_AGAIN_SECONDS = 0.5
EXIT_AFTER_SECONDS = 5.0
EXIT_AFTER_SECONDS_MAX = 25.0
EXIT_CODE_STUCK = 70
PING_SECONDS = 10.0
PIPE_DRAIN_SECONDS = 0.5
# How long connections have to close before the server ends.
CLOSE_SECONDS = 1.0
TRANSFER_STALL_SECONDS = 60.0

TIMEOUT_MS_MAX = 24 * 3600 * 1000
CPU_LIMIT_MS_MAX = 1_000_000_000_000

# How many processes that a run left behind are reported.
PROCESSES_REPORTED = 20
# The longest and shortest interval between checks of the CPU time of a run with a limit.
CPU_LOOK_SECONDS = (0.05, 1.0)
# A kernel that runs nothing and has used more than this share of a CPU in so many consecutive checks loses its process.
# Checks in quick succession count as one, as the host counts in hundredths of a second.
IDLE_CPU_SHARE = 0.02
IDLE_CPU_LOOKS = 2
IDLE_CPU_SECONDS_MIN = 1.0
# How long killed processes have to disappear, and how long new ones that appear meanwhile are killed too.
SWEEP_SECONDS = 0.5
SWEEP_SECONDS_MAX = 5.0
# For a box that may be full of processes: how often it is checked; after how many checks that find more refused forks
# something is done; how many other checks may lie between these (a shell waits some seconds before it tries again); and
# the share of the process limit that makes a run one of the culprits.
CROWD_LOOK_SECONDS = 0.5
CROWD_LOOKS = 2
CROWD_PATIENCE = 20
CROWD_SHARE = 0.25
# How long a request waits for room for its process.
ROOM_SECONDS = 2.0
# Processes that a run left behind are watched while they multiply or come and go, if there are this many.
LEFTOVER_MIN = 2
LEFTOVER_LOOK_SECONDS = 0.02
LEFTOVER_PAUSES = 3
LEFTOVER_PAUSES_FLEETING = 10
LEFTOVER_LOOKS = 50

# Requests.
JSON_BODY_BYTES = 16 * MIB
INPUT_BYTES = 1 * MIB
STDIN_BACKLOG_BYTES = 4 * MIB
ENV_BYTES = 128 * KIB
PATH_BYTES = 4096
NAME_BYTES = 255
LIST_LIMIT = 1_000
LIST_LIMIT_MAX = 10_000
LIST_DEPTH_MAX = 64

# File transfers.
CHUNK_BYTES = 1 * MIB
READ_BATCH_BYTES = 256 * KIB
# What is noted about one file, and each value.
METADATA_ENTRIES = 64
METADATA_BYTES = 4096
# How much of the body of a refused upload is read before the connection is closed.
DISCARD_BYTES = 64 * MIB
SMALL_FILE_BYTES = 256 * KIB

# Jobs on many files: copy, archive, extract, fetch, search.
JOBS_RUNNING = 8
JOB_SECONDS = 600.0
# After this, what an ended box has left unfinished in a file system of several boxes is removed.
SCRATCH_SECONDS = 86_400.0
# How long to wait for the removal of a folder, which then continues in the background.
REMOVE_SECONDS = 10.0
JOB_RESULT_BYTES = 4 * MIB
JOB_ERROR_BYTES = 64 * KIB
FETCH_SECONDS_MAX = 3600
FETCH_REDIRECTS = 10
FETCH_HEADERS = 64
ZIP_ENTRIES = 100_000
EXTRACT_ENTRIES = 200_000

# The checkpoint of a box: the size of the header before its files, and how many file modes the header lists.
PACK_HEAD_BYTES = 8 * MIB
PACK_MODES = 10_000

# Search. A page ends after some time with its results so far; a pattern that takes far longer is aborted.
SEARCH_SECONDS = 8.0
SEARCH_KILL_SECONDS = 16.0
SEARCH_PAGE_BYTES = 2 * MIB
SEARCH_BATCH_FILES = 128
SEARCH_BATCH_BYTES = 64 * MIB
SEARCH_FILE_BYTES = 256 * MIB
SEARCH_LINES_PER_FILE = 1_000
SEARCH_LINE_BYTES = 1 * MIB
SEARCH_TEXT_BYTES = 400
GLOB_STEPS = 4096

# The watch of the working folder: how much of the folder is known, and how many changes are kept for readers.
WATCH_FOLDERS = 4_096
WATCH_NAMES = 100_000
WATCH_CHANGES = 20_000
WATCH_BYTES = 8 * MIB
WATCH_READERS = 32
WATCH_WINDOW_SECONDS = 0.1
WATCH_POLL_SECONDS = 1.0

# The scan for changed files.
SCAN_ENTRIES = 10_000
SCAN_INLINE_ENTRIES = 1_000
SCAN_DEPTH = 64
# How many changed files are named in total.
SCAN_NAMES = 1_000

# Packages.
PACKAGES = 100
PACKAGE_SPEC = 300
PACKAGE_FIELD = 300
# How many installed packages one run reports.
PACKAGES_REPORTED = 1_000
# How many entries of one package folder are read.
PACKAGE_ENTRIES = 10_000
INSTALL_TEXT = 64 * KIB
# How much of the end of an installer's output is searched for its reason.
COMMAND_TAIL = 4 * KIB
# The length of code that is examined for whether it may run again.
RETRY_CODE = 256 * KIB
