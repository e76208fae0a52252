"""Names become hashes, the same everywhere; words of the API stay."""

from scheduler.cli.output.hashing import NameTable

DOCUMENTS = {
    "nodes.json": {
        "nodes": {
            "rack-7-node": {"allocatable": {"cpu": 4000}, "pods": ["shop/web-1"], "nominated": []}
        },
        "podCount": 1,
    },
    "queues.json": {"active": {"count": 1, "pods": [{"pod": "shop/pay-2", "gatedBy": ""}]}},
    "decisions.json": [
        {
            "namespace": "shop",
            "name": "pay-2",
            "uid": "00-11",
            "node": "",
            "profile": "trellis",
            "message": '0/1 nodes: persistentvolumeclaim "ledger" not found, taint {team: bank}, '
            "web-1 stays",
            "rejected": {"TaintToleration": {"had untolerated taint {team: bank}": 1}},
        }
    ],
    "configuration.json": {"profiles": [{"schedulerName": "trellis"}], "namespace": "default"},
}


def test_no_name_is_left():
    """In values, in keys that are names, in messages."""
    table = NameTable(DOCUMENTS)
    for name, document in DOCUMENTS.items():
        text = str(table.document(document))
        for word in ("rack-7", "web-1", "pay-2", "shop", "00-11", "ledger", "bank"):
            assert word not in text, (name, word)


def test_what_was_equal_stays_equal_and_the_rest_stays():
    """A pod of the queue is the pod of the decision.

    Fields, plugins and profiles are as they were.
    """
    table = NameTable(DOCUMENTS)
    decided = table.document(DOCUMENTS["decisions.json"])[0]
    queued = table.document(DOCUMENTS["queues.json"])["active"]["pods"][0]

    assert queued["pod"] == f"{decided['namespace']}/{decided['name']}"
    assert decided["namespace"] != decided["name"]
    assert "trellis" == decided["profile"]
    assert ["TaintToleration"] == list(decided["rejected"])
    assert "not found" in decided["message"]
    assert DOCUMENTS["configuration.json"] == table.document(DOCUMENTS["configuration.json"])
    text = 'x_total{pod="web-1",plugin="NodeName"} 1 web-1'
    assert 'plugin="NodeName"' in table.text(text)
    assert 'pod="web-1"' not in table.text(text)


def test_another_bundle_has_other_hashes():
    """Two of them cannot be compared, and names cannot be guessed."""
    one, other = (NameTable(DOCUMENTS).words("web-1") for _ in range(2))

    assert one != other
    assert "web-1" not in (one, other)
