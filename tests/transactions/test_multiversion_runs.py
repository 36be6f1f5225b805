"""Multiversion timestamp ordering with rules broken, and its readers in storms."""

from __future__ import annotations

import pytest

from coterie.transactions.schemes.multiversion import Multiversion
from coterie.transactions.schemes.multiversion.chain import Chain, Version
from tests.transactions.desk import page
from tests.transactions.mutants import Mutant
from tests.transactions.stamped import CollectingMultiversion, outcomes
from tests.transactions.storms import storm

MUTANTS = {
    "a write behind a later read is granted": Mutant(
        Multiversion, "if stamp < before.read:", "if False:"
    ),
    "reads wait for nobody": Mutant(
        Multiversion, "return None if version.pending else version", "return version"
    ),
    "reads see the newest version": Mutant(
        Multiversion,
        "version = self.table.items[key].at(active.attempt.stamp)\n        if version is None:\n"
        "            return self._too_old(active, key)\n",
        "version = self.table.items[key].versions[-1]\n",
    ),
    "a version takes its place in the order of commits": Mutant(
        Chain, "self.versions.insert(place, pending)", "self.versions.append(pending)"
    ),
    "versions remember no readers": Mutant(
        Version, "if self.read < active.attempt.stamp:", "if False:"
    ),
    "read stamps belong to keys, and a later write clears them": Mutant(
        Multiversion, "before = chain.at(stamp)", "before = chain.versions[-1]"
    ),
    "the version that is not there has no read stamp": Mutant(
        Multiversion, "Version(NOTHING, read=self.unwritten.at(key))", "Version(NOTHING)"
    ),
    "an aborted insertion forgets who saw that there was no key": Mutant(
        Multiversion,
        "self.unwritten.mark(Span.of(key), chain.versions[0].read)",
        "pass",
    ),
    "an aborted version stays": Mutant(
        Chain,
        "        del self.versions[place]\n",
        "        self.versions[place].pending = False\n",
    ),
    "nobody is told that a version was decided": Mutant(
        Multiversion, "self._again(woken, ended, out)", "pass"
    ),
    "a restart loses the read stamps of keys": Mutant(
        Multiversion, "Version(item.number, item, read=now)", "Version(item.number, item)"
    ),
    "a restart loses the read stamps between keys": Mutant(
        Multiversion, "self.unwritten.mark(Span(), now)", "pass"
    ),
}
COLLECTING_MUTANTS = {
    "a version that a transaction under way could see is dropped": Mutant(
        Chain,
        "end > promised or _any_within(under_way, version.number, end):",
        "end > promised:",
    ),
    "a pending version counts as the next one": Mutant(
        Chain,
        "            if not version.pending:\n                after = version.number\n",
        "            after = version.number\n",
    ),
    "who needs a dropped version gets the oldest that is left": Mutant(
        Chain,
        "        if not place:\n            return None\n",
        "        place = place or 1\n",
    ),
}


@pytest.mark.slow
def test_where_transactions_begin_in_order_readers_are_never_refused() -> None:
    """2.4 a: though versions are dropped all the time."""
    committed = 0
    for seed in range(100):
        trial = storm(CollectingMultiversion(), seed, operations="rrs", in_order=True, aborts=0)
        assert "refused" not in outcomes(trial)
        mixed = storm(CollectingMultiversion(), seed, in_order=True, aborts=0)
        for runner in mixed.runners.values():
            if runner.state == "refused":
                assert any(request.op in "wd" for request in runner.script)
            committed += runner.state == "committed"
    assert committed > 1000


def test_the_page_tells_how_many_rules_were_broken() -> None:
    told = f"{len(MUTANTS)} rules broken, and {len(COLLECTING_MUTANTS)} of"
    assert told in " ".join(page("multiversion").split())
