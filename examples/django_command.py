"""Django: a management command of which no two run at the same time, on however many machines cron starts it.

In your project this is the file management/commands/rebuild_index.py of an application.
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

import coterie


class Command(BaseCommand):  # type: ignore[misc] # Django has no types
    """Rebuild the index, unless another process does."""

    help = "Rebuild the search index."

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the command; `COTERIE_URL` says where the lock is."""
        try:
            with coterie.sync.connect() as c, c.lock("rebuild-index", timeout=0) as held:
                self.stdout.write(f"rebuilding with token {held.token}")
        except coterie.AcquireTimeout as busy:
            raise CommandError(str(busy), returncode=busy.exit_status) from None
