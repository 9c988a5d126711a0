# The front door. Each target first installs what it needs (scripts/install-deps) and says so.
BUILD := build
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 20
TUTTI := $(BUILD)/bin/tutti
export CTEST_OUTPUT_ON_FAILURE := 1
# What one checkout has compiled serves another.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export GTEST_COLOR := no

.DEFAULT_GOAL := build
.PHONY: build demo test coverage bench lint format fuzz clean help

build: ## the library and the tutti command, into build/lib and build/bin
	@scripts/install-deps build
	@test -f $(BUILD)/CMakeCache.txt || cmake --preset release -DTUTTI_TESTS=OFF
	@cmake --build $(BUILD) -j $(JOBS) --target tutti tutti_command

demo: build ## four ranks run every collective, verified; network ports fail and slow down; a stopped rank is named
	@$(TUTTI) demo

test: ## all tests
	@scripts/install-deps test
	@cmake --preset release -DTUTTI_TESTS=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS)
	@ctest --test-dir $(BUILD) -j $(JOBS)

coverage: ## how many lines of src/engine its unit tests run (2 minutes)
	@scripts/install-deps test
	@scripts/coverage --build $(BUILD)

test-labs: failover-build ## networks that fail under jobs with pauses of 0.05, 1 and 10 s, beside busy loops (30 minutes, root)
	@for lab in "failover.sh $(BUILD)/bin/failover_rank 2" "spare.sh $(BUILD)/bin/failover_rank" \
	  "relay.sh $(BUILD)/bin/failover_rank"; do for pause in 50 1000 10000; do \
	  echo "== $$lab, pauses of $$pause ms"; \
	  LAB_PAUSE_MS=$$pause LAB_CHURN=1 LAB_FILES=128 LAB_BUSY=2 bash tests/labs/$$lab || exit 1; done; done

bench: bench-build ## Open MPI, MPICH, Gloo and us side by side: table, JSON and plots in build/bench/ (15 minutes)
	@bench/run.py $(BUILD)

bench-quick: bench-build ## the same in two minutes
	@bench/run.py $(BUILD) --quick

bench-compare: bench-build ## this tree against another revision's library: make bench-compare BASE=rev
	@test -n "$(BASE)" || { echo "make bench-compare BASE=revision" >&2; exit 2; }
	@JOBS=$(JOBS) bench/compare.sh $(BUILD) $(BASE) --quick

bench-carry: bench-build ## packs benches, peers and their libraries into build/carry, for a machine that installs nothing
	@cmake --preset release -DTUTTI_TESTS=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target startup job_simulation tutti_command
	@bench/carry.py $(BUILD)

bench-communicators: bench-build ## what 100 more communicators of the same two processes cost (1 minute)
	@bench/communicators.py $(BUILD)

bench-startup: ## 2 to 1,024 processes until their first barrier, beside Open MPI and MPICH; simulated: 100,000 (20 minutes)
	@scripts/install-deps bench
	@cmake --preset release -DTUTTI_BENCH=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target startup
	@bench/startup.py $(BUILD) $(ARGS)

bench-membership: bench-build ## agreement, death notices and the start among 16 to 100,000 simulated ranks (1 minute)
	@bench/membership.py $(BUILD)

bench-collector: ## what a collector takes that the agents of 10,240 simulated ranks report to: CPU time and memory (2 minutes)
	@scripts/install-deps bench
	@cmake --preset release -DTUTTI_BENCH=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target collector_feed tutti_command
	@bench/collector.py $(BUILD) $(ARGS)

bench-diagnosis: ## 16 faults of eight hosts: seconds until the culprit is named, and how often it is the right one (1 hour, resumes, root)
	@scripts/install-deps test
	@cmake --preset release -DTUTTI_TESTS=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target diagnosed_rank tutti_command
	@bench/diagnosis.py $(BUILD) $(ARGS)

bench-diagnosis-soak: ## what diagnosis says of a job that works, with uneven steps: nothing, if all is well (30 minutes, root)
	@scripts/install-deps test
	@cmake --preset release -DTUTTI_TESTS=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target soak_rank tutti_command
	@bench/diagnosis_soak.py $(BUILD) $(ARGS)

bench-diagnosis-scale: ## diagnosis of 10,240 and 102,400 generated ranks: time, and how often it is right (5 minutes)
	@scripts/install-deps bench
	@cmake --preset release -DTUTTI_BENCH=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target diagnosis_bench
	@bench/diagnosis_scale.py $(BUILD) $(ARGS)

bench-failover: failover-build ## network ports that fail: pauses, bandwidth, 1,000 failovers, plots (15 minutes, root)
	@bench/failover.py $(BUILD)

bench-failover-quick: failover-build ## the same in two minutes
	@bench/failover.py $(BUILD) --quick

bench-reliability: failover-build ## what a job survives that pauses, on busy cores: 100 runs of each fault (3 hours, resumes, root)
	@scripts/install-deps test
	@cmake --preset release -DTUTTI_TESTS=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS)
	@bench/reliability.py $(BUILD) $(ARGS)

bench-reliability-quick: failover-build ## the same in a minute
	@cmake --preset release -DTUTTI_TESTS=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target failover_rank tcp_test
	@bench/reliability.py $(BUILD) --quick

bench-chaos: chaos-build ## everything at once on a training-like job: 3 seeds of 10 minutes (35 minutes, resumes, root)
	@bench/chaos.py $(BUILD) $(ARGS)

bench-chaos-quick: chaos-build ## the same in a minute, with a seed that is drawn
	@bench/chaos.py $(BUILD) --quick $(ARGS)

bench-shares: failover-build ## how two rails share the work of a loop with pauses, when one slows down and recovers (6 minutes, root)
	@bench/shares.py $(BUILD)

bench-checksum: ## what checksums of chunks cost over TCP, and what they find of bits that are flipped (2 minutes)
	@scripts/install-deps bench test
	@cmake --preset release -DTUTTI_TESTS=ON -DTUTTI_BENCH=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target recorded_rank summing_rank flip_bits tutti_command
	@bench/checksum.py $(BUILD) $(ARGS)

bench-simulation: ## 1,000,000 simulated jobs on networks that fail, and how often each branch was taken (hours, resumes)
	@scripts/install-deps test
	@cmake --preset release -DTUTTI_TESTS=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target job_simulation
	@bench/simulation.py $(BUILD) $(ARGS)

bench-mutants: ## faults seeded into dialing, waking, membership and agreement: does a test notice each? (15 minutes)
	@scripts/install-deps test
	@cmake --preset release -DTUTTI_TESTS=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target job_simulation agreement_test control_test
	@tests/mutants/run.py $(BUILD) --suite defects $(ARGS)
	@tests/mutants/run.py $(BUILD) --suite jobs $(ARGS)

bench-monitor: monitor-build ## what recording costs, and what it sees: tables, plots (10 minutes, root)
	@bench/monitor_costs.py $(BUILD)
	@bench/monitor_agent.py $(BUILD)
	@bench/monitor_lanes.py $(BUILD)

bench-monitor-quick: monitor-build ## the same in two minutes
	@bench/monitor_costs.py $(BUILD) --quick
	@bench/monitor_agent.py $(BUILD) --quick
	@bench/monitor_lanes.py $(BUILD) --quick

bench-synth: build ## what synthesis reaches, and what it takes: bounds, NCCL, TACCL (15 minutes)
	@bench/synth.py $(BUILD)

bench-synth-quick: build ## the same in a minute
	@bench/synth.py $(BUILD) --quick

bench-synth-lab: build ## synthesized programs on eight hosts with uneven rates, against the ring and all others (root, 15 minutes)
	@scripts/install-deps bench
	@tests/labs/synthesis_lab.py $(BUILD)

.PHONY: bench-synth bench-synth-quick bench-synth-lab
.PHONY: bench-monitor bench-monitor-quick monitor-build
monitor-build:
	@scripts/install-deps bench test
	@cmake --preset release -DTUTTI_TESTS=ON -DTUTTI_BENCH=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target recorded_rank tutti_command monitor_rank monitor_follow lane_drops_test

.PHONY: bench-build bench-carry bench-communicators bench-quick bench-compare bench-failover bench-failover-quick failover-build
.PHONY: bench-reliability bench-reliability-quick bench-shares bench-simulation bench-mutants test-labs bench-startup bench-membership bench-collector bench-diagnosis bench-diagnosis-scale bench-diagnosis-soak
.PHONY: bench-checksum bench-chaos bench-chaos-quick chaos-build
chaos-build:
	@scripts/install-deps bench
	@cmake --preset release -DTUTTI_BENCH=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target chaos_rank

failover-build:
	@scripts/install-deps bench
	@cmake --preset release -DTUTTI_BENCH=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target failover_rank

bench-build:
	@scripts/install-deps bench
	@cmake --preset release -DTUTTI_BENCH=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target peers costs_bench communicators_bench membership_bench micro_bench reduce_bench

lint: ## format, clang-tidy, self-contained headers, direction of includes
	@scripts/install-deps lint
	@cmake --preset release -DTUTTI_TESTS=ON >/dev/null
	@scripts/lint $(BUILD) $(JOBS)

format: ## rewrites our sources with clang-format
	@scripts/install-deps lint
	@scripts/sources cc hpp | xargs clang-format -i

fuzz: ## every fuzzer for FUZZ_SECONDS (20)
	@scripts/install-deps fuzz
	@cmake --preset fuzz >/dev/null
	@cmake --build --preset fuzz -j $(JOBS) --target fuzzers
	@scripts/fuzz $(BUILD)/fuzz $(FUZZ_SECONDS)

clean: ## removes build/
	rm -rf $(BUILD)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-20s %s\n", $$1, $$2}' Makefile
