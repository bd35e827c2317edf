import threading

import pytest
from tqdm.auto import tqdm

from workbench.serve.progress import interruptible_progress


def test_an_interrupt_while_a_bar_is_drawn_leaves_other_threads_their_bars() -> None:
    with pytest.raises(KeyboardInterrupt):
        _interrupted_while_drawing()

    def draw() -> None:
        with tqdm.get_lock():
            pass

    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive()


def test_a_lock_that_nobody_holds_is_left_alone() -> None:
    with pytest.raises(ValueError, match="boom"), interruptible_progress():
        raise ValueError("boom")
    with tqdm.get_lock():
        pass


@interruptible_progress()
def _interrupted_while_drawing() -> None:
    tqdm.get_lock().acquire()
    raise KeyboardInterrupt
