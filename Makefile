# One command per check; CI calls the same ones. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# The first Python that is new enough; a name on the path can be a shim without one behind it.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$python && break; done)
WASM := control_plane/isocost/data/isocost.wasm
NVML_LIBRARY := control_plane/isocost/data/nvml/libnvidia-ml.so.1
export CARGO_TARGET_DIR := $(CURDIR)/build/target

.PHONY: help
help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: setup
setup: $(VENV)/.installed filter fake-nvml ## virtual environment, filter, fake GPUs: all that the other commands need

$(VENV)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || \
	  { echo "isocost needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "this Python has no venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "installing Python packages into $(VENV)"
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

.PHONY: filter
filter: ## build the Envoy filter
	@bash filter/build.sh

.PHONY: filter-trap
filter-trap: ## build the filter that fails on demand, for the tests
	@bash filter/build.sh --test-trap

.PHONY: fake-nvml
fake-nvml: $(NVML_LIBRARY) ## build the NVML library without a GPU, for fake nodes and tests

NVML_FAKE := control_plane/isocost/fake/nvml
$(NVML_LIBRARY): $(wildcard $(NVML_FAKE)/*.[ch])
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -shared -fPIC -pthread -o $@.new $(NVML_FAKE)/*.c
	@mv $@.new $@

.PHONY: consul-server
consul-server: ## download a Consul server, for the tests, unless there is one
	@bash tests/integration/harness/consul-server.sh

.PHONY: demo
demo: setup ## 8 fake GPU nodes, agents, control plane and Envoy: replay a real trace for 30 s
	@$(BIN)/isocost demo $(ARGS)

.PHONY: test
test: setup test-rust test-python ## every test

.PHONY: test-rust
test-rust:
	cd filter && ISOCOST_FUZZ_S=30 cargo test --workspace --locked --quiet

# Without ARGS: first what can run side by side, then what needs the machine to itself. The order is
# that of the files, so that the long ones that wait do not come last.
.PHONY: test-python
test-python: $(VENV)/.installed filter-trap fake-nvml consul-server
ifdef ARGS
	$(BIN)/python -m pytest $(ARGS)
else
	$(BIN)/python -m pytest -m "not alone" -n 3 --dist loadfile --no-loadscope-reorder
	$(BIN)/python -m pytest -m alone
endif

.PHONY: compose-test
compose-test: $(VENV)/.installed ## docker-compose.yml on this machine's Docker engine: built, under load with kills, taken down
	$(BIN)/python -m pytest -s -x tests/compose

.PHONY: fuzz
fuzz: ## feed what reads bytes with random and mutated bytes, ten minutes each; a failure tells its seed
	cd filter && ISOCOST_FUZZ_S=$${ISOCOST_FUZZ_S:-600} \
	  cargo test --locked --package isocost-core --test fuzz -- --nocapture

.PHONY: filter-floor
filter-floor: ## build the filter that only reads, which the cost of ours is compared with
	@bash filter/build.sh --floor

.PHONY: bench
bench: setup filter-trap filter-floor ## the filter's cost against its bars; a day's pushes (432,000) and what they leave behind; bursts; an agent's, a tick's and a whole control plane's cost; a thousand ADS clients; prefix hits; how steady shares are
	cd filter && cargo bench --locked --package isocost-core
	ISOCOST_PUSHES=432000 ISOCOST_BENCH_JSON=build/bench.json $(BIN)/python -m pytest -s tests/integration/test_long_run.py -k pushes
	ISOCOST_BENCH_JSON=build/bench.json $(BIN)/python -m pytest -s tests/integration/test_burst.py -k quarter
	$(BIN)/python -m tests.benchmark.filter_cost
	$(BIN)/python -m tests.benchmark.agent_cost
	$(BIN)/python -m tests.benchmark.tick_cost
	$(BIN)/python -m tests.benchmark.ads_clients
	$(BIN)/python -m tests.benchmark.control_scale
	$(BIN)/python -m tests.benchmark.prefix_hits
	$(BIN)/python -m tests.benchmark.steady_shares

.PHONY: bench-policies
bench-policies: setup ## our policies and Envoy's own on one fake fleet: reports in build/policies
	$(BIN)/python -m tests.benchmark.policies $(ARGS)

.PHONY: bench-quality
bench-quality: setup ## equal_cost and Envoy's own policies on 16 fake nodes: reports in build/quality
	$(BIN)/python -m tests.benchmark.quality $(ARGS)

.PHONY: simulate
simulate: $(VENV)/.installed ## the same comparison in virtual time, in a minute
	$(BIN)/python -m tests.simulation.policies $(ARGS)

.PHONY: bench-fleet
bench-fleet: setup ## 32 fake nodes behind the gateway at 300 requests/s, and at 30/s token by token
	$(BIN)/python -m tests.benchmark.full_fleet $(ARGS)

.PHONY: check
check: $(VENV)/.installed check-proto ## lint, types, import rules, formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd filter && cargo fmt --all --check
	cd filter && cargo clippy --workspace --all-targets --locked -- --deny warnings

.PHONY: check-proto
check-proto: $(VENV)/.installed
	@rm -rf build/proto && mkdir -p build/proto
	@$(call generate,build/proto)
	@diff -r --exclude=__init__.py --exclude=__pycache__ build/proto/isocost/v1 control_plane/isocost/v1 \
	  || { echo "the generated protobuf code is not current: run make proto" >&2; exit 1; }

.PHONY: proto
proto: $(VENV)/.installed ## generate control_plane/isocost/v1 from proto/
	$(call generate,control_plane)

generate = $(BIN)/python -m grpc_tools.protoc -I proto --python_out=$(1) --pyi_out=$(1) proto/isocost/v1/*.proto

.PHONY: schema
schema: $(VENV)/.installed ## write docs/schema, the JSON schemas of the configuration files
	@for kind in control-plane agent nodes; do \
	  $(BIN)/isocost config schema $$kind > docs/schema/$$kind.json || exit 1; done

.PHONY: wheel
wheel: setup ## build dist/*.whl with the filter in it
	$(BIN)/python -m hatchling build --target wheel
