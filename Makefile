# make            what there is
# make up         build, start a cluster in $(DIR), wait until it is healthy
# make down       stop it; its data stays
# make test       everything that can be tested here
#
# Packages of the system that are missing are installed with apt-get, as root or through sudo.

DIR ?= nacre-data
# More flags for 'nacre up', such as FLAGS="--osds 3 --port 41000".
FLAGS ?=
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
NACRE := target/release/nacre

# $(1): a shell command that succeeds if what is needed is there; $(2): packages that bring it.
define need
@($(1)) >/dev/null 2>&1 || { echo "installing: $(2)"; $(SUDO) apt-get update -q && \
  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $(2); }
endef

.PHONY: help build up down test

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

# Rust comes from rustup; a linker and C compiler from the system.
build:
	$(call need,command -v cc,gcc libc6-dev)
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust with rustup"; exit 1; }
	cargo build --release --bin nacre

up: build
	$(NACRE) up --dir $(DIR) --detach $(FLAGS)

down:
	$(NACRE) down --dir $(DIR)

# The real Ceph is what the tests compare with, and its clients are what the clusters are driven by.
test:
	$(call need,command -v cc,gcc libc6-dev)
	$(call need,command -v ceph && command -v rados,ceph-common)
	$(call need,command -v ceph-mon && command -v ceph-osd && command -v ceph-mgr,ceph-mon ceph-osd ceph-mgr)
	$(call need,command -v osdmaptool && command -v crushtool && command -v monmaptool,ceph-base)
	$(call need,command -v fio,fio)
	$(call need,python3 -c 'import rados',python3 python3-rados)
	cargo build --bin nacre
	cargo test --workspace
