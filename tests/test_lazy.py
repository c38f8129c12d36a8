import sys

import pytest

from headtune._lazy import lazy


def test_a_name_comes_from_its_home_also_where_it_is_called_otherwise_there() -> None:
    get = lazy("package", {"sqrt": "math", "root": "math:sqrt"})
    import math

    assert get("sqrt") is math.sqrt
    assert get("root") is math.sqrt


def test_homes_are_imported_when_a_name_is_asked_for() -> None:
    sys.modules.pop("this", None)
    get = lazy("package", {"s": "colorsys:rgb_to_hsv"})
    sys.modules.pop("colorsys", None)
    assert "colorsys" not in sys.modules
    get("s")
    assert "colorsys" in sys.modules


def test_any_other_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError) as caught:
        lazy("package", {"a": "math"})("b")
    assert str(caught.value) == "module 'package' has no attribute 'b'"
