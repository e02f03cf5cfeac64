# The commands of this project. Each installs what it needs; `make` alone lists them.

CARGO  := scripts/cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
# of Cargo.toml
PROFILE := release
FWDLAB = $(TARGET)/$(PROFILE)/fwdlab

# administrators' programs are not in every user's PATH
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin

.DEFAULT_GOAL := help
.PHONY: help quick dist test test-all bench build bootstrap gallery clean-beds

help:
	@echo 'make quick        build, then measure how fast this machine forwards packets (about a minute)'
	@echo "                  make quick ARGS=\"--vs 'nft add table ip t'\"    what does a configuration cost?"
	@echo '                  sudo make quick    with all it can; still builds as you'
	@echo 'make test         checks and tests; tests that need root are skipped without it'
	@echo 'make test-all     also those that need the machine for themselves, or guests: 9 minutes more'
	@echo 'make build        build target/release/fwdlab: smaller than the target/quick/fwdlab of make quick, and faster'
	@echo '                  at everything but frames; neither has PNG and TLS (make dist includes them)'
	@echo 'make dist         static programs and Debian packages for x86-64 and arm64, in dist/'
	@echo 'make bench        benchmarks; sudo make bench also compares our engines with other generators (4 minutes)'
	@echo 'sudo make gallery make the pages of examples/published, with their runs measured again;'
	@echo '                  make gallery ARGS=pages only makes the pages'
	@echo 'make clean-beds   remove test beds that a killed run left behind'
	@echo 'make bootstrap    install the system packages that the build needs, if any are missing'

bootstrap:
	@scripts/bootstrap

# quiet if nothing needs to be built
build: bootstrap
	@quiet=; \
	if [ -x $(FWDLAB) ] && [ -z "$$(find Cargo.toml Cargo.lock crates -newer $(FWDLAB) -type f -print -quit)" ]; \
	then quiet=--quiet; fi; \
	$(CARGO) build --profile $(PROFILE) --package fwdlab --no-default-features $$quiet

quick clean-beds: PROFILE := quick
quick: build
# code 5 is a result, too: the machine is too noisy, and the output says what to do. Scripts call
# the program and get the code
	@$(FWDLAB) quick $(ARGS) || { code=$$?; [ $$code -eq 5 ] || exit $$code; }

# xtask runs and counts everything. Under sudo, it is built as the calling user and runs as root. It
# is built like the tests, with clippy's compiler and the features of the whole workspace and of a
# test; otherwise dozens of crates would be compiled twice. Packages that only tests need are
# installed in parallel; xtask waits for them
test:
	@scripts/bootstrap
	@scripts/bootstrap --tests & \
	lints=; \
	if $(CARGO) clippy --version >/dev/null 2>&1; then lints='--config build.rustc-workspace-wrapper="clippy-driver"'; fi; \
	$(CARGO) $$lints build --quiet --workspace --bin xtask --test usage && \
	CARGO_MANIFEST_DIR=$(CURDIR)/xtask scripts/cargo --run $(TARGET)/debug/xtask test; \
	code=$$?; wait; exit $$code

test-all: test
	@CARGO_MANIFEST_DIR=$(CURDIR)/xtask scripts/cargo --run $(TARGET)/debug/xtask test rest

# under sudo, it is built as the calling user; only the comparison of engines runs as root, and
# needs both CPUs
bench:
	@scripts/bootstrap --bench
	@if [ -n "$${SUDO_USER:-}" ]; then $(CARGO) bench --workspace --no-run; fi
	@$(CARGO) bench --workspace --exclude fwdlab-engine
	@scripts/cargo --root bench --package fwdlab-engine --bench veth -- $(ARGS)
	@if pkg-config --exists libdpdk; then scripts/cargo --root bench --package fwdlab-dpdk --features driver --bench null; fi

dist: bootstrap
	@scripts/dist $(ARGS)

gallery: build
	@FWDLAB=$(FWDLAB) scripts/published $(ARGS)

clean-beds: build
	@$(FWDLAB) bed down
