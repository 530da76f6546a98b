"""Engines of many nodes whose metrics pages are large: one program, one port per node."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable

from aiohttp import web

_SERIES = 'other:histogram_bucket{{engine="0",le="{0}",model_name="m"}} 123456.0\n'
_GPU = {
    "DEV_FB_TOTAL": 80_000,
    "DEV_FB_FREE": 10_000,
    "DEV_GPU_UTIL": 30,
    "PROF_PCIE_TX_BYTES": 5e7,
    "PROF_PCIE_RX_BYTES": 5e7,
}


def command(page_bytes: int, ports: Iterable[int]) -> list[str]:
    return [sys.executable, "-m", __name__, str(page_bytes), *map(str, ports)]


def metrics_page(size: int) -> bytes:
    """vLLM's signals in the middle of a page of at least that size."""
    lines = [_SERIES.format(number) for number in range(size // len(_SERIES.format(10_000)) + 1)]
    lines.insert(
        len(lines) // 2,
        'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_waiting{engine="0"} 0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="27000",engine="0"} 1\n'
        f"process_start_time_seconds {time.time()}\n",
    )
    return "".join(lines).encode()


async def serve(page_bytes: int, *ports: int) -> None:
    page = metrics_page(page_bytes)
    series = [f'DCGM_FI_{name}{{UUID="GPU-0"}} {value}\n' for name, value in _GPU.items()]
    gpu_page = "".join(series).encode()

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=page, content_type="text/plain")

    async def gpus(_: web.Request) -> web.Response:
        return web.Response(body=gpu_page, content_type="text/plain")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/gpus", gpus)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    for port in ports:
        await web.TCPSite(runner, "127.0.0.1", port).start()
    print(len(page), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:])))
