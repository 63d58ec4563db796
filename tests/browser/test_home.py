"""The pages of the server in a real browser: the first admin, logging in and out, and what they list."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page

from takeup.app import App, open_app
from takeup.config import load
from takeup.core.model import Failure, WorkerSpec
from takeup.core.plan import NewJob
from tests.api.conftest import flow, served
from tests.api.visitors import PASSWORD, cheapen, person
from tests.store.scenes import claim_request, quarantine

CANARY = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>'\"&amp;"


@pytest.fixture
async def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    cheapen(monkeypatch)
    async with open_app(load({}, {"data_dir": tmp_path / "data"})) as opened:
        yield opened


@pytest.fixture
async def home(app: App) -> AsyncIterator[str]:
    async with served(app) as address:
        yield address


async def enter(page: Page, name: str, *passwords: str) -> None:
    await page.get_by_label("Name").fill(name)
    for label, password in zip(("Password", "Once more"), passwords, strict=False):
        await page.get_by_label(label).fill(password)
    await page.get_by_role("button").click()


async def test_the_first_admin_sets_up_leaves_and_comes_back(app: App, home: str, page: Page):
    link = await app.store.people.offer_setup()
    assert link is not None
    await page.goto(f"{home}/setup#{link.text}")
    assert page.url == f"{home}/setup"
    await enter(page, "Ann", PASSWORD, "seven red kettles")
    await page.get_by_text("not the same").wait_for()
    await enter(page, "Ann", PASSWORD, PASSWORD)
    await page.get_by_text("Ann, admin").wait_for()
    await page.get_by_text("No job yet.").wait_for()
    await page.get_by_text("No worker yet.").wait_for()
    (kept,) = await page.context.cookies()
    assert (kept["name"], kept["httpOnly"], kept["secure"], kept["sameSite"]) == ("takeup", True, True, "Lax")
    await page.get_by_role("button", name="Log out").click()
    await page.wait_for_url(f"{home}/login")
    assert await page.context.cookies() == []
    await page.goto(f"{home}/")
    assert page.url == f"{home}/login"
    await page.goto(f"{home}/login?next=//evil.example/")
    await enter(page, "Ann", "seven red kettles")
    await page.get_by_text("do not belong together").wait_for()
    await enter(page, "Ann", PASSWORD)
    await page.get_by_text("Ann, admin").wait_for()
    assert page.url == f"{home}/"


async def test_s102_what_is_listed_is_text(app: App, home: str, page: Page):
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    await person(app, CANARY[:64])
    (done, live) = await app.store.operator.submit(
        [NewJob(flow, subject=f"{CANARY} {n}", priority=n) for n in (9, 1)]
    )
    await app.store.worker.register(WorkerSpec("w", name=CANARY, slots=2))
    (lease,) = await app.store.worker.claim(claim_request("w"))
    assert lease.job_id == done
    await app.store.worker.fail("w", [Failure(lease.held, CANARY, retryable=False)])
    await page.goto(home)
    await enter(page, CANARY[:64], PASSWORD)
    await page.get_by_text(f"{CANARY[:64]}, admin").wait_for()
    failed, waiting = page.locator(".jobs tbody tr").nth(0), page.locator(".jobs tbody tr").nth(1)
    rows = {await row.inner_text(): row for row in (failed, waiting)}
    (told,) = [text for text in rows if "failed" in text]
    assert told.count(CANARY) == 2, told
    (other,) = [text for text in rows if "pending" in text]
    assert f"{CANARY} 1" in other
    assert "0 %" in other
    assert "0/2" in await page.locator(".workers tbody tr").inner_text()
    assert CANARY in await page.locator(".workers tbody tr").inner_text()
    assert await page.title() == "Takeup"
    assert await page.locator("img").count() == 0
    assert said == []
    assert live


async def test_a_quarantined_worker_is_seen_with_its_reason(app: App, home: str, page: Page):
    await person(app, "Ann")
    await quarantine(app.store)
    await page.goto(home)
    await enter(page, "Ann", PASSWORD)
    row = page.locator(".workers tbody tr").filter(has_text="broken")
    await row.get_by_text("quarantined: it failed 1 tasks within 60 s").wait_for()
