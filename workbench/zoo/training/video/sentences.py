"""Sentences about moving things: many ways of asking for the same clip."""

from __future__ import annotations

from random import Random

from workbench.zoo.training.captions import COLOURS, NATURAL, PLACES
from workbench.zoo.training.sprites import THINGS, Thing
from workbench.zoo.training.video.motions import FAST, MOTIONS, SLOW, Motion

ADVERBS = {SLOW: ("slowly",), FAST: ("quickly", "fast"), 0: ()}
_FAST_SAID = 0.25  # otherwise nothing is said: fast is the usual speed
_ALSO: dict[str, tuple[str, ...]] = {
    "wooden table": ("over a wooden table",),
    "marble": ("on a marble floor",),
    "grass": ("on grass", "over the grass", "on green grass"),
    "snow": ("on snow", "on the snow"),
    "beach": ("over the sand",),
    "desert": ("over the desert",),
    "moon": ("over the moon",),
    "sea": ("over the sea", "on the water"),
    "city street": ("along a city street", "on the street", "on a road"),
    "clouds": ("across the sky",),
}
# Told apart with difficulty at 48 pixels, or mostly white on white.
DROPPED = frozenset(
    {
        "tangerine", "peach", "coconut", "egg", "cheese", "milk", "honey pot", "taco", "chick",
        "mouse", "koala", "skull", "boot", "cap", "handbag", "beer", "pine", "cookie", "popcorn",
        "croissant",
    }
)  # fmt: skip
KINDS: tuple[Thing, ...] = tuple(thing for thing in THINGS if thing.name not in DROPPED)
FAVOURED = frozenset({"soccer ball", "basketball", "car", "balloon", "rocket", "apple", "star"})


def places(background: str) -> tuple[str, ...]:
    """Every way of naming a background.

    >>> places("moon")
    ('on the moon', 'in space', 'over the moon')
    """
    return (*PLACES[background], *_ALSO.get(background, ()))


def prompt(thing: Thing, colour: str, motion: Motion, speed: int, background: str) -> str:
    """The plainest caption, as used for evaluation.

    >>> prompt(THINGS[0], "red", MOTIONS[0], SLOW, "grass")
    'a red teapot moving to the right slowly on the grass'
    """
    tint = () if colour == NATURAL else (colour,)
    adverb = ADVERBS[speed][:1] if speed == SLOW else ()
    words = (_with_article(" ".join((*tint, thing.name))), motion.verbs[0], *adverb)
    return " ".join((*words, PLACES[background][0]))


def caption(
    thing: Thing, colour: str, motion: Motion, speed: int, background: str, random: Random
) -> str:
    """A random caption of the clip, of letters, spaces, commas and full stops."""
    noun = random.choice((thing.name, *thing.synonyms)) if random.random() < 0.4 else thing.name
    noun = noun if colour == NATURAL else f"{colour} {noun}"
    subject = _subject(noun, random)
    does = _doing(motion, speed, random)
    where = random.choice(places(background))
    comma = "," if random.random() < 0.15 else ""
    parts = [where, does] if does and random.random() < 0.15 else [does, where]
    parts = [part for part in parts if part]
    text = f"{subject} {f'{comma} '.join(parts)}"
    if random.random() < 0.12:
        text = f"{random.choice(('a video of', 'a clip of'))} {text}"
    if random.random() < 0.15:
        text = text[0].upper() + text[1:]
    return text + "." * (random.random() < 0.1)


def lexicon() -> set[str]:
    """Every word of captions, as spelt: lower case, and capitalised where it may come first."""
    texts = {"a an the video clip of is"}
    texts |= {name for thing in KINDS for name in (thing.name, *thing.synonyms)}
    texts |= {*COLOURS, *(verb for motion in MOTIONS for verb in motion.verbs)}
    texts |= {adverb for adverbs in ADVERBS.values() for adverb in adverbs}
    texts |= {place for background in PLACES for place in places(background)}
    words = {word for text in texts for word in text.split()}
    return words | {word.capitalize() for word in words}


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" and not noun.startswith("uni") else f"a {noun}"


def _subject(noun: str, random: Random) -> str:
    lot = random.random()
    if lot < 0.12:
        return noun
    return f"the {noun}" if lot < 0.2 else _with_article(noun)


def _doing(motion: Motion, speed: int, random: Random) -> str:
    verb = random.choice(motion.verbs)
    said = speed == SLOW or random.random() < _FAST_SAID
    if said and verb and ADVERBS[speed]:
        adverb = random.choice(ADVERBS[speed])
        first, _, rest = verb.partition(" ")
        orders = (f"{verb} {adverb}", f"{adverb} {verb}", f"{first} {adverb} {rest}".strip())
        verb = random.choice(orders)
    return f"is {verb}" if verb and random.random() < 0.1 else verb
