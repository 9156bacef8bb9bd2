"""A connection of a test's client to a database, over TCP."""

import socket

# Seconds without an answer after which a connection counts as lost.
ANSWER_TIMEOUT = 2.0


class Lost(Exception):
    """The connection is lost, or the database refuses."""


class Connection:
    """A connection to a port. Each of its methods raises Lost when the connection is lost."""

    def __init__(self, address, port):
        try:
            self.stream = socket.create_connection((address, port), ANSWER_TIMEOUT)
        except OSError as error:
            raise Lost(str(error)) from error

    def send(self, data):
        """Sends bytes."""
        try:
            self.stream.sendall(data)
        except OSError as error:
            raise Lost(str(error)) from error

    def receive(self, length):
        """Receives exactly `length` bytes."""
        data = b""
        while len(data) < length:
            try:
                more = self.stream.recv(length - len(data))
            except OSError as error:
                raise Lost(str(error)) from error
            if not more:
                raise Lost("closed")
            data += more
        return data

    def close(self):
        """Ends the connection."""
        self.stream.close()
