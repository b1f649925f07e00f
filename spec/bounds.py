"""What settings of every kind are held to: integers of at least a bound, and one of a few values."""

from collections.abc import Iterator, Mapping


def is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def too_small(of: object, least: Mapping[str, int], prefix: str = "") -> Iterator[str]:
    for name, bound in least.items():
        value = getattr(of, name)
        if not is_int(value) or value < bound:
            yield f"{prefix}{name} is {value!r}, but must be an integer of at least {bound}"


def not_among(of: object, known: Mapping[str, tuple[object, ...]], prefix: str = "") -> Iterator[str]:
    for name, allowed in known.items():
        value = getattr(of, name)
        if not any(type(value) is type(one) and value == one for one in allowed):
            yield f"{prefix}{name} is {value!r}, but must be one of {', '.join(map(str, allowed))}"
