# The ways to build, run and check Onceward; `make` shows them.
# What is needed: Go and Node. A PostgreSQL is found or brought, see README.md.

GO      ?= go
# Every module that go.work joins, and all of its packages.
MODULES  = $(shell $(GO) list -m -f '{{.Dir}}')
PACKAGES = $(addsuffix /...,$(MODULES))
LINT    := bin/golangci-lint

# For `make fuzz` and `make test/race`.
FUZZTIME ?= 20s
RACE     ?= $(PACKAGES)

.DEFAULT_GOAL := help
.PHONY: help run env demo reset web/build web/check chromium build test test/short test/race fuzz lint verify licences vuln fmt stats

help: ## show this
	@awk 'BEGIN { FS = ":.*## " } /^[a-z\/-]+:.*## / { gsub(/[$$][$$]/, "$$", $$2); printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: web/build ## build, and run Onceward with a PostgreSQL of its own until Ctrl-C
	@echo "building api, worker and dev (the first time takes a minute or two) …"
	@$(GO) build -v -o bin/ ./cmd/api ./cmd/worker ./cmd/dev
	@bin/dev run

env: ## print exports of ONCEWARD_URL and ONCEWARD_KEY: eval "$$(make -s env)"
	@if [ -x bin/dev ]; then bin/dev env; else echo "✗ nothing is running in this checkout: start it with \`make run\`" >&2; exit 1; fi

demo: ## send half a minute of traffic to what make run runs, with clients that misbehave
	@$(GO) build -o bin/ ./cmd/dev
	@bin/dev demo

reset: ## delete the data and credentials that make run has kept
	@$(GO) build -o bin/ ./cmd/dev
	@bin/dev reset

build: web/build ## build the dashboard and every binary into bin/
	$(GO) build -o bin/ ./cmd/...

test: withpg web/build chromium ## vet, and run all tests of every module against one throw-away PostgreSQL
	$(GO) vet $(PACKAGES)
	bin/withpg $(GO) test $(PACKAGES)

test/short: withpg ## run the tests that take moments
	bin/withpg $(GO) test -short $(PACKAGES)

SCHEMA_PACKAGES = ./internal/keys ./internal/auth ./internal/tenants ./internal/limits ./internal/audit ./internal/analytics ./internal/pruning ./internal/api

test/schemas: withpg ## run the tests of what speaks SQL on the oldest schema that it serves on, and on one that it does not know
	ONCEWARD_TEST_SCHEMA=oldest bin/withpg $(GO) test $(SCHEMA_PACKAGES)
	ONCEWARD_TEST_SCHEMA=newer bin/withpg $(GO) test $(SCHEMA_PACKAGES)

test/race: withpg web/build chromium ## run all tests under the race detector (RACE=./internal/keys for some)
	bin/withpg $(GO) test -race $(RACE)

fuzz: ## give every fuzz target a while (FUZZTIME=20s)
	@grep -rHo --include='*_test.go' --exclude-dir='.?*' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func / /' | \
	while read -r file target; do \
		echo "$$target of $${file%/*}"; \
		$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) "$${file%/*}" </dev/null || exit 1; \
	done

lint: $(LINT) ## hold every module against .golangci.yml
	$(LINT) run $(PACKAGES)

verify: ## check that every module is tidy and needs no workspace
	@for module in $(MODULES); do echo "go mod tidy: $$module"; (cd "$$module" && GOWORK=off $(GO) mod tidy -diff) || exit 1; done

licences: ## check that every module and npm package has a licence of a permitted kind, offline
	@cd tools && GOWORK=off $(GO) test ./licences && GOWORK=off $(GO) run ./licences ..

# Not in CI: it asks vuln.go.dev. Its version stands here, so that what lints
# does not carry it.
GOVULNCHECK ?= golang.org/x/vuln/cmd/govulncheck@v1.9.0
vuln: ## look for known vulnerabilities in what the binaries call (needs the network)
	GOWORK=off $(GO) run $(GOVULNCHECK) ./cmd/...

fmt: $(LINT) ## format as lint wants it
	$(LINT) fmt

stats: ## show how large files and functions are
	@cd tools && GOWORK=off $(GO) run ./stats ..

# The dashboard is embedded into the API: it is built when a source of it is
# newer than the last build.
WEB_SOURCES := web/index.html web/vite.config.ts $(shell find web/src web/public -type f ! -name schema.d.ts)

web/build: web/dist/index.html ## build the dashboard, where its sources are newer

web/dist/index.html: web/node_modules/.package-lock.json $(WEB_SOURCES)
	@echo "building the dashboard …"
	@cd web && npm run --silent build -- --logLevel warn
	@touch $@

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	@command -v npm >/dev/null || { echo "✗ the dashboard needs Node 20.19 or newer with npm" >&2; exit 1; }
	@echo "installing what the dashboard is built with …"
	@cd web && npm ci --no-fund --no-audit --loglevel error
	@touch $@

# The tests of test/browser look at the dashboard with it; without it they are
# skipped, but with TEST_BROWSER_REQUIRED=1.
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing Chromium …" && apt-get install -y -qq chromium >/dev/null; } || \
	echo "! no Chromium: the tests of the dashboard in a browser are skipped" >&2

web/check: web/node_modules/.package-lock.json ## check the dashboard's types, against api/openapi.yaml too
	cd web && npm run --silent types && npm run --silent check

# Test servers come and go with it; see internal/postgres/devpg/withpg.
.PHONY: withpg
withpg:
	@$(GO) build -o bin/ ./internal/postgres/devpg/withpg

# Its version is in tools/go.mod, apart from what the service needs.
$(LINT): tools/go.mod tools/go.sum
	@echo "building golangci-lint, once (about two minutes) …"
	@cd tools && GOWORK=off $(GO) build -o ../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $(LINT)

.PHONY: bench bench-quick history
bench: ## measure the service beside plain statements, into bench/results/latest.md (BENCH="-pairs 9" for other flags)
	@$(GO) build -o bin/ ./bench
	bin/bench $(BENCH)

# Each round makes its calls while sessions are cut off and processes killed.
CALLS ?= 2000000
history: withpg ## check that CALLS=2000000 random calls of many clients are those of one record for each key
	bin/withpg $(GO) test ./test/history -run Every -count=1 -v -timeout 4h -args -calls $(CALLS)

bench-quick: ## the same in under two minutes, only printed
	@$(GO) build -o bin/ ./bench
	bin/bench -quick $(BENCH)
