"""FastAPI: one of many server processes does the work in the background, and no two handle one request.

Run it with as many workers as you like: uvicorn fastapi_app:app --workers 4
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI, HTTPException

import coterie

c = coterie.connect()  # each worker process imports this file, so each has its own
rounds: list[int] = []  # the tokens of the rounds that this process has done


async def lead() -> None:
    """Do the rounds for as long as this process leads; another one takes over when it ends."""
    while True:
        with contextlib.suppress(coterie.LockLost):
            async with c.elect("rounds") as term:
                while True:
                    rounds.append(term.token)
                    await asyncio.sleep(60)


@contextlib.asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Connect in the event loop of the worker, and stand for election as long as it serves."""
    async with c:
        leading = asyncio.create_task(lead())
        yield
        leading.cancel()
        await asyncio.wait([leading])


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{number}/invoice")
async def make_invoice(number: int) -> dict[str, int]:
    """Make an invoice, unless another request is at it."""
    try:
        async with c.lock(f"invoice:{number}", timeout=0) as held:
            return {"order": number, "fence": held.token}
    except coterie.AcquireTimeout as busy:
        raise HTTPException(409, str(busy)) from None
