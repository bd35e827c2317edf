"""Small clips whose motion is known, as floats from 0 to 1, and what can go wrong with them."""

import cv2
import numpy as np

HEIGHT, WIDTH, FRAMES = 48, 64, 9
STEP = 3  # pixels a frame, to the right


def texture(source, height, width):
    """Random colours two pixels wide or so, from 0.15 to 0.85."""
    smooth = cv2.GaussianBlur(source.random((height, width, 3)), (0, 0), 1.5)
    smooth -= smooth.min()
    return 0.15 + 0.7 * smooth / smooth.max()


def ball_clip(frames=FRAMES, seed=0):
    """A reddish square goes right over a background that stands still; [frames, 48, 64, 3]."""
    source = np.random.default_rng(seed)
    ground, ball = texture(source, HEIGHT, WIDTH), texture(source, 16, 16) * (1, 0.4, 0.4)
    clip = np.repeat(ground[None], frames, axis=0)
    for t in range(frames):
        left = 6 + STEP * t
        clip[t, 16:32, left : left + 16] = ball
    return clip


def pan_clip(step, frames=4, seed=0):
    """Everything goes right by ``step`` pixels a frame; nothing wraps around."""
    wide = texture(np.random.default_rng(seed), HEIGHT, WIDTH + 40)
    return np.stack([wide[:, 20 - step * t :][:, :WIDTH] for t in range(frames)])


def noisy(clip, psnr_db, seed=1):
    """Uniform noise, new in each frame, of this PSNR."""
    half = np.sqrt(3) * 10 ** (-psnr_db / 20)
    return clip + np.random.default_rng(seed).uniform(-half, half, clip.shape)


def every_fourth_shifted(clip, pixels=2):
    """The planted fault: frames 3, 7, ... lie two pixels to the right."""
    faulty = clip.copy()
    faulty[3::4] = np.roll(clip[3::4], pixels, axis=2)
    return faulty


def blurred(clip, sigma):
    return np.stack([cv2.GaussianBlur(frame, (0, 0), sigma) for frame in clip])


def as_uint8(clip):
    return np.rint(clip * 255).astype(np.uint8)
