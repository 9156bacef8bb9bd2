"""Usage: rows.py ADDRESSES FILE
Inserts the numbers 1, 2, 3... into the table shop.rows of the MariaDB whose members have the ADDRESSES, each in its own
transaction, and appends to FILE a line 'TIME NUMBER ADDRESS' for each commit that the member at ADDRESS has acknowledged. A
number whose end is unknown is not tried again: the next one goes to the next member. ADDRESSES are separated by commas;
the first is used first. Speaks MariaDB's protocol itself.
"""

import hashlib
import itertools
import struct
import sys
import time

from connection import Connection, Lost

PAUSE = 0.02
PORT = 3306
USER, PASSWORD = b"shop", b"secret"
# Of the protocol: long passwords, version 4.1, transactions, hashed passwords, the name of the method.
CAPABILITIES = 0x1 | 0x200 | 0x2000 | 0x8000 | 0x80000
METHOD = b"mysql_native_password"
UTF8 = 45
MAX_PACKET = 1 << 24
QUERY = b"\x03"


def answer_of(scramble):
    """The proof of the password for what the member has drawn."""
    once = hashlib.sha1(PASSWORD).digest()
    twice = hashlib.sha1(scramble + hashlib.sha1(once).digest()).digest()
    return bytes(a ^ b for a, b in zip(once, twice))


class Member:
    """A connection."""

    def __init__(self, address):
        self.connection = Connection(address, PORT)
        greeting = self.receive()
        rest = greeting[greeting.index(b"\0", 1) + 5:]
        scramble = rest[:8] + rest[27:39]
        head = struct.pack("<IIB23x", CAPABILITIES, MAX_PACKET, UTF8)
        self.send(1, head + USER + b"\0\x14" + answer_of(scramble) + METHOD + b"\0")
        self.receive()

    def send(self, number, body):
        """Sends a packet."""
        self.connection.send(struct.pack("<I", len(body))[:3] + bytes([number]) + body)

    def receive(self):
        """Receives a packet. Fails if it is an error."""
        head = self.connection.receive(4)
        body = self.connection.receive(int.from_bytes(head[:3], "little"))
        if body[:1] in (b"\xff", b""):
            raise Lost(repr(body))
        return body

    def insert(self, number):
        """Inserts a number. Returns if one row is committed."""
        self.send(0, QUERY + f"INSERT INTO shop.rows VALUES ({number})".encode())
        answer = self.receive()
        if answer[:2] != b"\0\1":
            raise Lost(repr(answer))

    def close(self):
        """Ends the connection."""
        self.connection.close()


def write(addresses, path):
    """Writes until this process is ended."""
    number, member, address = 0, None, ""
    addresses = itertools.cycle(addresses)
    with open(path, "a", encoding="ascii", buffering=1) as file:
        while True:
            number += 1
            try:
                if not member:
                    address = next(addresses)
                    member = Member(address)
                member.insert(number)
                file.write(f"{time.time():.6f} {number} {address}\n")
            except Lost:
                if member:
                    member.close()
                member = None
            time.sleep(PAUSE)


if __name__ == "__main__":
    write(sys.argv[1].split(","), sys.argv[2])
