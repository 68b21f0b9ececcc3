"""The user's names for what a tape records, and the calls of the user's functions in which it was made.

A name is read from the bytecode: where the instruction after the one that made a value stores it, that is its name. So no source is
needed, and nothing is looked up while a function runs but its frames.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

from functrace.core.forward import pushforward
from functrace.core.reverse import pullback
from functrace.core.tape import ITEM, Tape
from functrace.core.tracer import levels
from functrace.places import is_user_file, line_of
from functrace.transforms import masks

CHECK = "whether the derivative is finite"
REPLAYS = {  # frames of ours that are worth a name
    pullback.__code__: "reverse replay",
    pushforward.__code__: "forward replay",
    masks.finite.__code__: CHECK,
    masks.met.__code__: CHECK,
}


Place = tuple[CodeType | None, int]  # code, and the instruction in it
NOWHERE: Place = (None, 0)


class UserCall(NamedTuple):
    """A call under a run: the number of the call that it came from (-1: the traced function's), its code, and where it was called."""

    parent: int
    code: CodeType
    name: str
    site: Place


class Lines(list[Any]):
    """Code and instruction of the user's line, for each entry of a tape; with the `calls` it was made in.

    `call[row]` is the number of the innermost call, -1 outside of all; `visit[row]` numbers the visits of the user's line, of which
    each may make several entries. An entry that a replay made, as `grad` does, has the line of the op that it is the derivative of, and
    the name of the replay in `replay[row]`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[UserCall] = []
        self.call: list[int] = []
        self.visit: list[int] = []
        self.replay: list[str] = []
        self.rows: dict[int, int] = {}  # by slot
        self.base: FrameType | None = None  # the frame below all that are looked at
        self._open: list[tuple[FrameType, int]] = []  # frames of the last entry with their numbers: held, so that none is taken for another
        self._last: tuple[Any, ...] = ()

    def stamp(self, frame: FrameType | None, slots: Sequence[int]) -> None:
        """Note for the next entries, by the slots of their results, where they are made: under `frame`."""
        found, user, below, replay, where = self._surroundings(frame)
        number = self._entered(found)
        last = user, where, below
        visit = (self.visit[-1] if self.visit else -1) + (last != self._last)
        self._last = last
        count = len(slots)
        for k, slot in enumerate(slots):
            self.rows[slot] = len(self) + k
        self += [where] * count
        self.replay += [replay] * count
        self.call += [number] * count
        self.visit += [visit] * count

    def _surroundings(self, frame: FrameType | None) -> tuple[list[FrameType], FrameType | None, FrameType | None, str, Place]:
        """Of the stack: the frames of calls; the user's frame, and the one that it called; the replay; and the user's line."""
        found: list[FrameType] = []
        user: FrameType | None = None
        replay, where = "", NOWHERE
        under = below = frame
        while frame is not None and frame is not self.base:
            code = frame.f_code
            if is_user_file[code.co_filename]:
                if user is None:
                    user, below = frame, under
                if not (code.co_name.startswith("<") and code.co_name != "<lambda>"):  # comprehensions are no calls
                    found.append(frame)
            elif code in REPLAYS:
                found.append(frame)
                if user is None and not replay:
                    replay, where = REPLAYS[code], self._origin(frame)
            under, frame = frame, frame.f_back
        if replay:
            user = None
        elif user is None and frame is not None:
            user = frame.f_back
            while user is not None and not is_user_file[user.f_code.co_filename]:
                user = user.f_back
        return found, user, below, replay, where if user is None else (user.f_code, user.f_lasti)

    def _entered(self, found: Sequence[FrameType]) -> int:
        """The number of the innermost of these calls; `calls` gets those that are new."""
        number, kept, site = -1, [], NOWHERE
        known = self._open
        for k, frame in enumerate(reversed(found)):
            if k < len(known) and known[k][0] is frame:
                number = known[k][1]
            else:
                known = []
                code = frame.f_code
                self.calls.append(UserCall(number, code, REPLAYS.get(code) or code.co_name, site))
                number = len(self.calls) - 1
            site = frame.f_code, frame.f_lasti
            kept.append((frame, number))
        self._open = kept
        return number

    def _origin(self, frame: FrameType) -> Place:
        """The line of the op whose rule a replay applies in `frame`."""
        entry = frame.f_locals.get("entry")
        ans = entry[4] if isinstance(entry, tuple) else None
        slots = (level.slot for level in levels(ans) if getattr(level.owner, "frames", None) is self)
        row = self.rows.get(next(slots, -1))
        return NOWHERE if row is None else self[row]

    def text(self, row: int) -> str:
        """`example.py:6, in f`, and which replay made the entry."""
        line, replay = line_of(*self[row]), self.replay[row]
        return f"{line}, {replay}" if line and replay else line or replay

    def done(self) -> None:
        """Drop all references to frames."""
        self.base, self._open, self._last = None, [], ()

    def name(self, row: int) -> list[str]:
        """What the user's program stores the entry's result under; several names where it unpacks it; none if it does not say."""
        code, lasti = self[row]
        k = self.call[row]
        while code is not None and k >= 0 and not self.replay[row] and self.calls[k].code is code:
            names = stored(code, lasti)
            if names is not None:
                return names
            (code, lasti), k = self.calls[k].site, self.calls[k].parent
        return []


@functools.lru_cache(1024)
def _instructions(code: CodeType) -> tuple[list[int], list[Any]]:
    import dis

    skipped = frozenset(("CACHE", "PRECALL", "NOP", "RESUME", "EXTENDED_ARG", "NOT_TAKEN"))
    rows = [i for i in dis.get_instructions(code) if i.opname not in skipped]
    return [i.offset for i in rows], rows


@functools.lru_cache(4096)
def stored(code: CodeType, lasti: int) -> list[str] | None:
    """The names under which the result of an instruction is stored; None if it is returned instead."""
    offsets, rows = _instructions(code)
    k = bisect.bisect_right(offsets, lasti)  # in a frame that waits for a call, `lasti` may lie behind the instruction, in its cache
    rows = rows[k : k + 12]
    if rows and rows[0].opname in ("COPY", "DUP_TOP"):
        rows = rows[1:]
    if not rows:
        return []
    first = rows[0]
    if first.opname == "RETURN_VALUE":
        return None
    if first.opname == "UNPACK_SEQUENCE":
        names: list[str] = [name for i in rows[1:] for name in _stores(i)][: first.arg]
        return names if len(names) == first.arg else []
    if found := _stores(first):
        return [found[0]]
    text: list[str] = []
    for i in rows:
        if i.opname == "STORE_ATTR" and len(text) == 1:
            return [f"{text[0]}.{i.argval}"]
        if i.opname == "STORE_SUBSCR" and len(text) == 2:
            return [f"{text[0]}[{text[1]}]"]
        if i.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and text:
            text.append(repr(i.argval))
        elif i.opname == "LOAD_ATTR" and text:
            text[-1] += f".{i.argval}"
        elif i.opname.startswith("LOAD_FAST") and isinstance(i.argval, tuple):  # two at once, from Python 3.13 on
            text += i.argval
        elif i.opname.startswith(("LOAD_FAST", "LOAD_NAME", "LOAD_DEREF", "LOAD_GLOBAL")) and isinstance(i.argval, str):
            text.append(i.argval)
        else:
            break
    return []


_STORES = {"STORE_FAST": 1, "STORE_NAME": 1, "STORE_GLOBAL": 1, "STORE_DEREF": 1, "STORE_FAST_STORE_FAST": 2, "STORE_FAST_LOAD_FAST": 1}


def _stores(i: Any) -> Sequence[str]:
    names = i.argval if isinstance(i.argval, tuple) else (i.argval,)  # two, from Python 3.13 on
    return names[: _STORES.get(i.opname, 0)]


def line_text(tape: Tape, row: int) -> str:
    """The user's line of an entry, where it was kept."""
    lines = tape.frames
    if isinstance(lines, Lines):
        return lines.text(row)
    return line_of(*lines[row]) if row < len(lines) else ""


def checks(tape: Tape) -> set[int]:
    """The rows of a tape that nobody wrote, and no result needs: those that look whether a derivative is finite."""
    lines = tape.frames
    return {row for row, replay in enumerate(lines.replay) if replay == CHECK} if isinstance(lines, Lines) else set()


def fresh(name: str, taken: dict[str, int]) -> str:
    """`name`, with a number if it is taken, as in `x_1`; it is taken then. `taken` says of each name the last number that it got."""
    k = taken.get(name)
    if k is not None:
        while f"{name}_{(k := k + 1)}" in taken:
            pass
        taken[name] = k
        name = f"{name}_{k}"
    taken[name] = 0
    return name


def names_of(tape: Tape) -> dict[int, str]:
    """A name for each slot of a tape: the input's, the user's variable, or `%3`. A name used again gets a number: `x`, `x_1`."""
    names = {k: f"%{k}" for k in range(len(tape.inputs))} | dict(enumerate(tape.names))
    taken = dict.fromkeys(names.values(), 0)
    lines = tape.frames
    rows: Iterable[int] = range(len(tape.entries))
    if isinstance(lines, Lines):
        last = [k for k in rows if k + 1 >= len(lines.visit) or lines.visit[k] != lines.visit[k + 1]]  # what the line made in the end
        for row in last:
            primitive, out, _, _, _, params = tape.entries[row]
            found = lines.name(row)
            if primitive is ITEM:
                items = params[0] + 1
                if len(found) == items:
                    for k, name in enumerate(found):
                        names[tape.entries[row - items + 1 + k][1]] = fresh(name, taken)
            elif len(found) == 1:
                names[out] = fresh(found[0], taken)
    for entry in tape.entries:
        names.setdefault(entry[1], f"%{entry[1]}")
    return names
