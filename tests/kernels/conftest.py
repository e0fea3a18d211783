"""Every test of a kernel runs with the compiled loops, where Numba is installed, and with their oracle in NumPy."""

from collections.abc import Iterator

import pytest

from dedup.kernels import compiled


@pytest.fixture(scope="module", autouse=True, params=sorted({False, compiled.AVAILABLE}), ids="compiled={}".format)
def _loops(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "AVAILABLE", request.param)
        yield
