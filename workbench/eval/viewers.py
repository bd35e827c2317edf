"""Two pictures compared by hand and by error map: HTML fragments, whole in themselves."""

from __future__ import annotations

from html import escape

import numpy as np
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval.figure_style import ERROR_SCALE, error_colours
from workbench.eval.media import (
    FLIP_SIDE,
    Html,
    data_uri,
    filled,
    fitted,
    image_tag,
    refuse_unequal,
)

MAP_SIDE = 400  # longest side shown, pixels
SMALLEST = 384  # width to which small pictures are stretched, pixels


def slider(
    pictures: tuple[Image.Image, Image.Image], *, labels: tuple[str, str], caption: str = ""
) -> Html:
    """Two pictures in one place with a divider to drag: reference to its left, candidate right.

    The divider follows the pointer on the picture, and the arrow keys on the bar below it.

    Args:
        pictures: RGB, of one size: the reference and the candidate.
        labels: what to call them.
        caption: a line above.

    Raises:
        ComparisonRefused: unequal sizes.
    """
    refuse_unequal(*pictures)
    names = (f"reference {labels[0]}", f"candidate {labels[1]}")
    reference, candidate = (
        image_tag(data_uri(fitted(picture, FLIP_SIDE)), name, ' draggable="false"')
        for picture, name in zip(pictures, names, strict=True)
    )
    return filled(
        "slider.html",
        caption=escape(caption),
        reference=reference,
        candidate=candidate,
        left=escape(names[0]),
        right=escape(names[1]),
        width=min(max(pictures[0].width, SMALLEST), FLIP_SIDE),
    )


def error_map(
    pictures: tuple[Image.Image, Image.Image],
    errors: np.ndarray,
    *,
    labels: tuple[str, str],
    caption: str = "",
) -> Html:
    """Reference, candidate and where the eye sees a difference, side by side.

    Args:
        pictures: RGB, of one size: the reference and the candidate.
        errors: [height, width] of the pictures, from 0 (no difference) to 1: the FLIP error.
        labels: what to call the pictures.
        caption: a line above.

    Raises:
        ComparisonRefused: unequal sizes, or errors that are not finite or outside 0 to 1.
    """
    refuse_unequal(*pictures)
    shown = [*pictures, error_picture(errors, pictures[0].size)]
    names = [
        f"reference {labels[0]}",
        f"candidate {labels[1]}",
        f"FLIP error, mean {errors.mean():.3f}, largest {errors.max():.3f}",
    ]
    figures = [
        f"<figure>{image_tag(data_uri(fitted(one, MAP_SIDE)), name)}"
        f"<figcaption>{escape(name)}</figcaption></figure>"
        for one, name in zip(shown, names, strict=True)
    ]
    return filled(
        "error_map.html",
        caption=escape(caption),
        figures="\n".join(figures),
        scale=scale_css(),
        width=min(max(pictures[0].width, SMALLEST // 2), MAP_SIDE),
    )


def error_picture(errors: np.ndarray, size: tuple[int, int]) -> Image.Image:
    """A map of errors as an RGB picture, dark where there is none.

    Args:
        errors: [height, width], 0 to 1.
        size: width and height that it must have.

    Raises:
        ComparisonRefused: another size, or errors that are not finite or outside 0 to 1.
    """
    if errors.shape != size[::-1]:
        raise ComparisonRefused(
            f"an error map of shape {errors.shape} for pictures of {size[1]} x {size[0]} pixels; "
            "make it from the same two pictures, [height, width]"
        )
    if not (errors.min() >= 0 and errors.max() <= 1):  # false for NaN too
        raise ComparisonRefused(
            f"an error map from {errors.min():.4g} to {errors.max():.4g}; it must lie within 0 to 1"
        )
    return Image.fromarray(error_colours(errors))


def scale_css() -> str:
    """The colours of an error map from 0 to 1 as a CSS gradient, left to right."""
    return f"linear-gradient(to right, {', '.join(ERROR_SCALE)})"
