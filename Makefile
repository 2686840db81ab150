# The verbs that people expect.
.PHONY: build test check ci nightly race lint generate baseline oracle conformance mutation model calls brakes watches odd injuries chaos demo up

build:
	go build -o bin/ ./cmd/coppice

test:
	go test ./...

# The gate: what must pass before a change is merged.
check ci:
	bash .ci/run

# Everything else, or some of it: make nightly STEPS="race fuzz". .ci/nightly --list has the steps.
STEPS ?=
nightly:
	.ci/nightly $(STEPS)

race lint mutation:
	.ci/nightly $@

# Generated code stands alongside its source: protobuf, and the NATS configuration.
generate:
	mkdir -p bin
	go build -o bin/ -modfile=tools/go.mod github.com/bufbuild/buf/cmd/buf google.golang.org/protobuf/cmd/protoc-gen-go
	PATH="$(CURDIR)/bin:$$PATH" buf generate
	go generate ./...

# What CI holds changes of the contract against; renewed with each release.
baseline:
	go tool -modfile=tools/go.mod buf build -o proto/baseline.binpb

# Plays the scripts of internal/oracle against Kubernetes, and records its answers.
oracle:
	cd test/oracle && go test -mod=mod -count=1 ./manifests ./selectors ./patches && go test -mod=mod -count=1 ./jsonpaths -rewrite && go test -mod=mod -count=1 -p 1 -timeout 30m . ./kubectl -rewrite

# Which test shows which rule: runs those tests, and writes docs/conformance.md.
conformance:
	go run ./test/conformance

# Holds the services against a model, with scripts that are drawn; for hours, if there are many.
# And holds plans against what the services do, and against every order of work. And restores
# 10,200 drawn graphs, RESTORES in each of three parts.
model odd: export RAPID_SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
OPS ?= 20000
FAMILIES ?= 10000
RESTORES ?= 3400
model:
	go test ./test/model -count=1 -timeout 0 -v -run TestModel -ops=$(OPS) | grep -v '^ *--- PASS\|^=== \|rapid. OK'
	go test ./services/graph/plan -count=1 -timeout 0 -run TestFamilies -rapid.checks=$(FAMILIES)
	go test ./test/families -count=1 -timeout 0 -v -families=$(FAMILIES)
	go test ./client/restore -count=1 -timeout 0 -run 'TestRestoreIsInverse$$' -rapid.checks=$(RESTORES)

# A million calls of a finalizer without a consumer, while another works.
calls:
	go test ./test/api -count=1 -timeout 0 -v -run TestQueuedCalls -calls=1000000

# Brakes with a limit of 1,000 stop the deletion of 100,000 objects, and one release finishes it: wide, as a
# tree, and as a chain of 10,000.
brakes:
	go test ./services/allinone -count=1 -timeout 0 -parallel 1 -v -run 'TestBrake$$' -brake-objects=100000

# A thousand watches that begin at once on 16 MiB of objects, and the memory that takes.
watches:
	go test ./test/processes -count=1 -timeout 0 -v -run TestWatchesBeginAtOnce -watches=1000 -watched=16

# A million odd requests of all roles: nothing crashes, and nothing changes that a
# role may not change.
ODD ?= 1000000
odd:
	go test ./test/trust -count=1 -timeout 0 -v -run TestOddRequests -odd=$(ODD)

# Damages files of installations at random, and those of one server of a cluster: each is
# survived, or refused with its name.
INJURIES ?= 200
CLUSTERS ?= 40
SEED ?= 1
injuries:
	COPPICE_NIGHTLY=1 go test ./test/injury -count=1 -timeout 0 -v -run 'TestInjuries|TestClusterInjuries' -injuries=$(INJURIES) -clusters=$(CLUSTERS) -seed=$(SEED)

# Faults on a cluster of three NATS servers, for hours: FOR=8h. Each schedule is added to
# test/chaos/runs.tsv, and docs/reliability.md has the sums. SEED is that of the first schedule.
FOR ?= 1h
chaos:
	COPPICE_NIGHTLY=1 go test ./test/chaos -count=1 -timeout 0 -v -run 'TestCluster$$' -most=0 -seed=$(SEED) -for=$(FOR) -record
	COPPICE_UPDATE=1 go test ./test/chaos -count=1 -run TestRuns

demo:
	go run ./cmd/coppice demo

up:
	go run ./cmd/coppice up
