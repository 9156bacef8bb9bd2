"""Usage: writer.py ADDRESS FILE
Inserts the numbers 1, 2, 3... into the table rows of the database at ADDRESS, each in its own transaction, and appends
to FILE a line 'TIME NUMBER' for each commit that the database has acknowledged. A number whose end is unknown is not
tried again. writer.py ADDRESS - prints the numbers in the table instead; writer.py ADDRESS -N deletes the number N. Speaks PostgreSQL's protocol 3.0 itself.
"""

import struct
import sys
import time

from connection import Connection, Lost

PORT = 5432
PAUSE = 0.02


class Database:
    """A connection."""

    def __init__(self, address):
        self.connection = Connection(address, PORT)
        body = struct.pack("!i", 196608) + b"user\0postgres\0database\0postgres\0\0"
        self.connection.send(struct.pack("!i", len(body) + 4) + body)
        self.until_ready()

    def until_ready(self):
        """Reads messages until the database waits for a query. Returns them; fails on an error."""
        messages = []
        while True:
            kind, length = struct.unpack("!ci", self.connection.receive(5))
            body = self.connection.receive(length - 4)
            messages.append((kind, body))
            if kind == b"E":
                raise Lost(repr(body))
            if kind == b"Z":
                return messages

    def query(self, text):
        """Runs a query. Returns the messages."""
        body = text.encode() + b"\0"
        self.connection.send(b"Q" + struct.pack("!i", len(body) + 4) + body)
        return self.until_ready()


def numbers(address):
    """Prints the numbers of the table."""
    for kind, body in Database(address).query("SELECT n FROM rows ORDER BY n"):
        if kind == b"D":
            print(body[6:].decode())


def write(address, path):
    """Writes until this process is ended."""
    number, database = 0, None
    with open(path, "a", encoding="ascii", buffering=1) as file:
        while True:
            try:
                database = database or Database(address)
                number += 1
                messages = database.query(f"INSERT INTO rows VALUES ({number})")
                if any(kind == b"C" and body == b"INSERT 0 1\0" for kind, body in messages):
                    file.write(f"{time.time():.6f} {number}\n")
            except Lost:
                database = None
            time.sleep(PAUSE)


if __name__ == "__main__":
    if sys.argv[2] == "-":
        numbers(sys.argv[1])
    elif sys.argv[2].startswith("-"):
        Database(sys.argv[1]).query(f"DELETE FROM rows WHERE n = {int(sys.argv[2][1:])}")
    else:
        write(sys.argv[1], sys.argv[2])
