"""Logs of a node: lines for people, or one JSON object per line for programs."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping

import msgspec

TEXT = "%(asctime)s %(levelname)s %(message)s [%(event)s]"


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float) else str(value)


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Write time, level, logger and message, the event and its values, and a traceback if any."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if event := getattr(record, "event", ""):
            fields["event"] = str(event)
        if isinstance(record.args, Mapping):  # the values that the message names
            fields |= {name: _plain(value) for name, value in record.args.items()}
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        line = msgspec.json.encode(fields).decode()
        # Other programs may have written some of it: a terminal obeys characters that JSON allows.
        return line if line.isprintable() else json.dumps(json.loads(line))


class LineFormatter(logging.Formatter):
    """Writes a record as a line, whatever its values are; a traceback follows on lines of its own."""

    def __init__(self) -> None:
        """Prepare."""
        super().__init__(TEXT, defaults={"event": "-"})

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """Write the line, with an escape for what a terminal would obey."""
        line = super().formatMessage(record)
        if line.isprintable():
            return line
        return "".join(each if each.isprintable() else repr(each)[1:-1] for each in line)


def make_formatter(form: str) -> logging.Formatter:
    """Return what writes records as `json` or as `text`, with the name of the event in both."""
    if form == "json":
        return JsonFormatter()
    return LineFormatter()


def log_to_stderr(form: str, *, verbose: bool) -> None:
    """Log what nodes do."""
    handler = logging.StreamHandler()
    handler.setFormatter(make_formatter(form))
    logger = logging.getLogger("coterie")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
