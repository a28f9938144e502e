"""The examples do what they say."""

import asyncio
import importlib.util
import types
from pathlib import Path

import httpx

EXAMPLES = Path(__file__).parents[3] / "examples"


def example(name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_coordinator_is_mounted_inside_another_application() -> None:
    app = example("embedded_asgi").app

    async def scenario() -> None:
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as http,
        ):
            hello = await http.get("/hello")
            made = await http.post(
                "/coordinator/coord/v1/streams/orders", json={"requestedBy": "ops", "initialShardCount": 4}
            )
            ready = await http.get("/coordinator/readyz")

        assert (hello.text, ready.json()) == ("hello", {"status": "UP"})
        assert (made.status_code, made.json()["shardCount"]) == (201, 4)

    asyncio.run(scenario())


def test_everything_runs_in_one_process_without_http_or_redis() -> None:
    assert asyncio.run(example("embedded_inprocess").main(records=20)) == 20


def test_an_application_is_tested_without_any_server() -> None:
    tested = example("tested_app")

    tests = [value for name, value in vars(tested).items() if name.startswith("test_")]

    assert len(tests) == 2
    for test in tests:
        test()
