"""Every limit of the box server, in one place. Sizes in bytes, times in seconds unless the name says otherwise."""

KIB = 1024
MIB = 1024 * KIB

# Streams (stdout and stderr together) of one run. The first half flows live, the second half is a ring.
STREAM_BYTES = 8 * MIB
STREAM_EVENTS = 10_000
# A run that writes this much is interrupted.
FLOOD_BYTES = 10 * STREAM_BYTES
FLOOD_EVENTS = 10 * STREAM_EVENTS

# Rich output (results, displays, errors) of one run.
RICH_BYTES = 16 * MIB
RICH_EVENTS = 10_000
# What is displayed as JSON, in one event: MIME types, keys and values, and brackets within brackets. The gateway
# refuses events with 524,288 keys and values or more than 64 levels.
MIME_TYPES = 100
JSON_VALUES = 500_000
JSON_LEVELS = 60
TRACEBACK_BYTES = 1 * MIB
ERROR_FIELD_BYTES = 64 * KIB

# Stream text: the first chunk at once, then one event for what follows within this time or up to this size.
COALESCE_SECONDS = 0.02
COALESCE_BYTES = 16 * KIB

# A reader gets what came within this time in one piece.
LINGER_SECONDS = 0.003

# The head of an event stream goes out after this at the latest, with events or without.
HEAD_SECONDS = 0.05

# Journals of the whole box. The oldest finished runs are forgotten first.
JOURNAL_BYTES = 64 * MIB
JOURNAL_RUNS = 2_000
RECEIVED_IDS = 20_000
REFUSED_IDS = 1_000

# What a kernel has written and the box server may not have heard yet, for the case that the kernel dies.
LAST_WORDS_BYTES = 4 * MIB

# A message of a kernel that is larger than this is refused by ZeroMQ itself.
KERNEL_MESSAGE_BYTES = 64 * MIB
# What is read from one kernel before other work gets its turn.
DRAIN_MESSAGES = 100

# What waits for a WebSocket client that does not read before it is cut off.
SOCKET_BUFFER_BYTES = 32 * MIB

# By how much all that is started comes after the box server when there is not enough CPU. Then the server, which needs
# little, still ends runs in time and answers while hundreds of processes want the CPU.
NICE = 10

QUEUE_WAITING = 16
# Executions of a context whose threads and tasks are known by what they write: the last ones, and those that still do.
ORIGINS_KNOWN = 1000
CONTEXTS = 16
COMMANDS_RUNNING = 64

# Tunnels to servers inside the box. Each has a buffer for either way.
TUNNELS = 64
TUNNEL_BUFFER_BYTES = 64 * KIB
TUNNEL_PLACE_SECONDS = 1.0
TUNNEL_CONNECT_SECONDS = 5.0
# How long one side may be silent after the other has ended.
TUNNEL_HALF_OPEN_SECONDS = 60.0

# The fork server: how long a kernel may take to come from it, how long it waits for the box to be idle, how long it
# stays away after its end, and the memory of a box below which there is none.
FORK_SECONDS = 10.0
FORK_SERVER_DELAY_SECONDS = 1.0
FORK_SERVER_PAUSE_SECONDS = 1.0
FORK_SERVER_PAUSE_SECONDS_MAX = 60.0
FORK_SERVER_MEMORY_BYTES = 384 * MIB

# Terminals: what is kept of the output of each, how far its slowest client may be behind before it is held up, how much
# is read before others get their turn (and for how long), and how much is sent in one piece.
TERMINALS = 16
TERMINAL_SIDE_MAX = 1_000
SCREEN_BYTES = 256 * KIB
SCREEN_BEHIND_BYTES = 128 * KIB
TERMINAL_READ_BYTES = 64 * KIB
TERMINAL_BREATH_SECONDS = 0.002
TERMINAL_SEND_BYTES = 32 * KIB
# What waits to be read by a program in a terminal, and for how long more of it is held up before it is dropped.
TERMINAL_INPUT_BYTES = 1 * MIB
TERMINAL_INPUT_SECONDS = 10.0
# How long a full-screen program sees another size, so that it draws its screen for a new client.
TERMINAL_NUDGE_SECONDS = 0.1

# Deadlines.
# What a kernel has to answer for the first time, and how often one run waits for that. The gateway waits for a run that
# long in all.
KERNEL_START_SECONDS = 60.0
KERNEL_WAITS = 2
# How often a kernel that ends by itself is started anew for one run.
KERNEL_ATTEMPTS = 3
VARIABLES_SECONDS = 6.0
PROOF_SECONDS = 20.0
ENVIRONMENT_SECONDS = 5.0
# All that a box does to be warm, and all that it does to have another environment.
WARM_SECONDS = 60.0
BIND_SECONDS = 15.0
IDLE_GRACE_SECONDS = 2.0
KILL_AFTER_SECONDS = 2.0
# A kernel that was killed and is still there: how often it is killed again, and when the box ends for one that hangs in
# the host, and for any.
KILL_AGAIN_SECONDS = 0.5
EXIT_AFTER_SECONDS = 5.0
EXIT_AFTER_SECONDS_MAX = 25.0
EXIT_CODE_STUCK = 70
PING_SECONDS = 10.0
PIPE_DRAIN_SECONDS = 0.5
# For connections to close before the server ends.
CLOSE_SECONDS = 1.0
TRANSFER_STALL_SECONDS = 60.0

TIMEOUT_MS_MAX = 24 * 3600 * 1000
CPU_LIMIT_MS_MAX = 1_000_000_000_000

# Processes that a run left and that are told.
PROCESSES_TOLD = 20
# How often the CPU time of a run with a limit is looked at, at most and at least.
CPU_LOOK_SECONDS = (0.05, 1.0)
# A kernel that runs nothing and has used more than this share of a CPU before so many looks in a row loses its process.
# Looks that come sooner one after the other are one: the host counts in hundredths of a second.
IDLE_CPU_SHARE = 0.02
IDLE_CPU_LOOKS = 2
IDLE_CPU_SECONDS_MIN = 1.0
# The time that processes have to go after they were killed, and for how long others are killed that come up meanwhile.
SWEEP_SECONDS = 0.5
SWEEP_SECONDS_MAX = 5.0
# How often a box is looked at that may be full of processes, after how many looks that find more of them refused
# something is done, how many other looks may lie between these (a shell waits some seconds before it tries again), and
# the part of what there may be that makes a run one of those to blame.
CROWD_LOOK_SECONDS = 0.5
CROWD_LOOKS = 2
CROWD_PATIENCE = 20
CROWD_SHARE = 0.25
# What a request waits for room for its process.
ROOM_SECONDS = 2.0
# What a run has left is looked at for as long as it becomes more or comes and goes, when it is so many processes.
BREEDING_MIN = 2
BREEDING_LOOK_SECONDS = 0.02
BREEDING_PAUSES = 3
BREEDING_PAUSES_FLEETING = 10
BREEDING_LOOKS = 50

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

# File transfer.
CHUNK_BYTES = 1 * MIB
READ_BATCH_BYTES = 256 * KIB
# What is read of the body of a refused upload before the connection is given up.
DISCARD_BYTES = 64 * MIB
SMALL_FILE_BYTES = 256 * KIB

# Jobs on many files: copy, archive, extract, fetch, search.
JOBS_RUNNING = 8
JOB_SECONDS = 600.0
# How long the removal of a folder is waited for; it goes on without anybody waiting.
REMOVE_SECONDS = 10.0
JOB_ANSWER_BYTES = 4 * MIB
JOB_ERROR_BYTES = 64 * KIB
FETCH_SECONDS_MAX = 3600
FETCH_REDIRECTS = 10
FETCH_HEADERS = 64
ZIP_ENTRIES = 100_000
EXTRACT_ENTRIES = 200_000

# A box that is put aside: what is told of it before its files, and the files whose modes are told there.
PACK_HEAD_BYTES = 8 * MIB
PACK_MODES = 10_000

# Search. A page ends after some time with what it has; a pattern that takes far longer is given up.
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

# The watch of the working folder: what is known of it, and the changes that are kept for readers.
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
# Changed files that are named in all.
SCAN_NAMES = 1_000

# Packages.
PACKAGES = 100
PACKAGE_SPEC = 300
PACKAGE_FIELD = 300
# Installed packages that one run names.
PACKAGES_TOLD = 1_000
# Entries of one folder of packages that are looked at.
PACKAGE_ENTRIES = 10_000
INSTALL_TEXT = 64 * KIB
# Code that is looked at to tell whether it may be run again.
RETRY_CODE = 256 * KIB
