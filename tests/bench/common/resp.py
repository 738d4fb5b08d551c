"""Implements the part of the Redis protocol that a benchmark needs to ask for INFO, in pure Python."""

from support.sockets import Link, ReplyError, pairs  # noqa: F401 (an error reply is raised as resp.ReplyError)


class Client(Link):
    def __init__(self, port, timeout=600):
        super().__init__(port, timeout)

    def info(self, *sections):
        return parse_info(self.call("INFO", *sections))

    def pairs(self, *arguments):
        """Sends a command whose reply is a map, and returns the reply as a dictionary."""
        return pairs(self.call(*arguments))


def parse_info(text):
    """Returns {field: value} from INFO's reply, with numbers as int or float."""

    def value(word):
        for kind in (int, float):
            try:
                return kind(word)
            except ValueError:
                pass
        return word

    lines = (line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))
    return {name: value(word) for name, word in lines}
