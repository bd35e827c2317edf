# Every target sets up what it needs. Python 3.11 to 3.13, make and git are enough to start.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
	&& echo $$python && break; done)
RUN := .venv/bin/python
# A launch is mostly one thread's Python: two files at a time, one thread each.
TESTS := OMP_NUM_THREADS=1 $(RUN) -m pytest -n 2 --dist loadfile --no-loadscope-reorder
REPORT := import sys, workbench as wb; [print(wb.report(name)) for name in sys.argv[1:]]
LOCK := uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate

# Bytecode makes every later start 20 s faster, so it is written even where the shell says not to.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test test-all check notebooks lock

setup:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 to 3.13 found; name one: make PYTHON=..."; exit 1; }
	@$(PYTHON) tools/setup.py

demo: setup
	@$(RUN) -c "$(REPORT)" notebooks/09_report.ipynb

test: setup
	@$(TESTS) -m "not gpu and not slow"

# Every scheme on every family too.
test-all: setup
	@$(TESTS) -m "not gpu"

check: setup
	@$(RUN) -m ruff check
	@$(RUN) -m ruff format --check
	@$(RUN) -m nbstripout --verify --keep-id notebooks/*.ipynb

notebooks: setup
	@$(RUN) -c "$(REPORT)" notebooks/*.ipynb

lock: setup
	@$(RUN) -m pip install -qq --no-deps uv==0.13.8
	@cd requirements && ../.venv/bin/$(LOCK) cpu.in --override overrides.txt --override overrides-cpu.txt -o cpu.txt
	@cd requirements && ../.venv/bin/$(LOCK) cuda.in --override overrides.txt -o cuda.txt
	@$(RUN) tools/pins.py
