"""What a store costs as it grows: new keys, look-ups over all records, sweeping, the start, the file. Filled by store_fill through
the store's own API; every record is one that the proxy would have made, and any of them is asked for.
"""
import os
import shutil
import subprocess
import time

import measure
import paths
import peers

SWEPT_AT_ONCE = 50_000
WARMING = 20  # seconds: each page of a large store that is asked for the first time is a page fault


def room(directory, records):
    """Is there twice the disk that the store may need?"""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize > 2 * records * paths.RECORD_BYTES


def fill(configuration, run, count, options, *more):
    """(actions written a second, swept a second, bytes in use)"""
    done = subprocess.run([peers.tool(options, "store_fill"), configuration, run, str(count), paths.BODY, *more],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise peers.StartFailed("store_fill: " + done.stderr[-500:])
    return [float(word) for word in done.stdout.split()]


def one_size(records, directory, api, options):
    store = os.path.join(directory, "growth-store")
    configuration, _ = peers.einmal_configuration("growth", directory, api.port, options, store)
    by_name = {path.name: path for path in paths.PATHS}
    run, out = os.urandom(9).hex(), {"records": records}
    fixed = max(records, paths.FIXED_KEYS)  # the empty store holds what can be asked for, and nothing else
    try:
        out["filled"], _, _ = fill(configuration, run, fixed, options)
        _, out["swept"], out["bytes"] = fill(configuration, os.urandom(9).hex(), SWEPT_AT_ONCE, options, "expiring")
        os.sync()
        began = time.monotonic()
        peer = peers.start_einmal("growth", directory, api.port, options, store)
        out["start"] = time.monotonic() - began
        try:
            measure.check_replay(peer, "%s-%d" % (run, fixed))
            replay = by_name["replay"]._replace(load=("post", "/v1/orders", "spread"))
            measure.wrk(replay, peer, run, WARMING, options, fixed)
            out["look_up"] = [measure.measure(replay, peer, api, run, options.seconds, options, fixed)
                              for _ in range(options.rounds)]
            out["new"] = [measure.measure(by_name["new"], peer, api, os.urandom(9).hex(), options.seconds, options)
                          for _ in range(options.rounds)]
        finally:
            peer.stop()
        out["file"] = os.path.getsize(os.path.join(store, "data.mdb"))
    finally:
        shutil.rmtree(store, ignore_errors=True)
    return out


def run_growth(directory, api, options):
    sizes = []
    for records in paths.RECORDS:
        if not room(directory, records):
            measure.say("skipped: %d records: less than %.0f GiB free on the disk of %s"
                        % (records, 2 * records * paths.RECORD_BYTES / (1 << 30), options.dir))
            continue
        measure.say("store of %s records" % "{:,}".format(records))
        size = one_size(records, directory, api, options)
        sizes.append(size)
        measure.say("  look-ups %.0f/s, new keys %.0f/s, swept %.0f/s, start %.2f s, file %.0f MiB"
                    % (measure.median(size["look_up"], "rate"), measure.median(size["new"], "rate"), size["swept"],
                       size["start"], size["file"] / (1 << 20)))
    return sizes
