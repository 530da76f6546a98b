"""The JSON that reports are written as."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isocost.bench import json_text

documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)


@settings(deadline=None)
@given(documents)
def test_what_is_written_is_read_again(document: object) -> None:
    assert json.loads(json_text.text(document)) == document


def test_a_series_stays_on_one_line_and_objects_do_not() -> None:
    document = {"t_s": [0, 1, 2], "cdf": [[1.5, 0.5]], "nodes": [{"name": "a"}], "none": {}}
    assert (
        json_text.text(document)
        == """\
{
  "t_s": [0, 1, 2],
  "cdf": [[1.5, 0.5]],
  "nodes": [
    {
      "name": "a"
    }
  ],
  "none": {}
}"""
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_has_not_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text.text({"a": [value]})
