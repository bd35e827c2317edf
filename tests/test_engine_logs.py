import sys

from workbench.engine_logs import plain_streams


def test_a_prefix_is_taken_off_again(capsys):
    stock = sys.stdout.write
    with plain_streams():
        sys.stdout._original_write = stock
        sys.stdout.write = lambda text: stock(f"(worker) {text}")
        sys.stdout.write("inside ")
    sys.stdout.write("outside")
    assert capsys.readouterr().out == "(worker) inside outside"
    assert not hasattr(sys.stdout, "_original_write")


def test_what_was_there_before_stays():
    def own(text):
        return len(text)

    try:
        sys.stderr.write = own
        with plain_streams():
            del sys.stderr.write
        assert sys.stderr.write is own
    finally:
        del sys.stderr.write
