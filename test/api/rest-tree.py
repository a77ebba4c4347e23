# Creates (`make`) or describes (`show`) a tree that is hard to archive: odd names, modes, times, links and holes.
import hashlib
import os
import random
import stat
import sys

places = [os.getcwdb() + b"/tree", os.fsencode(os.environ["HOME"]) + b"/tree"]


def put(path: bytes, data: bytes, mode: int = 0o644, when: int = 1_600_000_000_123_456_789) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)
    os.utime(path, ns=(when, when))


def make(root: bytes, seed: int) -> None:
    chance = random.Random(seed)
    odd = [b"new\nline", b"\xff\xfe", b"-rf", b" ", b"a" * 255, "ü-日本".encode(), b"'\"$(x)", b".hidden"]
    for n in range(250):
        folder = root + b"/%d/" % (n % 17) + odd[n % len(odd)][:200]
        data = chance.randbytes(chance.choice([0, 1, 511, 4096, 70_000]))
        put(
            folder + b"/%d" % n + odd[n % 7][:250], data, chance.choice([0o644, 0o600, 0o755, 0o444, 0o000]), n * 10**15
        )
    os.makedirs(root + b"/empty/inner")
    os.symlink(b"/nowhere/\xff", root + b"/absolute")
    os.symlink(b"../tree", root + b"/loop")
    os.link(root + b"/0/new\nline/0new\nline", root + b"/hard")
    with open(root + b"/sparse", "wb") as file:
        file.truncate(100_000_000)
        file.seek(50_000_000)
        file.write(b"in the middle")
    os.mkfifo(root + b"/pipe")
    os.makedirs(root + b"/closed/in")
    os.chmod(root + b"/closed", 0o000)


def show(root: bytes) -> list[str]:
    os.chmod(root + b"/closed", 0o700)
    lines = []
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            what = ""
            if stat.S_ISREG(status.st_mode):
                os.chmod(path, 0o600)
                with open(path, "rb") as file:
                    what = f"{status.st_mtime_ns} {status.st_nlink} {hashlib.file_digest(file, 'sha256').hexdigest()}"
                os.chmod(path, stat.S_IMODE(status.st_mode))
            elif stat.S_ISLNK(status.st_mode):
                what = repr(os.readlink(path))
            lines.append(f"{path!r} {status.st_mode:o} {what}")
    os.chmod(root + b"/closed", 0o000)
    return sorted(lines)


if sys.argv[1] == "make":
    for seed, root in enumerate(places):
        make(root, seed)
lines = [line for root in places for line in show(root)]
print(len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest())
