.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-deps
READY := $(VENV)/.ready

$(READY): requirements/dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) --no-compile --require-hashes -r requirements/dev.lock
	$(PIP) --no-build-isolation -e .
	$(BIN)/python -m compileall -q -j 0 -x '/test_[^/]*$$' $(VENV)/lib src tests
	@touch $@

setup: $(READY) ## create .venv with the locked dependencies

check: $(READY) ## lint, types, import rules, generated documents, sizes
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy examples/*.py
	$(BIN)/lint-imports --no-cache
	$(BIN)/python docs/generate.py --check
	$(BIN)/python tests/code_sizes.py

test: $(READY) ## the tests that need nothing but this checkout
	PYTEST_DEBUG_TEMPROOT="$$($(BIN)/python tests/memory_folder.py)" \
	  $(BIN)/pytest -n 5 --dist worksteal --timeout 300 -m "not real and not torture" --ignore tests/real

test-fresh: ## both commands of the README on a minimal Debian, as an ordinary user (root, debootstrap)
	$(PYTHON) -m tests.fresh

test-fresh-root: ## the same as root
	$(PYTHON) -m tests.fresh --user root

test-policy: $(READY) ## 10,000 generated shell lines, read, run by bash and dash, and run under enforcement
	TILLERMAN_POLICY_LINES=10000 $(BIN)/pytest -n 2 -m "not torture" tests/core/permission/differential

test-real: $(READY) ## real agent CLIs (from npm) with a scripted model; as root, an ordinary user
	$(BIN)/python tests/real/clis.py install
	$(BIN)/pytest -n 4 -m real --reruns 1 tests/real --ignore tests/real/test_ordinary_user.py
	$(BIN)/pytest -m real --reruns 1 tests/real/test_ordinary_user.py

$(VENV)/schemathesis: requirements/schemathesis.lock | $(READY)
	$(BIN)/python -m venv $@
	$@/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/schemathesis.lock

test-api: $(READY) $(VENV)/schemathesis ## the HTTP API against its own description, with schemathesis
	$(BIN)/pytest -n 2 -m "not torture" tests/surfaces/server/test_schemathesis.py

torture: $(READY) ## long fault injection: kills, fuzz, power cuts, secrets
	$(BIN)/python tests/real/clis.py install
	$(BIN)/pytest -n 2 -m torture --timeout 3600 -rP tests

$(VENV)/bench: requirements/bench.lock | $(READY)
	$(PIP) --target $@ --no-build-isolation --no-binary :all: --require-hashes -r requirements/bench.lock

bench: $(READY) $(VENV)/bench ## figures, as ratios within one run
	$(BIN)/python tests/real/clis.py install
	$(BIN)/python -m bench

bench-hooks: $(READY) ## what the gate costs: a hook's round trip, a tool call, an idle server
	$(BIN)/python tests/real/clis.py install
	$(BIN)/python -m bench hooks tool_calls policy enforcement protection

bench-mcp: $(READY) ## the workspace server: calls, relays, long output
	$(BIN)/python -m bench mcp

bench-tui: $(READY) ## the terminal interface: lag under a fast stream, first paint, rest (needs tmux, strace)
	$(BIN)/python -m bench tui

bench-server: $(READY) ## the session service: 100 clients on one session, beside a bare broadcast
	$(BIN)/python -m bench server

demo: $(READY) ## a whole turn with the embedded agent, then its replay
	$(BIN)/tillerman demo

lock: ## resolve the dependencies anew (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --extra mcp --extra server --extra pipelines --extra cloud --generate-hashes --no-header \
	  --no-annotate --no-emit-index-url -o requirements/dev.lock pyproject.toml requirements/dev.in
	echo schemathesis | uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-annotate --no-emit-index-url -o requirements/schemathesis.lock -

docs: $(READY) ## write what the documents say of the code
	$(BIN)/python docs/generate.py
	$(BIN)/tillerman schema > docs/events.schema.json
	$(BIN)/tillerman schema --pipelines > docs/pipeline.schema.json
	$(BIN)/python docs/picture.py

verdicts: $(READY) ## play every case on every agent, and write down what each does
	rm -f $(VENV)/verdicts
	$(BIN)/python tests/real/clis.py install
	-TILLERMAN_VERDICTS=$(VENV)/verdicts $(BIN)/pytest -n 4 tests/real/test_conformance_real.py \
	  tests/real/test_gate_real.py tests/agents/mock/test_mock_conformance.py tests/agents/cursor/test_cursor_conformance.py -m ""
	$(BIN)/python tests/conformance/verdicts.py $(VENV)/verdicts
	$(BIN)/python docs/generate.py

fix: $(READY) ## format and fix what ruff can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

help: ## this text
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup check test test-fresh test-fresh-root test-policy test-real test-api torture bench bench-hooks bench-mcp bench-tui bench-server demo lock docs verdicts fix help
