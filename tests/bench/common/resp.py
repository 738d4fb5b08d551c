"""The part of the Redis protocol that a benchmark needs to ask for INFO; pure Python."""

from support.sockets import Link, ReplyError, pairs  # noqa: F401 (an error reply is raised as resp.ReplyError)


class Client(Link):
    def __init__(self, port, timeout=600):
        super().__init__(port, timeout)

    def info(self, *sections):
        return parse_info(self.call("INFO", *sections))

    def pairs(self, *arguments):
        """A reply that is a map, as a dictionary."""
        return pairs(self.call(*arguments))


def parse_info(text):
    """{field: value} from INFO's reply, numbers as int or float."""

    def value(word):
        for kind in (int, float):
            try:
                return kind(word)
            except ValueError:
                pass
        return word

    lines = (line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))
    return {name: value(word) for name, word in lines}
