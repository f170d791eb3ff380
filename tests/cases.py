"""A table of cases in one test, where each as a test of its own would cost more than what it tries."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, cast

_Test = Callable[..., Any]


def each_case(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[_Test], _Test]:
    """Like `pytest.mark.parametrize`, but one test tries all cases; what fails notes its case.

    All cases share the test's fixtures, so it is for what changes none of them.
    """
    if isinstance(names, str):
        cases = [{names: value} for value in values]
    else:
        cases = [dict(zip(names, value, strict=True)) for value in values]

    def over(test: _Test) -> _Test:
        @wraps(test)
        def run(**fixtures: Any) -> None:  # noqa: ANN401 - whatever the test asks for
            for case in cases:
                try:
                    test(**fixtures, **case)
                except BaseException as fault:
                    fault.add_note(_name(case))
                    raise

        @wraps(test)
        async def run_async(**fixtures: Any) -> None:  # noqa: ANN401 - whatever the test asks for
            for case in cases:
                try:
                    await test(**fixtures, **case)
                except BaseException as fault:
                    fault.add_note(_name(case))
                    raise

        folded: Any = run_async if inspect.iscoroutinefunction(test) else run
        wanted = inspect.signature(test)
        kept = [parameter for name, parameter in wanted.parameters.items() if not cases or name not in cases[0]]
        folded.__signature__ = wanted.replace(parameters=kept)
        return cast("_Test", folded)

    assert cases, "no case at all"
    return over


def _name(case: dict[str, Any]) -> str:
    return "in the case " + ", ".join(f"{name}={value!r:.300}" for name, value in case.items())
