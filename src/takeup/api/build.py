"""Puts the edge together: routes, errors, who may pass."""

from collections.abc import Mapping

from fastapi import FastAPI

from takeup import __version__
from takeup.api import (
    document,
    events,
    health,
    jobs,
    login,
    people,
    problems,
    progress,
    pulls,
    streams,
    uploads,
    videos,
    web,
    webhooks,
    worker_calls,
    worker_files,
    workers,
)
from takeup.api.cookies import Cookies
from takeup.api.desk import Desk
from takeup.api.edge import Edge, rooms_of
from takeup.api.gate import Gate
from takeup.api.lobby import Lobby
from takeup.app import App
from takeup.core.pipeline import Pipeline

ROUTERS = (
    jobs.router,
    progress.router,
    videos.router,
    uploads.router,
    pulls.router,
    workers.workers,
    workers.keys,
    people.router,
    login.strangers,
    login.own,
    worker_calls.entrance,
    worker_calls.router,
    worker_files.router,
    events.router,
    webhooks.router,
    health.router,
    streams.router,
    web.router,
)
ABOUT = "Jobs, videos, people, keys, webhooks and workers. Errors are problem documents (RFC 9457)."


def build_api(
    app: App, offered: Mapping[str, Pipeline], pipelines: Mapping[str, Pipeline] | None = None
) -> FastAPI:
    """The application over this database, for jobs of the pipelines that are offered.

    Workers may run stages of all `pipelines`, of which some may only be used by the server itself.
    """
    known = dict(offered if pipelines is None else pipelines)
    api = routes()
    api.state.takeup = app
    api.state.pipelines = dict(offered)
    api.state.known_pipelines = known
    api.state.gate = Gate(app.store.keys, app.store.people, Cookies(insecure=app.settings.insecure_cookies))
    api.state.desk = Desk(app.store.people)
    api.state.slugs = streams.Slugs(app.store.videos)
    api.state.lobby = Lobby(app.bell, app.store.read)
    api.state.receiving = app.receiving(known)
    api.state.feed = app.feed()
    api.state.beside = [api.state.lobby.run, api.state.feed.close_at]
    api.state.connections_max = app.settings.connections_max
    problems.install(api)
    hosts = frozenset(name.strip().lower() for name in app.settings.allowed_hosts.split(",") if name.strip())
    calls = api.state.calls = [route for router in ROUTERS for route in router.routes]
    api.add_middleware(Edge, hosts=hosts, rooms=rooms_of(calls, app.intake.limits.bytes_max))
    return api


def routes() -> FastAPI:
    """Every call there is; its `openapi()` is the document that the calls are held to."""
    api = FastAPI(
        title="Takeup",
        version=__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in ROUTERS:
        api.include_router(router)
    document.install(api)
    return api
