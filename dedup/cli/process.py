"""A command as a process: its streams, signals, errors and exit status."""

import contextlib
import io
import logging
import math
import os
import select
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec

from dedup.display import hide_secrets, printable
from dedup.errors import DedupError

Given = ParamSpec("Given")
STREAMS = ("stdin", "stdout", "stderr")
STOPS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a job in order: a scheduler's request, and the close of its terminal."""
REPEAT_SECONDS = 5
"""Seconds after a signal in which another says the same."""


def command(main: Callable[Given, int]) -> Callable[Given, int]:
    """Wrap a command's main function: print its errors, end in order on a signal, and quietly when no reader is left.

    Parameters
    ----------
    main
        Returns the exit status. A reader that has gone, such as `head`, has read enough: the status is 0 then.
    """

    @wraps(main)
    def answer(*given: Given.args, **named: Given.kwargs) -> int:
        open_closed()
        if isinstance(sys.stdout, io.TextIOWrapper):
            # Ids and texts have characters that the terminal's encoding may lack.
            sys.stdout.reconfigure(errors="backslashreplace")
        stopped = stop_on_signals()
        try:
            try:
                return main(*given, **named)
            except (Exception, KeyboardInterrupt, SystemExit) as error:
                if stopped or isinstance(error, KeyboardInterrupt):
                    return tell_stop(stopped)
                if isinstance(error, DedupError):
                    return tell_error(error)
                raise
            finally:
                # --help too: as Python ends there is nobody to tell.
                if sys.stdout is not None:
                    sys.stdout.flush()
        except Exception as error:  # noqa: BLE001 - whatever it is, the user gets an answer and the exit code says so
            status = 0 if isinstance(error, OSError) and not _is_read() else tell_error(error)
            mute()
            return status
        finally:
            # A terminal that is gone has taken no message, which is no other status.
            try:
                if sys.stderr is not None:
                    sys.stderr.flush()
            except OSError:
                mute(2)

    return answer


def stop_on_signals() -> list[signal.Signals]:
    """End Spark on a signal, and with it every wait for Spark; return the list that the signal will be appended to."""
    stopped: list[signal.Signals] = []
    last = -math.inf

    def stop(number: int, _: object) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        # A shell tells the close of a terminal after the terminal itself: amid the end it would leave processes behind.
        if last - before < REPEAT_SECONDS:
            return
        stopped.append(signal.Signals(number))
        pyspark = sys.modules.get("pyspark")
        context = pyspark and pyspark.SparkContext._active_spark_context  # noqa: SLF001 - to start none
        if not context:
            raise SystemExit(128 + number)
        # Steps that ask Spark from now on fail, of which there is nothing to tell.
        logging.getLogger("dedup.informing").setLevel(logging.CRITICAL)
        # PySpark warns of a JVM that has ended by itself, as where it got the signal too.
        warnings.simplefilter("ignore", RuntimeWarning)
        # This thread is amid a call to the JVM and cannot make another.
        threading.Thread(target=end, args=(context,), daemon=True).start()

    def end(context: Any) -> None:  # noqa: ANN401 - a SparkContext, where Spark is there
        # The run ends it too, as it is left: what comes second finds its socket gone.
        with contextlib.suppress(Exception):
            context.stop()

    is_main = threading.current_thread() is threading.main_thread()
    for each in STOPS if is_main else ():
        # nohup has it ignored.
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, stop)
    return stopped


def open_closed() -> None:
    """Open to nowhere what the caller has closed of stdin, stdout and stderr, before another file takes its number."""
    while (number := os.open(os.devnull, os.O_RDWR)) < len(STREAMS):
        os.set_inheritable(number, True)  # noqa: FBT003 - its second parameter
        if getattr(sys, STREAMS[number]) is None:
            setattr(sys, STREAMS[number], open(number, "r+" if number else "r"))  # noqa: PTH123, SIM115 - for good
    os.close(number)


def _is_read() -> bool:
    """Tell whether a reader of stdout, if it has one, is still there; broken connections to others are faults."""
    poll = select.poll()
    poll.register(1, 0)
    return not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def mute(number: int = 1) -> None:
    """Redirect stdout, or stderr, to nowhere, since Python would try to flush the rest as it ends, and fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def tell_error(error: BaseException) -> int:
    """Print one line for an error that a user can mend, a traceback for any other; return the exit status, 2 or 1."""
    if isinstance(error, DedupError):
        print_error(printable(hide_secrets(str(error))))
        return 2
    if isinstance(error, MemoryError):
        cause = " ".join(str(error).split()) or "no more is given"
        print_error(
            f"memory ran out ({cause}); free some, or raise the limit that this process has (ulimit -v) and repeat the "
            "command"
        )
        return 2
    with contextlib.suppress(OSError):
        print(hide_secrets("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    return 1


def tell_stop(stopped: Sequence[signal.Signals], rest: str = "") -> int:
    """Print a line for a command that a signal, by default that of Ctrl-C, has ended; return the exit status."""
    by = stopped[0] if stopped else signal.SIGINT
    print_error((f"stopped by {by.name}" if stopped else "interrupted") + rest)
    return 128 + by


def print_error(text: str) -> None:
    """Print a line for the user, whose terminal may be closed by now."""
    with contextlib.suppress(OSError):
        print(f"dedup: {text}", file=sys.stderr)
