"""The distributions of modules whose names differ from their distribution's."""

from __future__ import annotations

# By the name in the import; the longest prefix counts. An unlisted module has the name of its distribution.
DISTRIBUTIONS: dict[str, str] = {
    "absl": "absl-py",
    "apiclient": "google-api-python-client",
    "attr": "attrs",
    "Bio": "biopython",
    "bs4": "beautifulsoup4",
    "bson": "pymongo",
    "cairo": "pycairo",
    "community": "python-louvain",
    "cpuinfo": "py-cpuinfo",
    "Crypto": "pycryptodome",
    "Cryptodome": "pycryptodomex",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "discord": "discord.py",
    "dns": "dnspython",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "engineio": "python-engineio",
    "factory": "factory-boy",
    "faiss": "faiss-cpu",
    "ffmpeg": "ffmpeg-python",
    "fitz": "pymupdf",
    "git": "gitpython",
    "github": "PyGithub",
    "gitlab": "python-gitlab",
    "google.auth": "google-auth",
    "google.cloud.bigquery": "google-cloud-bigquery",
    "google.cloud.firestore": "google-cloud-firestore",
    "google.cloud.pubsub": "google-cloud-pubsub",
    "google.cloud.storage": "google-cloud-storage",
    "google.genai": "google-genai",
    "google.generativeai": "google-generativeai",
    "google.oauth2": "google-auth",
    "google.protobuf": "protobuf",
    "googleapiclient": "google-api-python-client",
    "grpc": "grpcio",
    "grpc_tools": "grpcio-tools",
    "hydra": "hydra-core",
    "imblearn": "imbalanced-learn",
    "jose": "python-jose",
    "jwt": "pyjwt",
    "kafka": "kafka-python",
    "ldap": "python-ldap",
    "magic": "python-magic",
    "markdown_it": "markdown-it-py",
    "MeCab": "mecab-python3",
    "memcache": "python-memcached",
    "mpl_finance": "mplfinance",
    "mpl_toolkits.basemap": "basemap",
    "mysql.connector": "mysql-connector-python",
    "MySQLdb": "mysqlclient",
    "nacl": "pynacl",
    "odf": "odfpy",
    "OpenGL": "PyOpenGL",
    "OpenSSL": "pyopenssl",
    "osgeo": "gdal",
    "past": "future",
    "pdfminer": "pdfminer.six",
    "PIL": "pillow",
    "pkg_resources": "setuptools",
    "pptx": "python-pptx",
    "psycopg": "psycopg[binary]",
    "psycopg2": "psycopg2-binary",
    "pythonjsonlogger": "python-json-logger",
    "pywt": "PyWavelets",
    "rest_framework": "djangorestframework",
    "ruamel.yaml": "ruamel.yaml",
    "serial": "pyserial",
    "sgmllib": "sgmllib3k",
    "shapefile": "pyshp",
    "skfuzzy": "scikit-fuzzy",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "sklearn_extra": "scikit-learn-extra",
    "skopt": "scikit-optimize",
    "slugify": "python-slugify",
    "snappy": "python-snappy",
    "socketio": "python-socketio",
    "socks": "pysocks",
    "speech_recognition": "SpeechRecognition",
    "stdnum": "python-stdnum",
    "talib": "TA-Lib",
    "telegram": "python-telegram-bot",
    "tlz": "toolz",
    "umap": "umap-learn",
    "usb": "pyusb",
    "vcr": "vcrpy",
    "websocket": "websocket-client",
    "wx": "wxPython",
    "xdist": "pytest-xdist",
    "Xlib": "python-xlib",
    "yaml": "pyyaml",
    "z3": "z3-solver",
    "zmq": "pyzmq",
}

# Namespaces that many distributions share: only a longer name in the list identifies the distribution.
SHARED = frozenset({"azure", "google", "mpl_toolkits", "mysql", "opentelemetry", "ruamel", "zope"})


def distribution_of(names: list[str]) -> str | None:
    """Return the distribution of a module, of which `names` are the possible spellings, longest first.

    Returns None when it is unknown.
    """
    for name in names:
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            known = DISTRIBUTIONS.get(".".join(parts[:length]))
            if known is not None:
                return known
    top = names[-1].split(".")[0]
    return None if top in SHARED else top.replace("_", "-")
