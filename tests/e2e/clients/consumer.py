"""consumer.py URL MESSAGE [die] - a queue's consumer: handles one delivery of a message by one POST; exit 0 acknowledges it.

With `die` it is killed after the POST and before the acknowledgement, as by an out-of-memory killer: the queue delivers again.
"""
import os
import signal
import sys
import urllib.error
import urllib.request

url, message = sys.argv[1], sys.argv[2]
request = urllib.request.Request(url + "/mails", b'{"to":"somebody"}', {"X-Message-Id": message, "Content-Type": "application/json"})
try:
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()
except urllib.error.HTTPError as error:
    print(error.code)
    sys.exit(1)
if sys.argv[3:] == ["die"]:
    os.kill(os.getpid(), signal.SIGKILL)
