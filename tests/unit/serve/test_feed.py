"""The feed: a patch turns the old document into the new one, and a slow reader delays no other."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler.serve.feed import MOST_WAITING, PageFeed, patch

DOCUMENTS = st.dictionaries(
    st.sampled_from("ab"), st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3)), max_size=2
)


def applied(document, change):
    """Return the document of a page after a patch."""
    after = {section: dict(records) for section, records in document.items()}
    for section, each in change.items():
        records = after.setdefault(section, {})
        for gone in each["drop"]:
            del records[gone]
        records.update(each["set"])
    return {section: records for section, records in after.items() if records}


def read(event):
    """An event's name and record."""
    name, data = event.decode().strip().split("\n")
    return name.removeprefix("event: "), msgspec.json.decode(data.removeprefix("data: "))


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_makes_the_old_document_the_new_one(before, after):
    """Sections may be added and removed; equal documents need no patch."""
    change = patch(before, after)

    assert {key: one for key, one in after.items() if one} == applied(before, change)
    assert ({} == change) == (applied(before, {}) == applied(after, {}))


async def test_a_reader_gets_the_whole_and_then_patches():
    """A new line within a name stays within its event."""
    feed = PageFeed({"pods": {"a": 1}})
    with feed.reader() as reader:
        assert ("view", {"pods": {"a": 1}}) == read(await reader.next())
        feed.publish({"pods": {"a": 1}})
        feed.publish({"pods": {"b\n\ndata: c": 2}})
        change = {"pods": {"set": {"b\n\ndata: c": 2}, "drop": ["a"]}}
        assert ("patch", change) == read(await reader.next())
    assert 0 == feed.readers


async def test_a_slow_reader_gets_the_whole_again_and_a_quick_one_every_patch():
    """The queue of a reader is bounded, and afterwards both readers have the same document."""
    feed = PageFeed({"pods": {}})
    with feed.reader() as slow, feed.reader() as quick:
        await slow.next()
        await quick.next()
        for number in range(MOST_WAITING + 5):
            feed.publish({"pods": {"a": number}})
            assert ("patch", {"pods": {"set": {"a": number}, "drop": []}}) == read(
                await quick.next()
            )
        assert ("view", {"pods": {"a": MOST_WAITING + 4}}) == read(await slow.next())
        feed.publish({"pods": {}})
        assert read(await slow.next()) == read(await quick.next())
