"""The page about the API in a real browser: all that the document holds, and nothing from elsewhere."""

from playwright.async_api import Page, Request

from takeup.app import App
from tests.api.visitors import PASSWORD, person
from tests.browser.test_home import app, enter, home

__all__ = ["app", "home"]


async def test_every_call_is_told_and_found(home: str, page: Page):
    said: list[str] = []
    asked: list[Request] = []

    def remember(request: Request) -> None:
        asked.append(request)

    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", remember)
    await page.goto(f"{home}/docs")
    document = await (await page.request.get(f"{home}/openapi.json")).json()
    names = [f"{m.upper()}{path}" for path, calls in document["paths"].items() for m in calls]
    calls = page.locator(".calls details")
    await calls.first.wait_for()
    assert sorted(await page.locator(".calls summary code").all_inner_texts()) == sorted(names)
    for box in await calls.all():
        await box.locator("summary").click()
    await page.locator(".calls h3", has_text="Statuses").nth(len(names) - 1).wait_for()
    assert "undefined" not in await page.locator(".calls").inner_text()
    create = page.locator("#create_api_jobs_post")
    told = await create.inner_text()
    for words in (
        "Needs the scope write.",
        "idempotency-key",
        '"priority": integer',
        "≤ 10",
        "usually 5",
        "409",
    ):
        assert words in told, words
    await page.get_by_role("searchbox").fill("post jobs cancel")
    assert await page.locator(".calls details:visible").count() == 1
    assert "/api/jobs/{job_id}/cancel" in await page.locator(".calls details:visible").inner_text()
    assert said == []
    assert {one.url.removeprefix(home).partition("/")[0] for one in asked} == {""}, (
        "all of it comes from here"
    )


async def test_a_call_is_linked_and_the_page_is_found_from_home(app: App, home: str, page: Page):
    await page.goto(f"{home}/docs#claim_api_worker_claim_post")
    await page.get_by_text("Needs the scope worker.").wait_for()
    await person(app)
    await page.goto(f"{home}/login")
    await enter(page, "Ann", PASSWORD)
    await page.get_by_role("link", name="API").click()
    await page.wait_for_url(f"{home}/docs")
