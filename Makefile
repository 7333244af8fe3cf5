# make            what there is
# make up         build, start a cluster in $(DIR), wait until it is healthy
# make down       stop it; its data stays
# make test       install what the tests need, check and test everything (about 25 minutes on two cores)
#                 (T=erasure: only an area of docs/testing.md, or tests whose names hold the word)
# make test-all   the same with more seeds, and with the tests that docs/testing.md says are only here
# make test-guest only those in which Linux's own client, in a guest of QEMU, uses block images
# make s3-tests  a folder of the public suite of S3 (SUITE=FOLDER) against a gateway; PYTHON has what the suite needs
# make s3-sdks   Hadoop's S3A and the AWS SDKs for Java and Go against a gateway (FLAGS="--only s3a": one of them)
# make endurance  clients with journals on a cluster that suffers, for HOURS=1 hours (FLAGS="--seed 7": a seed again)
# make check      tidy, format, clippy and unit tests of the crates that have changed
# make performance  measure this against a real Ceph on this machine with nacre bench; tables in docs/performance.md
#                 (FLAGS="--rows block": only some of them)
# make compare    the same with Ceph's own 'rados bench' as load, as an independent check; tables in $(OUT)
# make cost       count what one small operation takes of CPU, system calls, switches and drive requests, by daemon and
#                 by layer (FLAGS="--rows randwrite --engine ceph"): about three minutes
# make bench-store  measure the store alone beside fio, on a new file in $(BENCH_DIR) of 18 GiB: about eight minutes
# make doc        the documentation of the crates, in target/doc
#
# Packages of the system that are missing are installed with apt-get, as root or through sudo.

DIR ?= nacre-data
OUT ?= target/compare
BENCH_DIR ?= .
# More flags for 'nacre up' or the comparison, such as FLAGS="--osds 3 --port 41000".
FLAGS ?=
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
NACRE := $(or $(CARGO_TARGET_DIR),target)/release/nacre
TOOLS := command -v valgrind && command -v ip && command -v ceph && command -v rados && command -v ceph-mon && command -v ceph-osd && command -v ceph-mgr && command -v qemu-io && command -v qemu-storage-daemon && command -v mke2fs && \
  command -v osdmaptool && command -v crushtool && command -v monmaptool && command -v ceph-authtool && command -v fio

# $(1): a shell command that succeeds if what is needed is there; $(2): packages that bring it.
define need
@($(1)) >/dev/null 2>&1 || { echo "installing: $(2)"; $(SUDO) apt-get update -q && \
  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $(2); }
endef

# T: an area of docs/testing.md, or a part of the names of tests.
T ?=
HOURS ?= 1

.PHONY: help build rust packages guest browser losses s3-clients up down test test-all test-guest s3-tests s3-sdks endurance check performance compare cost bench-store doc

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

# Rust comes from rustup; a linker and C compiler from the system.
rust:
	$(call need,command -v cc,gcc libc6-dev)
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust with rustup"; exit 1; }

build: rust
	cargo build --release --bin nacre

up: build
	$(NACRE) up --dir $(DIR) --detach $(FLAGS)

down:
	$(NACRE) down --dir $(DIR)

# The real Ceph is what the tests compare with, and its clients are what the clusters are driven by.
packages:
	$(call need,$(TOOLS) && /usr/bin/python3 -c 'import rados; import rbd; import boto3',\
	  valgrind iproute2 ceph-base ceph-common ceph-mon ceph-osd ceph-mgr fio python3 python3-rados python3-rbd python3-boto3 \
	  qemu-utils qemu-block-extra qemu-system-common e2fsprogs)

# Kernels of Debian for the guest, which are not installed here.
guest:
	$(call need,command -v qemu-system-x86_64 && command -v busybox && command -v cpio && command -v xz && command -v mke2fs && command -v python3 && \
	  command -v lvm && command -v nvme && command -v sgdisk,\
	  qemu-system-x86 busybox-static cpio xz-utils e2fsprogs python3 lvm2 nvme-cli gdisk)
	tests/guest/prepare.py $(or $(CARGO_TARGET_DIR),target)/guest

test: packages rust
	tests/run $(if $(T),--only '$(T)')

# Pages are looked at in a browser; npm brings the checker of accessibility.
browser:
	$(call need,command -v chromium,chromium)
	$(call need,command -v npm,npm)

# Losses on the network are made by rules of the kernel's.
losses:
	$(call need,command -v nft,nftables)

# Programs that people use with S3.
s3-clients:
	$(call need,command -v aws && command -v rclone && command -v s3cmd && command -v restic && command -v docker-registry && command -v skopeo && command -v curl && command -v openssl,\
	  awscli rclone s3cmd restic docker-registry skopeo curl openssl)

test-all: packages guest browser losses s3-clients rust
	tests/run --whole $(if $(T),--only '$(T)')

test-guest: packages guest rust
	NACRE_REQUIRE_ORACLES=1 tests/run --whole --only clusters::kernel_client

SUITE ?= s3-tests
PYTHON ?= python3
s3-tests: build
	tests/s3/run.py $(SUITE) --nacre $(NACRE) --python $(PYTHON) $(FLAGS)

# Maven and Go bring what the programs need; versions and checksums are in tests/sdks.
s3-sdks: build
	$(call need,command -v mvn && command -v javac,maven default-jdk-headless)
	@command -v go >/dev/null || { echo "go is missing: install Go 1.24 or newer"; exit 1; }
	tests/sdks/run.py --nacre $(NACRE) $(FLAGS)

endurance: packages losses build
	tests/endurance/run.py --hours $(HOURS) --nacre $(NACRE) $(FLAGS)

check: rust
	$(call need,command -v python3,python3)
	tests/run --changed

performance: packages build
	$(if $(filter s3,$(FLAGS)),$(call need,command -v radosgw,radosgw))
	tests/performance $(NACRE) $(FLAGS)

compare: packages build
	tests/compare/compare.py --nacre $(NACRE) --out $(OUT) $(FLAGS)

cost: packages build
	$(call need,command -v perf,linux-perf)
	$(SUDO) env PATH="$$PATH" tests/cost/run.py --nacre $(NACRE) $(FLAGS)

bench-store: rust
	$(call need,command -v fio,fio)
	cargo run --release -p osd --example store_vs_fio -- $(BENCH_DIR)/store-bench.img $(FLAGS)

doc: rust
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --workspace --no-deps --document-private-items
