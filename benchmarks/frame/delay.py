"""A TCP relay that hands every byte on so many seconds later: ``delay.py PORT TARGET SECONDS``."""

import asyncio
import contextlib
import sys

port, target, late = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction: each piece leaves ``late`` seconds after it came, in order."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def send() -> None:
        while True:
            at, data = await pieces.get()
            await asyncio.sleep(max(0.0, at - loop.time()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
        writer.close()

    sender = asyncio.create_task(send())
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            pieces.put_nowait((loop.time() + late, data))
    pieces.put_nowait((loop.time() + late, b""))
    with contextlib.suppress(ConnectionError):
        await sender


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection; making it takes a way there and back too."""
    await asyncio.sleep(2 * late)
    there, back = await asyncio.open_connection("127.0.0.1", target)
    await asyncio.gather(hand_on(reader, back), hand_on(there, writer))


async def main() -> None:
    """Serve for ever."""
    server = await asyncio.start_server(relay, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


asyncio.run(main())
