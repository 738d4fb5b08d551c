"""Is a history of concurrent operations on one object one that could have happened one after the other?

Each operation has a time at which it was called and one at which its answer was there; it must have taken effect at one moment in
between. The search goes through the operations in the order of their calls, takes one that may be next, and goes back when it is
stuck; what it has taken and the state that this led to are remembered, so that nothing is searched twice (Wing and Gong 1993, with
Lowe's memory, 2017).
"""

import enum
from typing import Any, NamedTuple


class Missing(enum.Enum):  # an enum: one and the same in every process
    UNKNOWN = "?"


UNKNOWN = Missing.UNKNOWN  # the answer never came: it may have taken effect at any time after the call, or not at all
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
    """None if the history is linearizable, else the operations around the place where every order fails.

    step(state, name, arguments) -> (answer, new state); states are hashable.
    """
    operations = sorted(operations, key=lambda operation: operation.called)
    # A linked list of events: calls and answers in the order of time. Of equal times calls come first: they may overlap.
    events = [(operation.called, 0, i) for i, operation in enumerate(operations)]
    events += [(operation.returned, 1, i) for i, operation in enumerate(operations) if operation.returned != NEVER]
    events.sort()
    end = len(events)
    following = list(range(1, end + 1)) + [0]  # `end` is the head, too: following[end] is the first event
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
        # An answer is reached whose call could not be taken yet: some earlier choice was wrong.
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
    lines = [f"no order explains the answers by {moment}; the best one found had the state {state!r} there", "answered before:"]
    lines += [f"  {operation}" for operation in before[-8:]]
    return "\n".join([*lines, "under way:", *[f"  {operation}" for operation in near]])
