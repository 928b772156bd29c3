"""The seeds that the arguments of a script name."""


def seeds(words):
    """Yields the numbers of words such as 7 or 100-199."""
    for word in words:
        first, _, last = word.partition("-")
        yield from range(int(first), int(last or first) + 1)
