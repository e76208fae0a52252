"""The kubeconfig with which kubectl, helm and the daemon reach a sandbox."""

import base64
from pathlib import Path

import yaml

_NAME = "trellis-sandbox"


def write_kubeconfig(path: Path, url: str, authority: bytes, token: str) -> Path:
    """Write a kubeconfig with one context, readable by its owner only."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": _NAME,
                "cluster": {
                    "server": url,
                    "certificate-authority-data": base64.b64encode(authority).decode(),
                },
            }
        ],
        "users": [{"name": _NAME, "user": {"token": token}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        "current-context": _NAME,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written to a temporary file and renamed: a reader never reads half a file.
    fresh = path.with_name(path.name + ".new")
    fresh.touch(mode=0o600)
    fresh.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return fresh.replace(path)
