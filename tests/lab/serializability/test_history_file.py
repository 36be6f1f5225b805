"""Histories are read from JSON lines, and what is wrong with one is told with its line."""

from __future__ import annotations

import pytest

from coterie.errors import UsageError
from coterie.lab.serializability import check
from coterie.transactions.history import (
    History,
    HistoryAccess,
    HistoryEvent,
    TransactionOutcome,
    identity,
    parse_history,
)

COMMIT = '{"transaction": 1, "op": "commit"}'


def read(*lines: str) -> History:
    return parse_history("\n".join(lines).encode())


def write(name: object, key: str, value: str, more: str = "") -> str:
    return f'{{"transaction": {name}, "op": "write", "key": "{key}", "value": {value}{more}}}'


def test_a_history_has_the_accesses_and_the_outcome_of_each_transaction() -> None:
    history = read(
        '{"transaction": "a", "op": "read", "key": "x", "value": null}',
        "",
        '{"transaction": "b", "op": "abort", "at": "10:31"}',
        '{"transaction": "a", "op": "write", "key": 7, "value": [1], "version": [3, 1]}\r',
        '{"transaction": "a", "op": "commit"}',
        '{"transaction": "c", "op": "read", "key": "x", "value": 1}',
    )
    a, b, c = history.transactions.values()
    assert a.accesses == [
        HistoryAccess(1, "read", "x", None, None),
        HistoryAccess(4, "write", 7, [1], (3, 1)),
    ]
    assert [t.outcome for t in (a, b, c)] == [
        TransactionOutcome.COMMITTED,
        TransactionOutcome.ABORTED,
        TransactionOutcome.UNKNOWN,
    ]
    assert (a.first, a.last) == (1, 5)


def test_a_transaction_begins_once_and_before_anything_else() -> None:
    begin = '{"transaction": 1, "op": "begin"}'
    (transaction,) = read(begin, "", write(1, "x", "1")).transactions.values()
    assert (transaction.first, transaction.last) == (1, 3)
    for earlier in (begin, write(1, "x", "1")):
        with pytest.raises(UsageError, match="line 2: 1 has already begun on line 1"):
            read(earlier, begin)


def test_a_byte_order_mark_and_an_empty_file_are_fine() -> None:
    assert list(parse_history(b"\xef\xbb\xbf" + COMMIT.encode()).transactions) == [1]
    assert not parse_history(b"").transactions


def test_events_can_be_added_by_a_program() -> None:
    history = History()
    history.add(HistoryEvent("T1", "write", "x", 1))
    history.add(HistoryEvent("T1", "commit"))
    with pytest.raises(UsageError, match="line 3: T1 has committed on line 2 and can do nothing"):
        history.add(HistoryEvent("T1", "read", "x", 1))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: Input data was truncated"),
        ("[]", "line 2: Expected `object`, got `array`"),
        ('{"op": "commit"}', "line 2: .* missing required field `transaction`"),
        ('{"transaction": 2}', "line 2: .* missing required field `op`"),
        ('{"transaction": true, "op": "commit"}', "line 2: .*`transaction`"),
        (
            '{"transaction": 2, "op": "delete"}',
            "line 2: op must be one of begin, read, write, append, commit",
        ),
        ('{"transaction": 2, "op": "read", "value": 1}', "line 2: a read needs a key"),
        ('{"transaction": 2, "op": "read", "key": "x"}', "line 2: a read needs a value .null for"),
        ('{"transaction": 2, "op": "write", "key": "x"}', "line 2: a write needs a value$"),
        (write(2, "x", "null"), "line 2: a write of null needs a version"),
        (write(2, "x", "1", ', "version": "new"'), "line 2: .*`version`"),
        (COMMIT, "line 2: 1 has committed on line 1"),
        ("[" * 100_000, "line 2: "),
    ],
)
def test_a_bad_line_is_told_by_its_number(line: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        read(COMMIT, line)


def test_bytes_that_are_no_text_are_told_by_their_line() -> None:
    with pytest.raises(UsageError, match="line 2: "):
        parse_history(COMMIT.encode() + b'\n{"transaction": "\xff", "op": "commit"}')


def refused(*lines: str) -> str:
    with pytest.raises(UsageError) as error:
        check(read(*lines))
    return str(error.value)


def test_without_versions_the_values_of_a_key_must_differ() -> None:
    text = refused(write(1, "x", "5"), write(2, "y", "5"), write(2, "x", "5"))
    assert text == (
        "line 3: x = 5 was written on line 1, too; without versions, the values of a key must differ"
    )


def test_values_are_equal_as_in_json() -> None:
    """True is not 1, the order of an object's members means nothing, and NaN is itself."""
    assert identity(float("nan")) == identity(float("nan")) != identity(None)
    assert check(read(write(1, "x", "1"), write(1, "x", "true"), COMMIT)).serializable
    assert "line 2" in refused(write(1, "x", '{"a":1,"b":2}'), write(1, "x", '{"b":2,"a":1}'))


def test_with_versions_values_may_recur_if_reads_tell_the_version() -> None:
    lines = [
        write(1, "x", "5", ', "version": 1'),
        COMMIT,
        write(2, "x", "5", ', "version": 2'),
        '{"transaction": 2, "op": "commit"}',
    ]
    see = '{"transaction": 3, "op": "read", "key": "x", "value": 5%s}'
    end = '{"transaction": 3, "op": "commit"}'
    assert "line 5: x = 5 may be of several versions" in refused(*lines, see % "", end)
    report = check(read(*lines, see % ', "version": 1', end))
    assert report.order == (1, 3, 2)


def test_all_committed_writes_of_a_key_state_a_version_or_none_does() -> None:
    text = refused(
        write(1, "x", "1", ', "version": 1'),
        write(2, "x", "2"),
        COMMIT,
        '{"transaction": 2, "op": "commit"}',
    )
    assert text == "line 2: other writes of x state a version, this does not"


def test_a_version_has_one_writer() -> None:
    text = refused(
        write(1, "x", "1", ', "version": [4, 1]'),
        write(2, "x", "2", ', "version": [4, 1]'),
        COMMIT,
        '{"transaction": 2, "op": "commit"}',
    )
    assert text == "line 2: 1 has written version [4, 1] of x, too"


def test_versions_of_a_key_can_be_compared() -> None:
    text = refused(
        write(1, "x", "1", ', "version": 4'),
        write(2, "x", "2", ', "version": [4, 1]'),
        COMMIT,
        '{"transaction": 2, "op": "commit"}',
    )
    assert "the versions of x are numbers and lists" in text
