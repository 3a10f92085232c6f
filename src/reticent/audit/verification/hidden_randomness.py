"""Detects randomness and memory that bypass our sources.

A program may draw from NumPy, from Python or from the operating system, read a clock,
start a thread, or remember what it did before. An audit that enumerates a program's
draws would treat all of this as constant. So one run of every path is watched, and each
path is run again without being watched and compared.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import (
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from reticent.mechanisms import inside_audible_draw

# What a built-in function of this name returns or starts, by its module.
_SYSTEM = ("posix", "nt", "os")
_BUILT_IN = {
    "urandom": (_SYSTEM, "bits of the operating system"),
    "getrandom": (_SYSTEM, "bits of the operating system"),
    "RAND_bytes": (("_ssl",), "bits of OpenSSL"),
    "RAND_priv_bytes": (("_ssl",), "bits of OpenSSL"),
    "fork": (_SYSTEM, "another process"),
    "forkpty": (_SYSTEM, "another process"),
    "posix_spawn": (_SYSTEM, "another process"),
    "posix_spawnp": (_SYSTEM, "another process"),
    "system": (_SYSTEM, "another process"),
    "fork_exec": (("_posixsubprocess",), "another process"),
    "start_new_thread": (("_thread",), "another thread"),
    "start_joinable_thread": (("_thread",), "another thread"),
}
_CLOCKS = {
    *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter"),
    *("perf_counter_ns", "process_time", "process_time_ns", "thread_time"),
    *("thread_time_ns", "clock_gettime", "clock_gettime_ns", "localtime", "gmtime"),
    *("now", "utcnow", "today"),
}
_PYTHON = {"random", "getrandbits", "randbytes"}
_NAMES = {*_BUILT_IN, *_CLOCKS, *_PYTHON}

# These packages name batches and fits at random; no answer depends on the names.
_MAY_NAME = ("joblib", "threadpoolctl", "sklearn.callback")
# These packages measure time, and their functions store nothing but caches.
_MAY_TIME = {
    *("joblib", "threadpoolctl", "sklearn", "numpy", "scipy", "pandas", "polars"),
    *("lightgbm", "sqlalchemy", "reticent"),
}
_STANDARD = sys.stdlib_module_names


@contextmanager
def watched(refuse: Callable[[str], None]) -> Iterator[None]:
    """Call `refuse` with a description if the block draws from other sources."""

    def hook(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            if getattr(called, "__name__", "") in _NAMES and not inside_audible_draw():
                touched = _touched(called, frame)
                if touched:
                    refuse(touched)
        elif (
            event == "call"
            and frame.f_code.co_name == "__call__"
            and frame.f_globals.get("__name__") == "opendp.mod"
            and not inside_audible_draw()
        ):
            refuse("OpenDP")

    # Callbacks of the garbage collector may read a clock; they do not belong to the
    # block.
    collects = gc.isenabled()
    gc.disable()
    before = sys.getprofile()
    sys.setprofile(hook)
    try:
        yield
        if sys.getprofile() is not hook:
            refuse("the interpreter's profiler, which watches it")
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()


def _touched(called: Any, frame: FrameType) -> str | None:
    name, owner = called.__name__, getattr(called, "__self__", None)
    if name in _PYTHON and isinstance(owner, random.Random):
        return None if _only_names(frame) else "Python's random module"
    module = owner.__name__ if isinstance(owner, ModuleType) else called.__module__
    if name in _BUILT_IN:
        modules, what = _BUILT_IN[name]
        return what if module in modules and not _only_names(frame) else None
    is_clock = module == "time" or (
        isinstance(owner, type) and owner.__module__ == "datetime"
    )
    if name in _CLOCKS and is_clock:
        return None if _package(_caller(frame)[0]) in _MAY_TIME else "a clock"
    return None


def _only_names(frame: FrameType) -> bool:
    """Whether the caller only names things at random, which no release depends on.

    In reticent all other randomness comes from `reticent.mechanisms`. If a release
    depends on a name after all, the second run of the path shows it.
    """
    caller, found = _caller(frame)
    if found is not None and found.f_code.co_name == "check_random_state":
        # NumPy asks for bits before it takes the seed that it was given.
        return found.f_locals.get("seed") is not None
    if _package(caller) == "reticent":
        return not caller.startswith(("reticent.audit", "reticent.mechanisms"))
    return caller.startswith(_MAY_NAME)


def _caller(frame: FrameType | None) -> tuple[str, FrameType | None]:
    """Return the first caller outside the standard library: its module and frame."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if _package(module) not in _STANDARD:
            return module, frame
        frame = frame.f_back
    return "", None


def _package(module: str) -> str:
    return module.partition(".")[0]


class Generators:
    """All pseudo-random generators in memory, and whether any was used since."""

    def __init__(self) -> None:
        kinds = (np.random.BitGenerator, random.Random)
        self._states = [
            (found, _state(found))
            for found in gc.get_objects()
            if isinstance(found, kinds) and not isinstance(found, random.SystemRandom)
        ]

    def moved(self) -> bool:
        """Whether one of them was used or seeded again."""
        return any(_state(found) != state for found, state in self._states)


def _state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    return _remembered(generator.state, set(), 0)


def memory_of(run: Callable[..., Any]) -> Any:
    """Return what a program stores between runs, as far as it can be found.

    Its closure, defaults, attributes, object and the variables of its module that it
    names are followed; two results of this function differ if one of them changed.
    """
    return _remembered(run, set(), 0)


def _remembered(value: Any, above: set[int], depth: int) -> Any:
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return (type(value).__name__, repr(value))
    if id(value) in above or depth > 12:
        return None
    above = {*above, id(value)}
    follow = partial(_remembered, above=above, depth=depth + 1)
    if isinstance(value, np.ndarray):
        return (value.shape, repr(value) if value.dtype == object else value.tobytes())
    if isinstance(value, (list, tuple)):
        return tuple(map(follow, value))
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(repr(follow(part)) for part in value))
    if isinstance(value, dict):
        return tuple((repr(follow(key)), follow(part)) for key, part in value.items())
    if isinstance(value, partial):
        return tuple(map(follow, (value.func, value.args, value.keywords)))
    if isinstance(value, MethodType):
        return (follow(value.__func__), follow(value.__self__))
    if isinstance(value, FunctionType):
        return _kept_by_function(value, follow)
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        return None if frame is None else (frame.f_lasti, follow(frame.f_locals))
    package = _package(type(value).__module__)
    if package in ("collections", "itertools", "numpy"):
        return repr(value)  # shows what is in it, or where it stands
    if isinstance(value, (type, ModuleType)) or package in _STANDARD:
        return None
    kept = getattr(value, "__dict__", None)
    slots = [
        getattr(value, name, None)
        for kind in type(value).__mro__
        for name in getattr(kind, "__slots__", ())
    ]
    return (follow(kept) if isinstance(kept, dict) else None, tuple(map(follow, slots)))


def _kept_by_function(run: FunctionType, follow: Callable[[Any], Any]) -> Any:
    package = _package(str(run.__module__))
    if package in _STANDARD or package in _MAY_TIME:
        return None
    names = {name for code in _codes(run.__code__) for name in code.co_names}
    module = [run.__globals__[name] for name in sorted(names & run.__globals__.keys())]
    cells = []
    for cell in run.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # not filled yet
            cells.append(None)
    parts = (cells, run.__defaults__, run.__kwdefaults__, run.__dict__, module)
    return tuple(follow(part) for part in parts)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
