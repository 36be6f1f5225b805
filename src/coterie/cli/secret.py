"""`coterie secret`: a random secret for a cluster or its operators."""

from __future__ import annotations

import click

from coterie import system

SECRET_BYTES = 32


@click.command("secret")
def command() -> None:
    """Print a random secret, for the file of a cluster or of its operators.

    \b
      (umask 077; coterie secret > secret)

    A secret has to be random: who can reach a node may try words against its proofs as fast as a
    machine computes them, without another connection.
    """  # noqa: D301 - Click needs the character itself
    click.echo(system.secret(SECRET_BYTES).hex())
