"""The things the small model can draw, and their pictures.

The pictures are Noto Emoji, (c) Google Inc., artwork under Apache-2.0 and font under OFL-1.1, taken
from Debian's `fonts-noto-color-emoji` 2.042-0+deb12u1. The result ships as `sprites.npz`, so only
rebuilding it needs the font:

    apt-get download fonts-noto-color-emoji && dpkg-deb -x fonts-noto-color-emoji_*.deb FOLDER
    python -m workbench.zoo.training.sprites FOLDER/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # only rebuilding needs Pillow
    from PIL import Image

SPRITES = Path(__file__).with_name("sprites.npz")
SIDE = 128
FONT_SIZE = 109  # the only bitmap size in the font

# emoji, * = flagship (drawn more often), ~ = floats (casts no shadow), name, synonyms / plural
_TABLE = """
🫖* teapot, kettle / teapots
🍎* apple / apples
📕* book, novel / books
🎲* die, dice / dice
🐧* penguin / penguins
🚗* car, automobile / cars
🎸* guitar / guitars
🍄* mushroom, toadstool / mushrooms
☎* telephone, phone / telephones
🧸* teddy bear, teddy / teddy bears
🐶* dog, puppy / dogs
🐱* cat, kitten / cats
🌵* cactus / cacti
🚀*~ rocket, spaceship / rockets
☕* mug, cup, coffee / mugs
🎂* cake, birthday cake / cakes
🤖* robot, android / robots
🏠* house, home / houses
🌳* tree / trees
🍔* hamburger, burger, cheeseburger / hamburgers
⛄ snowman / snowmen
🦆 duck / ducks
🐘 elephant / elephants
🎃 pumpkin / pumpkins
🍩 donut, doughnut / donuts
🍌 banana / bananas
🍐 pear / pears
🍋 lemon / lemons
🍊 tangerine / tangerines
🍓 strawberry / strawberries
🍒 cherry / cherries
🍉 watermelon, melon / watermelons
🍍 pineapple / pineapples
🍑 peach / peaches
🍅 tomato / tomatoes
🥕 carrot / carrots
🥦 broccoli / broccolis
🌽 corn, maize / corns
🌶 chili, pepper / chilis
🍆 eggplant / eggplants
🥑 avocado / avocados
🥥 coconut / coconuts
🥚 egg / eggs
🧀 cheese / cheeses
🍞 bread, loaf / breads
🥐 croissant / croissants
🍕 pizza / pizzas
🌭 hot dog, sausage / hot dogs
🌮 taco / tacos
🧁 cupcake, muffin / cupcakes
🍪 cookie, biscuit / cookies
🍦 ice cream / ice creams
🍿 popcorn / popcorns
🍯 honey pot, honey / honey pots
🥛 milk, glass / glasses
🍺 beer / beers
🚌 bus / buses
🚚 truck, lorry / trucks
🚕 taxi, cab / taxis
🚜 tractor / tractors
🚂 train, locomotive / trains
⛵ boat, sailboat / boats
🏰 castle / castles
⛺ tent / tents
🌲 pine, fir / pines
🌹 rose / roses
🌷 tulip / tulips
🌻 sunflower, flower / sunflowers
🐮 cow / cows
🐷 pig / pigs
🐰 rabbit, bunny / rabbits
🐻 bear / bears
🐼 panda / pandas
🦁 lion / lions
🐯 tiger / tigers
🦊 fox / foxes
🐸 frog / frogs
🐵 monkey / monkeys
🐨 koala / koalas
🐭 mouse / mice
🦄 unicorn / unicorns
🐢 turtle, tortoise / turtles
🐳 whale / whales
🐤 chick / chicks
🐔 chicken, hen / chickens
🦉 owl / owls
🐌 snail / snails
🦕 dinosaur / dinosaurs
⚽ soccer ball, ball / soccer balls
🏀 basketball / basketballs
🏆 trophy / trophies
🔔 bell / bells
👑 crown / crowns
🎩 hat / hats
🧢 cap / caps
👟 shoe, sneaker / shoes
👢 boot / boots
👕 shirt / shirts
🎒 backpack / backpacks
👜 handbag, bag, purse / handbags
🎁 gift, present / gifts
🎈~ balloon / balloons
💡 light bulb, bulb / light bulbs
🏮~ lantern / lanterns
⏰ alarm clock, clock / alarm clocks
📷 camera / cameras
📺 television / televisions
🥁 drum / drums
🔒 lock, padlock / locks
🔨 hammer / hammers
🪣 bucket, pail / buckets
🪑 chair / chairs
💣 bomb / bombs
🧲 magnet / magnets
💎 diamond, gem / diamonds
⭐~ star / stars
❤~ heart / hearts
👻~ ghost / ghosts
💀 skull / skulls
👽 alien / aliens
"""


@dataclass(frozen=True, slots=True)
class Thing:
    """One object: its glyph and every word for it.

    Attributes:
        glyph: The emoji character.
        name: Singular, one or two words without hyphen.
        synonyms: Other singulars for the same picture, possibly none.
        plural: Plural for the same picture.
        flagship: Whether the corpus draws it more often.
        ground: Whether it stands on something and casts a shadow.
    """

    glyph: str
    name: str
    synonyms: tuple[str, ...]
    plural: str
    flagship: bool
    ground: bool


def _parse(line: str) -> Thing:
    mark, words = line.split(" ", 1)
    singulars, plural = words.split(" / ")
    name, *synonyms = singulars.split(", ")
    return Thing(mark.rstrip("*~"), name, tuple(synonyms), plural, "*" in mark, "~" not in mark)


THINGS: tuple[Thing, ...] = tuple(_parse(line) for line in _TABLE.strip().splitlines())


def load_sprites(path: Path = SPRITES) -> np.ndarray:
    """Read the shipped pictures.

    Args:
        path: File written by `build_sprites`.

    Returns:
        uint8 [len(THINGS), 128, 128, 4], RGBA, not premultiplied, in the order of `THINGS`.

    Raises:
        ValueError: If the file was made for another list of things.
    """
    with np.load(path) as file:
        rgba, names = file["rgba"], file["names"].tolist()
    if names != [thing.name for thing in THINGS]:
        raise ValueError(
            f"{path.name} holds {len(names)} things that differ from the {len(THINGS)} of THINGS; "
            "rebuild it with python -m workbench.zoo.training.sprites FONT"
        )
    return rgba


def build_sprites(font: Path, path: Path = SPRITES) -> None:
    """Draw every thing with the emoji font and store the pictures.

    Args:
        font: NotoColorEmoji.ttf of Debian's fonts-noto-color-emoji 2.042.
        path: The `.npz` to write, about 1.5 MB.
    """
    rgba = np.stack([_sprite(font, thing.glyph) for thing in THINGS])
    rgba[rgba[..., 3] == 0] = 0
    np.savez_compressed(path, rgba=rgba, names=np.array([thing.name for thing in THINGS]))


def _sprite(font: Path, glyph: str) -> np.ndarray:
    from PIL import Image

    drawn = _glyph(font, glyph)
    drawn = drawn.crop(drawn.getchannel("A").point(lambda a: 255 * (a > 8)).getbbox())
    scale = SIDE / max(drawn.size)
    size = tuple(max(1, round(side * scale)) for side in drawn.size)
    drawn = drawn.resize(size, Image.Resampling.LANCZOS)
    out = Image.new("RGBA", (SIDE, SIDE))
    out.paste(drawn, ((SIDE - size[0]) // 2, SIDE - size[1]))
    return np.asarray(out)


def _glyph(font: Path, glyph: str) -> Image.Image:
    """The glyph as RGBA, recovered from its look on black and on white.

    Pillow drawing straight onto a transparent canvas darkens the edge and squares its opacity.
    """
    from PIL import Image, ImageDraw, ImageFont

    face, looks = ImageFont.truetype(str(font), FONT_SIZE), []
    for ground in ("black", "white"):
        canvas = Image.new("RGB", (160, 160), ground)
        ImageDraw.Draw(canvas).text((8, 8), glyph, font=face, embedded_color=True)
        looks.append(np.asarray(canvas, float))
    opacity = 255 - (looks[1] - looks[0]).mean(-1, keepdims=True)
    colour = looks[0] * 255 / np.maximum(opacity, 1)
    rgba = np.concatenate([colour, opacity], -1).round().clip(0, 255).astype(np.uint8)
    return Image.fromarray(rgba)


if __name__ == "__main__":
    build_sprites(Path(sys.argv[1]))
