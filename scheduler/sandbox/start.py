"""A fresh cluster: a store with Kubernetes' rules, its system namespaces and priority classes, and
our CRDs.

store = new_store(RealClock())
"""

from functools import cache
from importlib import resources
from typing import Final

import yaml

from scheduler.base.clock import Clock
from scheduler.controlplane.admission import SYSTEM_CLASSES
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.kinds import kinds
from scheduler.sandbox.kinds.crd import Definitions
from scheduler.sandbox.kinds.defaults import ApiRules
from scheduler.sandbox.kinds.typetable import type_table
from scheduler.sandbox.store.store import ObjectStore

SYSTEM_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


def new_store(
    clock: Clock,
    *,
    seed: int | None = None,
    history: int = 16_384,
    with_crds: bool = True,
    release: str = kinds.RELEASES[0],
) -> ObjectStore:
    """Return an empty cluster.

    `history` is the number of changes per kind that watches may resume from. `release` is the
    Kubernetes whose kinds of groups it serves.
    """
    type_table()  # read now: files must not be read once requests are served
    rules = ApiRules()
    store = ObjectStore(
        clock,
        rules,
        kinds.Kinds(kinds.of_release(release), release=release),
        seed=seed,
        history=history,
    )
    rules.definitions = Definitions(store)
    for name in SYSTEM_NAMESPACES:
        store.create(kinds.NAMESPACES, {"metadata": {"name": name}})
        store.create(kinds.SERVICEACCOUNTS, {"metadata": {"name": "default"}}, name)
    for name, value in SYSTEM_CLASSES.items():
        store.create(kinds.PRIORITYCLASSES, {"metadata": {"name": name}, "value": value})
    store.create(kinds.SERVICES, _kubernetes_service(), "default")
    store.create(
        kinds.CONFIGMAPS,
        {"metadata": {"name": "extension-apiserver-authentication"}, "data": {}},
        "kube-system",
    )
    if with_crds:
        load_crds(store)
    store.forget_history()
    return store


def load_crds(store: ObjectStore) -> None:
    """Create every definition of the `crds` folder."""
    for document in _definitions():
        store.create(kinds.CUSTOMRESOURCEDEFINITIONS, document)


@cache
def _definitions() -> tuple[Object, ...]:
    found: list[Object] = []
    # libyaml, if installed, reads the folder in a tenth of the time.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for entry in sorted(resources.files("crds").iterdir(), key=lambda item: item.name):
        if entry.name.endswith((".yaml", ".yml")):
            text = entry.read_text(encoding="utf-8")
            found += [document for document in yaml.load_all(text, loader) if document]
    return tuple(found)


def _kubernetes_service() -> dict[str, object]:
    return {
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    }
