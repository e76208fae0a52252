"""The reference page of the metrics is what the table says."""

from docs.generate import metrics


def test_page_is_up_to_date(capsys):
    """docs/reference/metrics.md was written from the table as it is now."""
    assert 0 == metrics.main(["--check"]), capsys.readouterr().err
