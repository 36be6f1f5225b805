"""Logs of a node: lines for people, or one JSON object per line for programs."""

from __future__ import annotations

import logging
import time

import msgspec

TEXT = "%(asctime)s %(levelname)s %(message)s [%(event)s]"


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Write time, level, logger, message, and the event and the traceback if there are such."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if event := getattr(record, "event", ""):
            fields["event"] = str(event)
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()


def make_formatter(form: str) -> logging.Formatter:
    """Return what writes records as `json` or as `text`, with the name of the event in both."""
    if form == "json":
        return JsonFormatter()
    return logging.Formatter(TEXT, defaults={"event": "-"})


def log_to_stderr(form: str, *, verbose: bool) -> None:
    """Log what nodes do."""
    handler = logging.StreamHandler()
    handler.setFormatter(make_formatter(form))
    logger = logging.getLogger("coterie")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
