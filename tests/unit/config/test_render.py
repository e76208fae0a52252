"""The shown and stored forms of a configuration contain no private key."""

import base64
import json

from scheduler.config import load, to_configz, to_log, to_yaml
from scheduler.intree import registry

KEY = base64.b64encode(b"-----BEGIN PRIVATE KEY-----\nmust stay secret").decode()
TEXT = f"""apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: https://open.example/
  filterVerb: filter
- urlPrefix: https://closed.example/
  filterVerb: filter
  enableHTTPS: true
  tlsConfig:
    certData: Y2VydA==
    keyData: {KEY}
"""


def test_private_keys_are_hidden():
    """/configz and decision logs lack private keys.

    All other settings are present, and a log's text still loads.
    """
    loaded = load(TEXT, file="f", registry=registry())
    shown, logged = json.dumps(to_configz(loaded)), to_log(loaded, TEXT)
    again = load(logged, file="log", registry=registry())

    assert KEY in to_yaml(loaded)
    for text in (shown, logged):
        assert KEY not in text
        assert "REDACTED" in text
        assert "Y2VydA==" in text
    assert loaded.profiles == again.profiles
    assert [one.url_prefix for one in again.scheduler.extenders] == [
        "https://open.example/",
        "https://closed.example/",
    ]


def test_a_log_keeps_a_file_without_keys_as_it_is():
    """Comments included: a reader of the log sees the original text."""
    text = TEXT[: TEXT.index("  tlsConfig")] + "# by hand\n"
    loaded = load(text, file="f", registry=registry())

    assert text == to_log(loaded, text)
    assert loaded.profiles == load(to_log(loaded, ""), file="-", registry=registry()).profiles
    assert "REDACTED" not in json.dumps(to_configz(loaded))
