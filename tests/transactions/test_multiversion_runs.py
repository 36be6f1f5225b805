"""Multiversion timestamp ordering with rules broken, and its readers in storms."""

from __future__ import annotations

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
        Multiversion,
        "chain.versions.insert(chain.place(stamp), version)",
        "chain.versions.append(version)",
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
        Multiversion,
        "del chain.versions[chain.place(active.attempt.stamp) - 1]",
        "chain.at(active.attempt.stamp).pending = False",
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
    "all versions before the horizon are dropped": Mutant(
        Chain,
        "useless = min(self.place(horizon), decided) - 1",
        "useless = min(self.place(horizon), decided, len(self.versions) - 1)",
    ),
    "pending versions are dropped": Mutant(
        Chain,
        "not self.versions[decided].pending",
        "True",
    ),
    "who needs a dropped version gets the oldest that is left": Mutant(
        Chain,
        "return self.versions[place - 1] if place else None",
        "return self.versions[place - 1 if place else 0]",
    ),
}


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
