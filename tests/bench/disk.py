"""What the disk does: the floor below every durable write, and how often a store has committed."""
import mmap
import os
import struct
import time

PAGE = 4096
META_MAGIC = 0xBEEFC0DE
META_OFFSET = 16  # behind the head of the page
TRANSACTION_OFFSET = 144  # magic, version, address, size of the map, two tables of 48 bytes, last page: then its number


def floor(directory, seconds):
    """Durable writes of 4 KiB, one after the other: (writes a second, p50, p99 in milliseconds)."""
    path = os.path.join(directory, "floor")
    page = mmap.mmap(-1, PAGE)  # aligned
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for block in range(256):  # written before, so that no write below allocates
            os.pwrite(fd, page, block * PAGE)
        os.fsync(fd)
    finally:
        os.close(fd)
    fd = os.open(path, os.O_RDWR | os.O_DSYNC)
    times, began = [], time.perf_counter()
    try:
        while time.perf_counter() - began < seconds:
            page[:8] = struct.pack("<Q", len(times) + 1)
            before = time.perf_counter()
            os.pwrite(fd, page, len(times) % 256 * PAGE)
            times.append(time.perf_counter() - before)
    finally:
        os.close(fd)
        os.unlink(path)
    elapsed = time.perf_counter() - began
    times.sort()
    return len(times) / elapsed, times[len(times) // 2] * 1e3, times[int(len(times) * 0.99)] * 1e3


def commits(store):
    """The number of transactions that the LMDB file in `store` has committed: the newer of its two meta pages. None if it
    cannot be told. Read while it is in use: a page that is being written would be off by one, which does no harm here."""
    if not store:
        return None
    try:
        with open(os.path.join(store, "data.mdb"), "rb") as file:
            head = file.read(2 * PAGE)
    except OSError:
        return None
    numbers = [struct.unpack_from("<Q", head, at + TRANSACTION_OFFSET)[0] for at in (0, PAGE)
               if len(head) >= at + PAGE and struct.unpack_from("<I", head, at + META_OFFSET)[0] == META_MAGIC]
    return max(numbers) if numbers else None


def file_system(path):
    """Its type, by the longest mount point above the path."""
    best, kind, path = "", "unknown", os.path.realpath(path) + "/"
    with open("/proc/self/mountinfo") as file:
        for line in file:
            mount, rest = line.split()[4], line.partition(" - ")[2].split()
            if path.startswith(mount.rstrip("/") + "/") and len(mount) >= len(best):
                best, kind = mount, rest[0]
    return kind
