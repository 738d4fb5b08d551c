"""Makes random commands on connections, transactions, channels and the server, not on values.

An item that changes the whole server (CONFIG SET) also restores it. No command ends the server or the connection, or writes the
configuration file.
"""

from support.differential.collections import collection_shapes
from support.differential.values import COLLECTION_KEYS, EDGES, KEYS, VALUES, Maker, allowed, broken, shapes

NAMES = [b"", b"a", b"name", b"a b", b"\xff", b"new\nline", b"x" * 100, b"~!"]
CHANNELS = [b"", b"a", b"news", b"news:1", b"n\x00l", b"key:1"]
PATTERNS = [b"*", b"news*", b"n?ws", b"[a-n]*", b"", b"\\a", b"a"]
LETTERS = [b"", b"A", b"K", b"E", b"KEA", b"AKE", b"Kg$", b"Elshzxet", b"Kmn", b"KEAm", b"KEn", b"xE", b"KAd", b"Eg$lshzxetd", b"Q", b"K E",
           b"KEg$lshztdxemn", b"k"]  # fmt: skip


def numbers(m):
    return m.rng.choice([b"1", b"2", b"128", b"1000", *EDGES])


def some_of(rng, words, low, high):
    return [rng.choice(words) for _ in range(rng.randint(low, high))]


def connection_shapes(m):
    rng = m.rng
    pick = rng.choice
    auth = lambda: [b"AUTH", pick([b"default", b"nobody", b""]), pick([b"", b"x"])]  # noqa: E731
    no_client = lambda: pick([b"0", b"-1", b"999999999", b"9223372036854775807", b"abc", b"", b"99999999999999999999", b"1.5"])  # noqa: E731
    return [
        (3, lambda: [b"PING", *some_of(rng, VALUES, 0, 2)]),
        (2, lambda: [b"ECHO", *some_of(rng, VALUES, 1, 1 if rng.random() < 0.8 else 2)]),
        (1, lambda: [b"RESET", *some_of(rng, NAMES, 0, 1)]),
        (2, lambda: [b"HELLO", *pick([[], [b"2"], [b"3"], [pick(EDGES)], [b"3", b"SETNAME", pick(NAMES)], [b"2", b"x"], [b"3", b"SETNAME"]])]),
        # AUTH is rare: after three failures each attempt waits two seconds in this server, but not in Redis.
        (0.5, lambda: pick([auth(), [b"AUTH", pick(NAMES)], [b"AUTH"], [b"AUTH", b"a", b"b", b"c"],
                            [b"HELLO", *pick([[b"2", *auth()], [b"3", *auth()], [b"4", *auth()], [b"3", b"AUTH", b"x"]])]])),
        (3, lambda: [b"CLIENT", b"SETNAME", pick(NAMES)]),
        (2, lambda: [b"CLIENT", pick([b"GETNAME", b"ID", b"INFO", b"GETREDIR", b"TRACKINGINFO", b"UNPAUSE", b"HELP", b"LIST", b"NOSUCH"]),
                     *some_of(rng, NAMES, 0, 1 if rng.random() < 0.2 else 0)]),
        (2, lambda: [b"CLIENT", b"SETINFO", pick([b"lib-name", b"LIB-VER", b"lib", b""]), pick(NAMES)]),
        (2, lambda: [b"CLIENT", b"LIST", *pick([[b"TYPE", b"normal"], [b"TYPE", b"x"], [b"TYPE"], [b"ID"], [b"ID", no_client()], [b"x"],
                                               [b"ID", no_client(), no_client()], [b"TYPE", b"pubsub"], [b"TYPE", b"replica", b"x"]])]),
        (2, lambda: [b"CLIENT", b"KILL", *pick([[b"ID", no_client()], [b"1.2.3.4:5"], [b"x"], [b"ADDR", b"1.2.3.4:5"], [b"LADDR", b"1.1.1.1:1"],
                                               [b"TYPE", b"x"], [b"TYPE", b"master"], [b"USER", b"nobody"], [b"SKIPME", b"maybe"], [b"ID"],
                                               [b"ID", no_client(), b"SKIPME", b"yes"], [b"ID", no_client(), b"x", b"y"], []])]),
        (1, lambda: [b"CLIENT", pick([b"NO-EVICT", b"NO-TOUCH", b"no-evict"]), pick([b"on", b"OFF", b"x", b""])]),
        (1, lambda: [b"CLIENT", b"PAUSE", pick([b"0", b"-1", b"abc", b"", b"1.5", b"99999999999999999999"]),
                     *pick([[], [b"WRITE"], [b"all"], [b"x"], [b"WRITE", b"x"]])]),
        (1, lambda: [b"CLIENT", b"UNBLOCK", no_client(), *pick([[], [b"TIMEOUT"], [b"error"], [b"x"], [b"ERROR", b"x"]])]),
        (1, lambda: [b"CLIENT", b"REPLY", pick([b"ON", b"on", b"x", b""])]),
        (1, lambda: [b"CLIENT", b"CACHING", pick([b"yes", b"no", b"x"])]),
        (2, lambda: [b"CLIENT", b"TRACKING", *pick([[b"off"], [b"x"], [b"off", b"x"], [b"on", b"REDIRECT", no_client()], [b"on", b"PREFIX", b"a"],
                                                    [b"on", b"OPTIN", b"OPTOUT"], [b"on", b"BCAST", b"OPTIN"], [b"on", b"PREFIX"], [b"on", b"x"],
                                                    [b"on", b"BCAST", b"PREFIX", b"a", b"PREFIX", b"ab"], [b"on", b"BCAST", b"PREFIX", b"", b"PREFIX", b"q"],
                                                    [b"off", b"BCAST", b"OPTIN", b"PREFIX", b"x"]])]),
    ]  # fmt: skip


def server_shapes(m, value_command):
    rng = m.rng
    pick = rng.choice
    database = lambda: pick([b"0", b"1", b"2", b"15", b"16", pick(EDGES)])  # noqa: E731
    names = [b"get", b"SET", b"mset", b"config", b"config|get", b"client|kill", b"nosuch", b"", b"object|encoding", b"eval", b"msetnx"]
    return [
        (4, lambda: [b"COMMAND", pick([b"GETKEYS", b"GETKEYSANDFLAGS"]), *value_command()]),
        (1, lambda: [b"COMMAND", pick([b"GETKEYS", b"GETKEYSANDFLAGS"]), *pick([[b"PING"], [b"nosuch"], [b"GET"], [b"OBJECT", b"ENCODING"], [b"CONFIG", b"GET", b"x"], [b"SUBSCRIBE", b"a"], [b"MULTI"]])]),
        (1, lambda: [b"COMMAND", pick([b"COUNT", b"HELP", b"NOSUCH", b"DOCS", b"INFO", b"LIST"]), *some_of(rng, [b"nosuch", b""], 1, 2)]),
        (1, lambda: [b"COMMAND", b"LIST", b"FILTERBY", *pick([[b"MODULE", b"x"], [b"ACLCAT", b"x"], [b"PATTERN", b"nosuch*"], [b"PATTERN", b"getr*"], [b"x", b"y"], [b"PATTERN"], [b"ACLCAT", b"string", b"x"]])]),
        (1, lambda: [b"COMMAND", b"INFO", pick([b"nosuch", b"config|nosuch", b""])]),
        (1, lambda: [b"SWAPDB", database(), database()]),
        (1, lambda: [pick([b"FLUSHDB", b"FLUSHALL"]), *pick([[], [b"SYNC"], [b"async"], [b"x"], [b"SYNC", b"x"], [b"ASYNC", b"SYNC"]])]),
        (1, lambda: [b"TIME", *some_of(rng, NAMES, 0, 1)]),
        (1, lambda: [b"SLOWLOG", *pick([[b"LEN"], [b"RESET"], [b"GET"], [b"GET", numbers(m)], [b"GET", b"-2"], [b"GET", b"1", b"2"], [b"x"], [b"LEN", b"x"], [b"HELP"]])]),
        (1, lambda: [b"LATENCY", *pick([[b"LATEST"], [b"DOCTOR"], [b"HISTORY", b"command"], [b"HISTORY"], [b"RESET"], [b"RESET", b"command", b"x"], [b"HISTOGRAM", b"nosuch"], [b"x"], [b"HELP"],
                                        [b"GRAPH", b"nosuch"], [b"GRAPH"]])]),
        (2, lambda: [b"MEMORY", b"USAGE", m.key(), *pick([[], [b"SAMPLES", numbers(m)], [b"SAMPLES"], [b"x", b"1"], [b"SAMPLES", b"1", b"SAMPLES", b"-1"]])]),
        (1, lambda: [b"MEMORY", *pick([[b"x"], [b"DOCTOR"], [b"STATS"], [b"DOCTOR", b"x"], [b"PURGE"], [b"STATS", b"x"], [b"USAGE"], [b"HELP"], [b"HELP", b"x"]])]),
        (1, lambda: [b"DEBUG", *pick([[], [b"OBJECT", m.key()], [b"SLEEP", b"0"], [b"nosuch"], [b"JMAP"], [b"HELP"]])]),
        (2, lambda: [b"SCAN", *pick([[b"abc"], [b"-1"], [b""], [b"1.5"], [b"0", b"COUNT", numbers(m)], [b"0", b"MATCH"], [b"0", b"x", b"y"], [b"0", b"TYPE", b"x"],
                                     [b"0", b"COUNT", b"1000", b"MATCH", pick(PATTERNS)], [b"0", b"COUNT", b"1000", b"TYPE", b"string"], [b"18446744073709551616"]])]),
        (1, lambda: [b"SHUTDOWN", *pick([[b"x"], [b"SAVE", b"NOSAVE"], [b"ABORT"], [b"ABORT", b"NOW"], [b"NOW", b"x"]])]),
        (1, lambda: [b"PUBSUB", *pick([[b"CHANNELS"], [b"CHANNELS", pick(PATTERNS)], [b"CHANNELS", b"a", b"b"], [b"NUMSUB"], [b"NUMSUB", *some_of(rng, CHANNELS, 1, 3)],
                                       [b"NUMPAT"], [b"NUMPAT", b"x"], [b"SHARDCHANNELS"], [b"SHARDNUMSUB", pick(CHANNELS)], [b"x"], [b"HELP"]])]),
        (1, lambda: [pick([b"PUBLISH", b"SPUBLISH"]), *some_of(rng, CHANNELS, 2, 2 if rng.random() < 0.9 else 3)]),
        (1, lambda: [b"WAIT", pick([b"0", b"-1", b"abc", b""]), numbers(m)]),
        (1, lambda: [b"LOLWUT", *pick([[b"VERSION"], [b"VERSION", b"abc"], [b"x"]])]),
        (1, lambda: [pick([b"nosuch", b"", b"GET\x00", b"g\xff", b"x" * 200]), *some_of(rng, VALUES, 0, 3)]),
        (1, lambda: [b"INFO", *pick([[b"nosuch"], [b"cluster"], [b"modules"]])]),
        (1, lambda: [b"ACL", *pick([[b"WHOAMI"], [b"WHOAMI"], [b"USERS"], [b"LIST"], [b"LOAD"], [b"CAT"], [b"CAT", pick([b"string", b"SET", b"nosuch", b""])],
                                    [b"CAT", b"a", b"b"], [b"WHOAMI", b"x"], [b"LOAD", b"x"], [b"nosuch"], []])]),
        (1, lambda: [b"OBJECT", *pick([[b"HELP"], [b"HELP", b"x"], [b"ENCODING"], [b"FREQ", b"nosuchkey"], [b"REFCOUNT", m.key(), b"x"], [b"x"]])]),
    ]  # fmt: skip


def config_item(m):
    """Makes commands that set a parameter, read it, and restore it."""
    pick = m.rng.choice
    parameter, values, usual = pick([
        (b"notify-keyspace-events", LETTERS, b""),
        (b"slowlog-max-len", [b"0", b"10", b"-1", b"abc", b"", b"99999999999999999999", b"1.5"], b"128"),
        (b"slowlog-log-slower-than", [b"0", b"-1", b"-2", b"50000", b"abc", b"", b"99999999999999999999"], b"10000"),
        (b"latency-monitor-threshold", [b"0", b"100", b"-1", b"abc", b""], b"0"),
    ])  # fmt: skip
    commands = [[b"CONFIG", b"SET", pick([parameter, parameter.upper()]), pick(values)], [b"CONFIG", b"GET", parameter]]
    roll = m.rng.random()
    if roll < 0.1:
        commands[0] += [b"nosuch", b"1"]
    elif roll < 0.2:
        commands[0] += commands[0][2:]
    elif roll < 0.3:
        commands = [pick([[b"CONFIG", b"GET"], [b"CONFIG", b"SET", parameter], [b"CONFIG", b"nosuch"], [b"CONFIG", b"GET", b"nosuch*"], [b"CONFIG"],
                          [b"CONFIG", b"SET", b"nosuch", b"x"], [b"CONFIG", b"HELP"], [b"CONFIG", b"RESETSTAT"], [b"CONFIG", b"RESETSTAT", b"x"],
                          [b"CONFIG", b"REWRITE", b"x"]])]  # fmt: skip
    return [*commands, [b"CONFIG", b"SET", parameter, usual]]


def transaction_item(m, any_command):
    """Makes commands that are mostly MULTI to EXEC, with watched keys and commands that are refused when queued. Some have no
    end."""
    rng = m.rng
    out = []
    if rng.random() < 0.3:
        out.append([b"WATCH", *m.some(m.key, 1, 3)])
        if rng.random() < 0.4:
            out.append(any_command())
        if rng.random() < 0.15:
            out.append([b"UNWATCH"])
    if rng.random() < 0.95:
        out.append([b"MULTI"])
    for _ in range(rng.randint(0, 6)):
        command = any_command()
        roll = rng.random()
        if roll < 0.06:
            command = rng.choice([[b"MULTI"], [b"WATCH", b"a"], [b"nosuch", b"x"], [b"GET"], [b"UNWATCH"], [b"EXEC", b"x"], [b"RESET"], [b"WATCH"]])
        out.append(command)
    out.append(rng.choices([[b"EXEC"], [b"DISCARD"], [b"EXEC", b"x"], [b"RESET"]], [80, 10, 2, 2])[0])
    if rng.random() < 0.1:
        out.append(rng.choice([[b"EXEC"], [b"DISCARD"], [b"UNWATCH"]]))
    return out


def may_be_queued(command):
    """Returns true if both servers queue the command. If only one server refuses it, the whole transaction differs.

    CLIENT LIST and KILL, CONFIG SET and REWRITE and ACL LOAD wait for other threads in this server and are refused in a
    transaction. Redis 7.0 does not have CLIENT SETINFO and NO-TOUCH, and its COMMAND GETKEYS requires a command with an argument.
    """
    words = [word.upper() for word in command[:2]]
    if words[0] == b"OBJECT":
        # In Redis the encoding depends on the value's history; outside of transactions the item sets the value first.
        return False
    if words[0] == b"CLIENT":
        return words[1] not in (b"LIST", b"KILL", b"SETINFO", b"NO-TOUCH")
    if words[0] == b"ACL":
        return words[1:] != [b"LOAD"]
    return words[0] != b"CONFIG" and not (words[0] == b"COMMAND" and words[1].startswith(b"GETKEYS") and len(command) < 4)


def all_shapes(m):
    """Commands on strings and on collections, about as many of each."""
    return [*shapes(m), *collection_shapes(m)]


def item_maker(rng):
    """Returns a function that makes an item: commands that belong together, and whether they may write keys outside of KEYS."""
    m = Maker(rng)
    values = all_shapes(m)
    value_weights = [weight for weight, _ in values]

    def value_command():
        while True:
            command = rng.choices(values, value_weights)[0][1]()
            if allowed(command):
                return command

    connection, server = connection_shapes(m), server_shapes(m, value_command)
    connection_weights, server_weights = [w for w, _ in connection], [w for w, _ in server]
    connection_command = lambda: rng.choices(connection, connection_weights)[0][1]()  # noqa: E731
    server_command = lambda: rng.choices(server, server_weights)[0][1]()  # noqa: E731

    def queueable():
        roll = rng.random()
        command = value_command() if roll < 0.8 else server_command() if roll < 0.9 else connection_command()
        return command if may_be_queued(command) else queueable()

    def item():
        roll = rng.random()
        if roll < 0.62:
            command = value_command()
            strays = rng.random() < 0.06
            if strays:
                command = broken(rng, command)
                if not allowed(command):
                    return item()
            commands = [command]
            if command[0].upper() in (b"DBSIZE", b"RANDOMKEY"):
                # Redis counts, and may return, expired keys until it removes them, so EXISTS comes first.
                commands.insert(0, [b"EXISTS", *KEYS, *COLLECTION_KEYS])
            if command[0].upper() == b"OBJECT" and len(command) > 2 and command[2] not in COLLECTION_KEYS:
                # In Redis the encoding depends on the value's history, in this server only on the value, so SET comes first.
                commands.insert(0, [b"SET", command[2], rng.choice(VALUES)])
            return commands, strays
        if roll < 0.76:
            return transaction_item(m, queueable), False
        if roll < 0.86:
            return [connection_command()], False
        if roll < 0.97:
            command = server_command()
            if rng.random() < 0.08:
                command = broken(rng, command)
                safe = allowed(command) and command[0].upper() not in (b"SHUTDOWN", b"DEBUG")
                return ([command], False) if safe else item()
            return [command], False
        return config_item(m), False

    return item


# --- sequences that receive the events of their changes


NOTIFY = b"notify-keyspace-events"
EVENTS = [b"KEA", b"KEA", b"KA", b"EA", b"K$", b"Eg", b"KEAm", b"KEAn", b"Kg$n", b"Em", b"Kh", b"Es", b"Kz", b"El", b"KEg"]


WITHOUT_EVENTS = (
    b"OBJECT", b"SELECT", b"DBSIZE", b"RANDOMKEY", b"LCS", b"PFMERGE", b"PFCOUNT",
    b"ZUNION", b"ZINTER", b"ZDIFF", b"ZINTERCARD", b"ZUNIONSTORE", b"ZINTERSTORE", b"ZDIFFSTORE",
)  # fmt: skip


def event_sequence(rng):
    """Makes commands on values, on a RESP3 connection that receives their events. Commands whose events differ in Redis are left
    out:

        LCS, PFMERGE, PFCOUNT   Redis sends events of missing keys before it finds an error
        ZUNION, ZINTER and kin  the same: Redis looks up the keys before it reads WEIGHTS and AGGREGATE
        SET to a moment         the moment may have passed: Redis sends an event of the stored value, this server only removes the key
        BITFIELD ... FAIL       the command changes no bit but may make the value longer: Redis sends no event
        SORT BY or GET          Redis sends an event of each missing key that a pattern makes, this server of the source only
    """
    m = Maker(rng)
    values = all_shapes(m)
    value_weights = [weight for weight, _ in values]

    def command():
        while True:
            made = rng.choices(values, value_weights)[0][1]()
            if not allowed(made) or made[0] in WITHOUT_EVENTS:
                continue
            if made[0].upper() in (b"SORT", b"SORT_RO") and {b"BY", b"GET"}.intersection(made):
                continue
            if (made[0] != b"SET" or not {b"EXAT", b"PXAT"}.intersection(made)) and (made[0] != b"BITFIELD" or b"FAIL" not in made):
                return made

    items = [transaction_item(m, command) if rng.random() < 0.15 else [command()] for _ in range(rng.randint(4, 16))]
    return [command for item in items for command in item if command != [b"RESET"]]  # RESET would end the subscriptions


# --- sequences with an unknown number of replies: subscriptions, CLIENT REPLY, and RESP3's pushes


def pubsub_sequence(rng, protocol):
    m = Maker(rng)
    pick = rng.choice
    forms = [
        lambda: [pick([b"SUBSCRIBE", b"SUBSCRIBE", b"SSUBSCRIBE"]), *some_of(rng, CHANNELS, 1, 3)],
        lambda: [b"PSUBSCRIBE", *some_of(rng, PATTERNS, 1, 2)],
        lambda: [pick([b"UNSUBSCRIBE", b"SUNSUBSCRIBE"]), *some_of(rng, CHANNELS, 1, 2)],
        lambda: [b"PUNSUBSCRIBE", *some_of(rng, PATTERNS, 1, 2)],
        lambda: [pick([b"PUBLISH", b"PUBLISH", b"SPUBLISH"]), pick(CHANNELS), pick(VALUES)],
        lambda: [b"PUBSUB", *pick([[b"NUMSUB", *some_of(rng, CHANNELS, 0, 3)], [b"NUMPAT"], [b"SHARDNUMSUB", pick(CHANNELS)]])],
        lambda: [b"PING", *some_of(rng, VALUES, 0, 1)],
        lambda: [pick([b"SUBSCRIBE", b"PSUBSCRIBE", b"PUBLISH", b"SSUBSCRIBE", b"SPUBLISH"])],
        lambda: pick([[b"GET", m.key()], [b"SET", m.key(), pick(VALUES)], [b"ECHO", b"x"], [b"CLIENT", b"GETNAME"], [b"DEL", m.key()], [b"nosuch"], [b"HELLO", b"x"]]),
    ]  # fmt: skip
    # One sequence never has both: the pushes of a transaction have another order while replies are off.
    if rng.random() < 0.5:
        forms.append(lambda: pick([[b"MULTI"], [b"EXEC"], [b"DISCARD"], [b"RESET"], [b"WATCH", b"a"]]))
    else:
        forms.append(lambda: pick([[b"CLIENT", b"REPLY", b"OFF"], [b"CLIENT", b"REPLY", b"SKIP"], [b"CLIENT", b"REPLY", b"ON"], [b"RESET"], [b"CLIENT", b"REPLY", b"ON"]]))
    # BCAST is left out: Redis sends broadcasts after all commands of one read, this server sends them after each write.
    if protocol == 3:
        forms += [
            lambda: [b"CLIENT", b"TRACKING", b"on", *pick([[], [], [b"OPTIN"], [b"OPTOUT"], [b"NOLOOP"], [b"OPTIN", b"NOLOOP"]])],
            lambda: [b"CLIENT", b"CACHING", pick([b"yes", b"no"])],
            lambda: [pick([b"GET", b"STRLEN", b"EXISTS", b"TTL"]), m.key()],
            lambda: pick([[b"SET", m.key(), pick(VALUES)], [b"APPEND", m.key(), b"x"], [b"DEL", m.key()], [b"SETNX", m.key(), b"1"], [b"EXPIRE", m.key(), b"5000"]]),
            lambda: pick([[b"HGET", b"hash", b"a"], [b"SINTER", b"set", b"set:2"], [b"ZRANGE", b"zset", b"0", b"-1"], [b"LRANGE", b"list", b"0", b"1"]]),
            lambda: pick([[b"HSET", b"hash", b"a", b"1"], [b"HDEL", b"hash", b"a"], [b"SADD", b"set", b"a"], [b"SMOVE", b"set", b"set:2", b"a"], [b"ZADD", b"zset", b"1", b"a"],
                          [b"ZUNIONSTORE", b"zset", b"1", b"set"], [b"RPUSH", b"list", b"a"], [b"LMOVE", b"list", b"list:2", b"LEFT", b"LEFT"], [b"LPOP", b"list", b"9"]]),
            lambda: [b"CLIENT", b"TRACKING", b"off"],
        ]  # fmt: skip
    return [pick(forms)() for _ in range(rng.randint(4, 20))]
