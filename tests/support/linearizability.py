"""Checks whether a history of concurrent operations on one object is linearizable.

Each operation has the times of its call and of its reply, and took effect at one moment in between. The search goes through the
operations in the order of their calls, chooses an operation that may be next, and backtracks when it is stuck. It remembers each
set of chosen operations with its state, so that nothing is searched twice (Wing and Gong 1993, with Lowe's memory, 2017).
"""

import enum
from heapq import merge
from typing import Any, NamedTuple


class Missing(enum.Enum):  # an enum, so that it is the same object in every process
    UNKNOWN = "?"


UNKNOWN = Missing.UNKNOWN  # there was no reply: the operation took effect at any time after the call, or never
NEVER = float("inf")


class Operation(NamedTuple):
    client: int
    name: str
    arguments: tuple
    answer: Any
    called: float
    returned: float  # NEVER if the answer is UNKNOWN

    def __str__(self):
        answer = "?" if self.answer is UNKNOWN else repr(self.answer)
        return f"client {self.client}: {self.name} {' '.join(map(str, self.arguments))} -> {answer}  [{self.called} .. {self.returned}]"


def violation(operations, step, initial):
    """Returns None if the history is linearizable, otherwise the operations around the position at which every order fails.

    step(state, name, arguments) returns (answer, new state). States are hashable.
    """
    operations = sorted(operations, key=lambda operation: operation.called)
    # The events are a linked list of calls and replies in the order of time. At equal times calls come first, since they may
    # overlap.
    events = [(operation.called, 0, i) for i, operation in enumerate(operations)]
    events += [(operation.returned, 1, i) for i, operation in enumerate(operations) if operation.returned != NEVER]
    events.sort()
    end = len(events)
    following = list(range(1, end + 1)) + [0]  # `end` is also the head of the list: following[end] is the first event
    previous = [end] + list(range(end))
    call_at, answer_at = {}, {}
    for at, (_, kind, i) in enumerate(events):
        (answer_at if kind else call_at)[i] = at
    required = len(answer_at)

    def unlink(at):
        following[previous[at]], previous[following[at]] = following[at], previous[at]

    def relink(at):
        following[previous[at]] = previous[following[at]] = at

    state, taken, answered, seen, stack = initial, 0, 0, set(), []
    furthest, stuck = -1, None
    at = following[end]
    while answered < required:
        if at != end and events[at][1] == 0:
            i = events[at][2]
            operation = operations[i]
            answer, after = step(state, operation.name, operation.arguments)
            if (operation.answer is UNKNOWN or answer == operation.answer) and (taken | 1 << i, after) not in seen:
                seen.add((taken | 1 << i, after))
                stack.append((i, state))
                state, taken = after, taken | 1 << i
                unlink(call_at[i])
                if i in answer_at:
                    unlink(answer_at[i])
                    answered += 1
                at = following[end]
            else:
                at = following[at]
            continue
        # This is a reply whose call was not chosen yet, so an earlier choice was wrong.
        if answered > furthest:
            furthest, stuck = answered, (at, state)
        if not stack:
            return explain(operations, events, stuck, end)
        i, state = stack.pop()
        taken &= ~(1 << i)
        if i in answer_at:
            relink(answer_at[i])
            answered -= 1
        relink(call_at[i])
        at = following[call_at[i]]
    return None


def explain(operations, events, stuck, end):
    at, state = stuck
    moment = events[at][0] if at != end else NEVER
    near = [operation for operation in operations if operation.called <= moment and operation.returned >= moment]
    before = sorted((operation for operation in operations if operation.returned < moment), key=lambda operation: operation.returned)
    lines = [f"no order explains the replies by {moment}; the longest one found ended in state {state!r} there", "answered before:"]
    lines += [f"  {operation}" for operation in before[-8:]]
    return "\n".join([*lines, "under way:", *[f"  {operation}" for operation in near]])


def list_step(state, name, arguments):
    """Returns the reply and the new state of a command on one list. A state is a tuple of elements, () for an absent list. A
    timeout is the reply None; so its BLPOP took effect at a moment when the list was empty. Its other reply has no key."""
    if name in ("LPUSH", "RPUSH"):
        after = (*reversed(arguments), *state) if name == "LPUSH" else (*state, *arguments)
        return len(after), after
    if name in ("LPOP", "RPOP", "BLPOP"):
        if not state:
            return None, state
        one = name == "BLPOP" or not arguments
        count = 1 if one else arguments[0]
        popped, after = (state[: -count - 1 : -1], state[:-count]) if name == "RPOP" else (state[:count], state[count:])
        return popped[0] if one and name != "BLPOP" else list(popped), after
    if name == "LLEN":
        return len(state), state
    if name == "LRANGE":  # of the whole list
        return list(state), state
    raise ValueError(name)


def zset_step(state, name, arguments):
    """Like list_step() for a sorted set whose members are added once. A state is a sorted tuple of pairs (score, member)."""
    if name == "ZADD":
        new = sorted(zip(arguments[::2], arguments[1::2], strict=True))
        return len(new), tuple(merge(state, new))
    if name in ("ZPOPMIN", "ZPOPMAX", "BZPOPMIN"):
        if not state:
            return None if name == "BZPOPMIN" else [], state
        count = arguments[0] if arguments and name != "BZPOPMIN" else 1
        popped, after = (state[: -count - 1 : -1], state[:-count]) if name == "ZPOPMAX" else (state[:count], state[count:])
        return [word for score, member in popped for word in (member, str(score))], after
    if name == "ZCARD":
        return len(state), state
    if name == "ZRANGE":  # of the whole sorted set
        return [member for _, member in state], state
    raise ValueError(name)
