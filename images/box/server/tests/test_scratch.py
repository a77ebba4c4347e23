"""What uploads to other file systems than that of the working folder leave behind."""

import os
import time
import uuid
from pathlib import Path

from codebox_server.files.removal import remove_older
from codebox_server.files.scratch import scratch_for


def test_what_an_ended_box_has_left_is_removed_in_time(tmp_path: Path) -> None:
    scratch = Path(scratch_for(f"/dev/shm/box-{uuid.uuid4().hex}", str(tmp_path)))
    assert scratch == Path("/dev/shm/.codebox-upload")
    left, kept = scratch / f"left-{uuid.uuid4().hex}", scratch / f"kept-{uuid.uuid4().hex}"
    (left / "folder").mkdir(parents=True)
    (left / "folder/link").symlink_to(tmp_path)
    (tmp_path / "f").touch()
    deadline = time.time()
    time.sleep(0.05)
    kept.touch()
    os.utime(kept, (0, 0))
    remove_older(str(scratch), deadline + 0.02)
    assert (left.exists(), kept.exists(), (tmp_path / "f").exists()) == (False, True, True)
    kept.unlink()
