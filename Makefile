# All commands of the project. `make demo` and `make test` need no preparation: they install missing packages, build, and run.
# Their outputs are under build/; a second run reuses them.
SHELL := /bin/bash
JOBS  ?= $(shell nproc)
TREE  := build/release
VENV  := build/venv
PY    := $(VENV)/bin/python
CONFIGURE = cmake --preset release >build/configure.log || { cat build/configure.log; exit 1; }

# The compiler cache is under build/ too. All build trees below this folder share it.
export CCACHE_DIR ?= $(CURDIR)/build/ccache
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
# So is the cache of programs that workers have compiled.
export PATHWAYS_COMPILE_CACHE ?= $(CURDIR)/build/programs

.PHONY: help setup setup-dev setup-page build wheel demo test test-fast lint format sim tsa asan asan-e2e tsan fuzz test-ray test-prometheus test-xprof test-s3 test-page test-helm test-image image page test-maxtext test-torchax test-tunix jax-matrix newest nightly plugin-nightly bench paper docs locks audit sbom clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#: *//p' Makefile

#: make demo       train a small Transformer on a local cluster of 2 islands x 1 host x 4 CPU devices
demo:  # needs less than the tests: one Python environment, and no test is built
	@tools/setup.sh demo
	@$(CONFIGURE)
	@ninja -C $(TREE) -j$(JOBS) wheel_contents
	@tools/wheel.sh $(TREE) $(VENV)
	@PATHWAYS_LOCAL=2x1x4 JAX_PLATFORMS=pathways $(PY) examples/train_transformer.py

#: make test       build and run every test; the last line counts them
test: wheel
	@$(PY) tools/run_tests.py --tree $(TREE) --jobs $(JOBS) all

#: make test-fast  the part of `make test` that ends within ten minutes
test-fast: wheel
	@$(PY) tools/run_tests.py --tree $(TREE) --jobs $(JOBS) fast

#: make build      the C++ tree, in build/release
build: setup
	@$(CONFIGURE)
	@ninja -C $(TREE) -j$(JOBS)

#: make wheel      our wheel, built from build/release and installed into these environments
wheel: build page
	@tools/wheel.sh $(TREE)

#: make page       the operators' page, in build/page, if this machine has node and npm; part of the wheel
page:
	@tools/page.sh

#: make setup      Debian packages and the Python environments: build/venv, build/venv-newest, build/venv-jax-*
setup:
	@tools/setup.sh

setup-dev:
	@tools/setup.sh dev

#: make lint       layering, sizes, forbidden constructs; clang-format and clang-tidy on files changed since the last commit
lint: setup-dev build
	@$(PY) tools/lint/all.py
	@tools/lint/clang.sh

#: make format     clang-format on files changed since the last commit
format: setup-dev
	@tools/lint/clang.sh --fix

#: make tsa        clang's thread-safety analysis over the whole tree, as errors
tsa: setup-dev
	@cmake --preset tsa && ninja -C build/tsa -j$(JOBS)

#: make asan       unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
asan: setup
	@# LLVM's headers poison memory that its library, built without the sanitizer, does not know to be poisoned. Memory of absurd
	@# sizes is an error that requests hear of, not the end of the process (base/memory/try_allocate.h).
	@cmake --preset asan && ninja -C build/asan -j$(JOBS) && \
	  ASAN_OPTIONS=allow_user_poisoning=0:allocator_may_return_null=1 ctest --test-dir build/asan --output-on-failure -j$(JOBS)

#: make asan-e2e   end-to-end tests of attacks, users, transfers and faults, on processes under the same two (TESTS="...": other tests)
asan-e2e: wheel
	@JOBS=$(JOBS) tools/asan_e2e.sh $(TESTS)

#: make tsan       unit tests under ThreadSanitizer (folders that do not link gRPC, whose Debian build is not instrumented)
tsan: setup
	@cmake --preset tsan && ninja -C build/tsan -j$(JOBS) && \
	  TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1 ctest --test-dir build/tsan --output-on-failure -j$(JOBS) -E '^frontend$$'

#: make fuzz       the wire decoders under libFuzzer and AddressSanitizer, FUZZ_SECONDS each (default 60)
fuzz: setup-dev
	@tools/fuzz.sh

#: make sim        every scenario of the simulator with a hundred seeds, and on 128 and 512 hosts
sim: build
	@$(TREE)/bin/pathways-sim --seeds 100 pathways/sim/scenarios/*.txt 2>build/sim.err >build/sim.log || { grep -B1 '^  ' build/sim.log || tail build/sim.err; exit 1; }
	@tail -n 1 build/sim.log
	@for hosts in 128 512; do $(TREE)/bin/pathways-sim --hosts $$hosts --seeds 3 pathways/sim/scenarios/*.txt 2>build/sim.err || { tail build/sim.err; exit 1; }; done

#: make jax-matrix jax's own tests on the two newest supported versions; results go to docs/compatibility.md (MATRIX="--versions 0.8.3": other versions; MATRIX=--all: every test, takes hours)
jax-matrix: wheel
	@$(PY) tools/jax_matrix.py --jobs $(JOBS) $(MATRIX)

#: make newest     the end-to-end tests on the registry's newest jax, flax, optax, orbax and pathwaysutils; reports what broke
newest: wheel
	@$(PY) tools/newest.py --tree $(TREE) --jobs $(JOBS)

#: make plugin-nightly  the CPU plugin alone, built with the newest tf-nightly-cpu of the registry (300 MB), and its tests; part of nothing else
plugin-nightly: setup
	@JOBS=$(JOBS) tools/plugin_nightly.sh $(FOLDER)

#: make test-ray   `pathways up --on ray` on a Ray cluster of several nodes; installs Ray into build/venv-ray (300 MB)
test-ray: wheel build/venv-ray
	@$(PY) -m pytest -q tests/e2e/cluster/test_ray.py

build/venv-ray: tools/locks/requirements-ray.txt
	@tools/setup.sh ray

#: make test-prometheus the metrics, scraped by a Prometheus and checked by its promtool; unpacks Debian's package into build/prometheus (19 MB)
test-prometheus: wheel build/prometheus/usr/bin/promtool
	@$(PY) -m pytest -q tests/e2e/cluster/test_metrics.py

build/prometheus/usr/bin/promtool:
	@tools/setup.sh prometheus

#: make test-xprof profiles of all hosts, opened by the xprof package; installs it into build/venv-xprof (200 MB)
test-xprof: wheel build/venv-xprof
	@$(PY) -m pytest -q tests/e2e/cluster/test_profile.py

build/venv-xprof: tools/locks/requirements-xprof.txt
	@tools/setup.sh xprof

#: make test-s3    checkpoints in an object store, moto's S3 server, which it installs into build/venv-s3 (140 MB)
test-s3: wheel build/venv-s3
	@build/venv-newest/bin/python -m pytest -q tests/e2e/arrays/test_object_store.py

build/venv-s3: tools/locks/requirements-s3.txt
	@tools/setup.sh s3

#: make test-helm  the Helm chart, by helm, which Go builds into build/helm (Go downloads 100 MB of sources)
test-helm: wheel build/helm/helm
	@$(PY) -m pytest -q python/tests/test_k8s.py

build/helm/helm:
	@tools/setup.sh helm

#: make image      the container image pathways:VERSION, by buildah (BASE=...: another base image; DEVICES=cuda13 or none: other devices than the CPU)
image: wheel
	@tools/image.sh

#: make test-image the container image, by buildah and by its steps in a chroot, and a cluster of its pods; needs root, installs buildah and debootstrap
test-image: wheel
	@tools/setup.sh image
	@$(PY) -m pytest -v tests/image

#: make test-page  the operators' page in a real browser; installs Debian's chromium, and node if there is none (docs/operators.md)
test-page: setup-page wheel
	@$(PY) -m pytest -q tests/browser

setup-page:
	@tools/setup.sh page

#: make test-maxtext MaxText 0.2.5 on our clusters, compared with jax's own cpu; installs it into build/venv-maxtext (2.3 GB; docs/maxtext.md)
test-maxtext: wheel build/venv-maxtext
	@tools/wheel.sh $(TREE) build/venv-maxtext
	@$(PY) -m pytest -v tests/maxtext

build/venv-maxtext: tools/locks/requirements-maxtext.txt
	@tools/setup.sh maxtext

#: make test-torchax PyTorch models by torchax, compared with torch; input pipelines of torch and tf.data; installs both into build/venv-torchax (8.5 GB, 3 to download)
test-torchax: wheel build/venv-torchax
	@tools/wheel.sh $(TREE) build/venv-torchax
	@build/venv-torchax/bin/python -m pytest -v tests/torchax

build/venv-torchax: tools/locks/requirements-torchax.txt
	@tools/setup.sh torchax

#: make test-tunix   Tunix's GRPO with actor and rollout on two islands, compared with jax's own cpu; installs it into build/venv-tunix (2 GB)
test-tunix: wheel build/venv-tunix
	@tools/wheel.sh $(TREE) build/venv-tunix
	@build/venv-tunix/bin/python -m pytest -v tests/tunix

build/venv-tunix: tools/locks/requirements-tunix.txt
	@tools/setup.sh tunix

#: make nightly    test, test-ray, test-prometheus, test-xprof, test-s3, test-page, test-helm, test-image, sim, asan, asan-e2e, tsan, tsa, fuzz, bench
nightly: test test-ray test-prometheus test-xprof test-s3 test-page test-helm test-image sim asan asan-e2e tsan tsa fuzz bench

#: make bench      all benchmarks; prints a summary, and writes JSON to build/bench
bench: wheel
	@ninja -C $(TREE) -j$(JOBS) benches
	@$(PY) tools/run_bench.py --tree $(TREE)

#: make paper      measures section 5 of the paper as far as this machine allows, in about 65 minutes, and writes build/paper/report.html (QUICK=1: a few minutes, only to test the page; RESUME=1: continues the last run; FIGURES="5 table2": only these; MINUTES=30: time for all; PUBLISH=1: waits for a quiet machine, and writes docs/paper.md and its pictures, if all of it was measured of one commit and nothing else used the machine)
paper: build/venv-paper build/venv-ray
	@commit=$$(python3 bench/paper/_code.py commit) && $(MAKE) --no-print-directory wheel && $(PY) bench/paper/_code.py stamp $$commit
	@ninja -C $(TREE) -j$(JOBS) floor_server
	@$(PY) bench/paper/run.py --out build/paper $(if $(QUICK),--quick) $(if $(RESUME),--resume) $(if $(FIGURES),--figures $(FIGURES)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(PUBLISH),--publish)

build/venv-paper: tools/locks/requirements-paper.txt
	@tools/setup.sh paper

#: make docs       the documentation as a site, in build/docs/site, its links checked
docs: build/venv-docs
	@build/venv-docs/bin/python tools/docs_site.py

build/venv-docs: tools/locks/requirements-docs.txt
	@tools/setup.sh docs

#: make locks      writes tools/locks, the hashes of all Python packages, after a change of tools/requirements*.txt
locks: build/venv-lock
	@build/venv-lock/bin/python tools/lock.py build/venv-lock/bin/uv

#: make audit      asks the registry's advisories about every package in tools/locks
audit: build/venv-lock
	@for lock in tools/locks/*.txt; do echo "$$lock"; build/venv-lock/bin/pip-audit --require-hashes --disable-pip -r $$lock || exit 1; done

#: make sbom       the software bill of materials of the wheel and of its build, in build/sbom.cdx.json (CycloneDX)
sbom: setup
	@$(PY) tools/sbom.py build/sbom.cdx.json

build/venv-lock:
	@tools/setup.sh lock

#: make clean      remove build trees and results; keeps the Python environments
clean:
	@rm -rf build/release build/asan build/asan-e2e build/tsan build/tsa build/debug build/fuzz build/results build/wheel build/pip build/bench build/paper build/docs build/programs build/plugin-nightly/tree
