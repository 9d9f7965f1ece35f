"""The limit of a relay: `python hop.py SOCKET` copies stdin to the socket and the socket to stdout, blocking, and does nothing else."""

import os
import select
import socket
import sys


def main(path):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(connection, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            data = os.read(fd, 65536)
            if not data:
                return
            os.write(connection.fileno() if fd == 0 else 1, data)


if __name__ == "__main__":
    main(sys.argv[1])
