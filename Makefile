# Everything that is done with this tree, one word each. `make` alone lists the words.

GO        ?= go
BIN       := bin/duly
DATA      ?= ./duly-data
ARGS      ?=
RUN       ?= .
FUZZTIME  ?= 60s
PLATFORMS ?= darwin/arm64 windows/amd64 linux/arm64

# -count=1: a test result from the cache proves nothing about this machine.
# -p and -parallel: many tests wait for a disk, a server or a process, so three packages on two cores, and two tests per
# core of each, run at the same time.
# -vet=off: the target vet has vetted every package.
# -timeout holds per package; the whole of `make test` is meant to take less.
CORES     := $(shell getconf _NPROCESSORS_ONLN)
TEST      := $(GO) test -count=1 -vet=off -p $(shell echo $$((($(CORES) * 3 + 1) / 2))) -parallel $(shell echo $$((2 * $(CORES))))
# The packages whose tests take longest begin first, so that no other one waits for them at the end. The second line
# has those that mostly wait.
FIRST     := ./redisengine ./test/chaos ./sqliteengine ./test/conformance ./cmd/duly ./internal/model \
	./server/lmstfy ./test/bench ./test/service ./redisengine/internal/link ./server
# Parts with libraries of their own are modules of their own, which ./... leaves out.
MODULES   := examples/adaptivelimit test/browser
# Long suites ask for this variable; without it they run their short form.
LONG      := DULY_LONG=1 $(TEST) -v

.DEFAULT_GOAL := help
.PHONY: help run build test race vet modules browser screens fmt prose cross model chaos fuzz mutate bench release release-check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: build ## build, then serve on the embedded engine in DATA (./duly-data)
	@exec ./$(BIN) serve --data '$(DATA)' $(ARGS)

build: ## build the one static binary, bin/duly
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN) ./cmd/duly

test: tools-test vet fmt modules ## everything that must hold: conformance, model, units, the short kills
	$(TEST) -timeout 20m $(FIRST) ./...

# The translated SQLite works in memory that is not Go's, which the race detector
# does not watch: to instrument it finds nothing and takes eight times the time.
# Packages that share nothing, and whose tests start no goroutine, are left out.
# So is test/chaos: it kills processes, and a killed process reports no race. The
# calls of its processes are those of the conformance suite.
NO_GOROUTINES := /internal/(adaptive|aimd|archtest|archtest/prose|cron|durable|hook|lmstfyimport|logcursor|release|wire)$$
NO_GOROUTINES := $(NO_GOROUTINES)|/cmd/duly/internal/(config|sdnotify)$$|/redisengine/(lua|internal/codec)$$
NO_GOROUTINES := $(NO_GOROUTINES)|/sqliteengine/internal/(rules|storefile)$$|/server/(describe|webhook/seal)$$|/test/chaos$$
race: tools-race ## the short tests again, under the race detector
	$(TEST) -timeout 20m -race -short -gcflags='modernc.org/...=-race=false' $(filter-out ./test/chaos,$(FIRST)) $$($(GO) list ./... | grep -vE '$(NO_GOROUTINES)')

vet: ## go vet
	$(GO) vet ./...

modules: ## vet and test the parts that are modules of their own
	@set -e; for m in $(MODULES); do \
		echo "test $$m"; \
		(cd "$$m" && $(GO) vet ./... && $(TEST) ./...); \
	done

browser: tools-browser ## the dashboard in headless Chromium alone (RUN=pattern)
	cd test/browser && $(TEST) -v -timeout 10m -run '$(RUN)' ./...

screens: tools-browser ## write a picture of every page, theme and width into bin/screens
	@mkdir -p bin/screens
	cd test/browser && DULY_SCREENS=$(CURDIR)/bin/screens $(TEST) -timeout 10m -run Pages ./...

fmt: ## fail on a file that gofmt would change
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then printf 'gofmt would change:\n%s\n' "$$out" >&2; exit 1; fi

prose: ## measure words, sentences and functions; fail on a figure out of bounds (ARGS=-list: each place)
	@$(GO) run ./internal/archtest/prose $(ARGS)

cross: ## compile every package for the other platforms
	@set -e; for p in $(PLATFORMS); do \
		echo "compile $$p"; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build ./...; \
	done

model: ## the model test in its long form: 10 000 sequences and more
	$(LONG) -timeout 3h -run Model ./...

chaos: ## kill, cut, fill and freeze real processes, in full counts (RUN=pattern)
	$(LONG) -timeout 6h -run '$(RUN)' ./test/chaos/...

fuzz: ## every fuzz target of the tree, FUZZTIME (60s) each
	@GO='$(GO)' scripts/fuzz $(FUZZTIME)

mutate: tools-test ## plant small bugs and report those that no test finds, 30 minutes (ARGS='-target worker -n 100')
	$(GO) run ./test/mutate $(ARGS)

# In the tree and not in a temporary folder, which is memory on many machines: a sync would cost nothing there.
bench: build ## measure everything in docs/benchmarks.md, 45 minutes (ARGS='--url … --json': duly bench alone)
	@rm -rf ./bench-data && mkdir ./bench-data
ifeq ($(ARGS),)
	./$(BIN) bench --data ./bench-data
	./$(BIN) bench --data ./bench-data --phases push,take,single,work --backlog-ready 1000000 --backlog-delayed 1000000 --reopen
	./$(BIN) bench --data ./bench-data --sync-delay 2ms
	./$(BIN) bench --data ./bench-data --phases lateness --rate 10000 --jobs 100000 --time 20s --repeat 1
	./$(BIN) bench --data ./bench-data --phases tick-lateness --rate 100
	$(LONG) -timeout 15m ./test/bench
	@scripts/bench-http
	@scripts/bench-redis
	@scripts/bench-cluster
	@scripts/bench-ui
else
	./$(BIN) bench $(ARGS)
endif

release: ## build the files of a release in dist/ (VERSION=v1.2.3); docs/release.md has the steps
	$(GO) run ./packaging/release -version '$(VERSION)' -out dist -go '$(GO)'

release-check: ## build a release twice and prove that it is reproducible, small, and installs (root, Debian)
	@GO='$(GO)' scripts/release-check $(VERSION)

clean: ## remove what the build and the benchmark made; ./duly-data stays
	rm -rf ./bin ./dist ./bench-data

# What the tests call beside Go. Missing tools are installed where that is possible and named where it is not.
.PHONY: tools-test tools-race tools-browser
tools-test:
	@scripts/install-test-tools strace unshare mount nsenter redis-server cc chromium
tools-browser:
	@scripts/install-test-tools chromium
tools-race:
	@scripts/install-test-tools cc redis-server
