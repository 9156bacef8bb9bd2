"""Usage: keys.py ADDRESSES FILE
Puts the keys row/1, row/2, row/3... with their numbers as values into the etcd whose members have the ADDRESSES, and
appends to FILE a line 'TIME NUMBER' for each write that etcd has acknowledged. A number whose end is unknown is not
tried again: the next one goes to the next member. ADDRESSES are separated by commas; the first is used first.
Speaks JSON over HTTP, as etcd's gateway does.
"""

import base64
import http.client
import itertools
import json
import sys
import time

# Seconds without an answer after which the client goes to the next member.
TIMEOUT = 0.5
PAUSE = 0.01
PORT = 2379


class Refused(Exception):
    """The member has answered, and has not done it."""


def encode(text):
    """The form of a key or a value in a request."""
    return base64.b64encode(text.encode()).decode()


def put(member, number):
    """Writes a key. Returns if it is acknowledged."""
    body = json.dumps({"key": encode(f"row/{number}"), "value": encode(str(number))})
    member.request("POST", "/v3/kv/put", body)
    answer = member.getresponse()
    said = answer.read()
    if answer.status != 200 or "revision" not in json.loads(said).get("header", {}):
        raise Refused(said)


def write(addresses, path):
    """Writes until this process is ended."""
    number, member = 0, None
    addresses = itertools.cycle(addresses)
    with open(path, "a", encoding="ascii", buffering=1) as file:
        while True:
            member = member or http.client.HTTPConnection(next(addresses), PORT, timeout=TIMEOUT)
            number += 1
            try:
                put(member, number)
                file.write(f"{time.time():.6f} {number}\n")
            except (Refused, OSError, ValueError, http.client.HTTPException):
                member.close()
                member = None
            time.sleep(PAUSE)


if __name__ == "__main__":
    write(sys.argv[1].split(","), sys.argv[2])
