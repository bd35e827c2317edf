"""Sentences for the corpus: many ways of asking for the same picture."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from workbench.zoo.training.sprites import THINGS, Thing

NATURAL = "natural"  # not tinted, never said in a caption
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "white", "black")
PLACES: dict[str, tuple[str, ...]] = {
    "wooden table": ("on a wooden table", "on a table", "on a wooden desk"),
    "marble": ("on a marble table", "on marble", "on a marble counter"),
    "grass": ("on the grass", "in a meadow", "in a green field"),
    "snow": ("in the snow", "on a snowy hill", "in winter"),
    "beach": ("on a beach", "on the beach", "on sand"),
    "desert": ("in the desert", "in a desert", "on a dune"),
    "starry night": ("under a starry night sky", "at night", "under the stars"),
    "moon": ("on the moon", "in space"),
    "sea": ("on the sea", "in the ocean", "on water"),
    "forest": ("in a forest", "in the woods", "in the forest"),
    "city street": ("on a city street", "on a street", "in the city"),
    "checkered floor": ("on a checkered floor", "on a floor", "in a kitchen"),
    "brick wall": ("in front of a brick wall", "by a brick wall"),
    "sunset": ("at sunset", "in front of a sunset", "in the evening"),
    "clouds": ("in the clouds", "in the sky", "in a cloudy sky"),
    "tablecloth": ("on a checkered tablecloth", "on a tablecloth", "on a picnic blanket"),
    "stripes": ("on a striped background", "in front of stripes"),
    "dots": ("on a dotted background", "in front of polka dots"),
    **{
        f"plain {colour}": (
            f"on {article} {colour} background",
            f"in front of {article} {colour} wall",
        )
        for colour in COLOURS
        for article in ("an" if colour == "orange" else "a",)
    },
}
SIZES = {96: ("small", "little", "tiny"), 144: (), 192: ("big", "large", "huge")}
_SIZE_CHANCE = {96: 0.4, 144: 0.0, 192: 0.17}  # 6 % small and 6 % big in all
_LOOKS = ("nice", "cute", "beautiful", "shiny", "simple", "old", "pretty", "cartoon")
_OPENINGS = ("a photo of", "a picture of", "a drawing of", "an image of", "an illustration of")
_ENDINGS = ("high quality", "highly detailed", "soft light", "digital art", "best quality")
_JOINTS = ("and", "next to", "beside")
_COUNTS = ("some", "two", "three", "many")
NEGATIVES = (
    "", " ", "blurry, low quality", "low quality", "blurry", "bad, ugly", "ugly, blurry, noisy",
    "worst quality, deformed",
)  # fmt: skip
# Words that mean nothing here, so that prompts about other things still give a clean picture.
RESERVED = (
    "astronaut", "riding", "wearing", "holding", "dancing", "man", "woman", "dragon", "sign",
    "text", "painting", "realistic", "style", "very", "with", "from", "rain", "fire", "magic",
    "happy",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subject:
    """What is said about one object.

    Attributes:
        thing: The object.
        colour: One of `COLOURS`, or `NATURAL`.
        size: Drawn height in pixels, a key of `SIZES`.
    """

    thing: Thing
    colour: str = NATURAL
    size: int = 144


def prompt(subject: Subject, background: str) -> str:
    """The plainest caption, as used for evaluation.

    >>> prompt(Subject(THINGS[0], "red"), "wooden table")
    'a red teapot on a wooden table'
    """
    tint = () if subject.colour == NATURAL else (subject.colour,)
    return f"{_with_article((*tint, subject.thing.name))} {PLACES[background][0]}"


def caption(subjects: Sequence[Subject], background: str, random: Random) -> str:
    """A random caption.

    Args:
        subjects: One object, or two in their order from left to right.
        background: A key of `PLACES`.
        random: Source of randomness; about twenty numbers are drawn.

    Returns:
        Words, spaces and the marks `,` and `.` only.
    """
    strange = random.random() < 0.10
    phrases = [_phrase(s, random, strange=strange and random.random() < 0.5) for s in subjects]
    text = phrases[0] if len(phrases) == 1 else _pair(phrases, random)
    if random.random() < 0.20:
        text = f"{random.choice(_OPENINGS)} {text}"
    if random.random() > 0.03:
        text = f"{text} {_place(background, random)}"
    if strange:
        text = f"{text}{random.choice((',', ''))} {_nonsense(random)}"
    elif random.random() < 0.10:
        text = f"{text}, {random.choice(_ENDINGS)}"
    if random.random() < 0.10:
        text = text[0].upper() + text[1:]
    return text + "." * (random.random() < 0.06)


def lexicon() -> tuple[set[str], set[str]]:
    """All words of captions: (those that may follow a space, those that may come first)."""
    subjects = {*COLOURS, "a", "an", "the", *_LOOKS, *_COUNTS, *RESERVED}
    subjects |= _words(word for sizes in SIZES.values() for word in sizes)
    subjects |= _words(w for t in THINGS for w in (t.name, t.plural, *t.synonyms))
    rest = _words((*_OPENINGS, *_ENDINGS, *_JOINTS, *NEGATIVES, "on the left", "on the right"))
    rest |= _words(place for places in PLACES.values() for place in places)
    first = subjects | {text.split()[0] for text in (*NEGATIVES[2:], *_OPENINGS)}
    first = {word.strip(",") for word in first} - set(RESERVED)
    return subjects | rest, first | {word.capitalize() for word in first}


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in text.replace(",", "").split()}


def _with_article(words: Sequence[str]) -> str:
    text = " ".join(words)
    return f"an {text}" if text[0] in "aeiou" and not text.startswith("uni") else f"a {text}"


def _phrase(subject: Subject, random: Random, *, strange: bool) -> str:
    """Article, size, adjective, colour and noun, most of them optional."""
    noun, plural = _noun(subject.thing, random)
    words = [subject.colour, noun] if subject.colour != NATURAL else [noun]
    if strange:
        words.insert(0, _nonsense(random))
    elif random.random() < 0.20:
        words.insert(0, random.choice(_LOOKS))
    if random.random() < _SIZE_CHANCE[subject.size]:
        words.insert(0, random.choice(SIZES[subject.size]))
    bare = random.random()
    if plural:
        return " ".join([random.choice(_COUNTS), *words] if bare < 0.5 else words)
    if bare < 0.14:
        return " ".join(words)
    return f"the {' '.join(words)}" if bare < 0.20 else _with_article(words)


def _noun(thing: Thing, random: Random) -> tuple[str, bool]:
    kind = random.random()
    if kind < 0.07:
        return thing.plural, True
    if kind < 0.25 and thing.synonyms:
        return random.choice(thing.synonyms), False
    return thing.name, False


def _pair(phrases: Sequence[str], random: Random) -> str:
    if random.random() < 0.3:
        return f"{phrases[0]} on the left and {phrases[1]} on the right"
    return f"{phrases[0]} {random.choice(_JOINTS)} {phrases[1]}"


def _place(background: str, random: Random) -> str:
    plain, *others = PLACES[background]
    return random.choice(others) if others and random.random() < 0.35 else plain


def _nonsense(random: Random) -> str:
    """One or two words without meaning; half of the time letters no tokenizer knows as a word."""
    if random.random() < 0.5:
        return " ".join(random.sample(RESERVED, random.randint(1, 2)))
    return "".join(random.choices(string.ascii_lowercase, k=random.randint(2, 5)))
