"""What `takeup keys` does."""

import argparse

from takeup.cli.opening import open_store
from takeup.cli.printing import age, line, plain, print_json, table
from takeup.core.access import ROLES, ApiKey, Scope
from takeup.core.errors import InvalidInput
from takeup.store.keys import KeyStore
from takeup.store.ops.keys import PAGE_MAX


async def create(options: argparse.Namespace) -> int:
    """Make a key and print it."""
    scopes = scopes_of(options)
    async with open_store(options) as (store, _):
        key = await store.keys.add(options.name, scopes, worker_id=options.worker, life_days=options.days)
    if options.json:
        print_json({"id": key.id, "key": key.text, "scopes": sorted(scopes)})
    else:
        line(key.text)
    return 0


def scopes_of(options: argparse.Namespace) -> frozenset[Scope]:
    """What the new key opens."""
    if options.worker is not None:
        if options.scope or options.role:
            raise InvalidInput(
                "a key of a worker is for its calls alone", advice="Leave --scope and --role out."
            )
        return frozenset({"worker"})
    if options.scope and options.role:
        raise InvalidInput("--role and --scope say the same thing", advice="Give one of them.")
    return frozenset(options.scope) if options.scope else ROLES[options.role or "viewer"]


async def show_list(options: argparse.Namespace) -> int:
    """Print the keys that can be used, or all of them."""
    async with open_store(options) as (store, _):
        keys = await all_keys(store.keys)
        now = await store.read.now()
    shown = [key for key in keys if options.all or key.revoked_at is None]
    if options.json:
        print_json([plain(key) for key in shown])
        return 0
    rows = [
        (
            key.id,
            key.name,
            key.worker_id,
            ", ".join(sorted(key.scopes)),
            age(key.created_at, now),
            age(key.last_used_at, now) if key.last_used_at else None,
            "revoked" if key.revoked_at else key.expires_at,
        )
        for key in shown
    ]
    table(("id", "name", "worker", "scopes", "made", "used", "until"), rows)
    return 0


async def all_keys(store: KeyStore) -> list[ApiKey]:
    """Page by page."""
    keys: list[ApiKey] = []
    while True:
        page = await store.list(after=keys[-1].id if keys else "", limit=PAGE_MAX)
        keys += page
        if len(page) < PAGE_MAX:
            return keys


async def revoke(options: argparse.Namespace) -> int:
    """End these keys."""
    ids = list(dict.fromkeys(options.keys))
    async with open_store(options) as (store, _):
        changed = [key_id for key_id in ids if await store.keys.revoke(key_id)]
    if options.json:
        print_json({"changed": changed, "unchanged": [i for i in ids if i not in changed]})
        return 0
    for key_id in ids:
        line(f"{key_id} {'is revoked' if key_id in changed else 'was revoked already'}")
    return 0
