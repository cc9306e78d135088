# shardfdw: build, install and test with PGXS
#
#   make                        build for the PostgreSQL of the first pg_config in PATH
#   make PG_CONFIG=/path/...    build for another one
#   make install                install library, control file and scripts
#   make installcheck           run the tests against a running server
#
#   make COPT=-Werror FAULT_POINTS=1    what scripts/check does; see src/fault.h

EXTENSION = shardfdw
# The version stands in the control file, nowhere else: scripts and library get it from here.
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)' *$$/\1/p" $(EXTENSION).control)
ifeq ($(EXTVERSION),)
$(error $(EXTENSION).control has no default_version = '...')
endif
MODULE_big = shardfdw
PGFILEDESC = "shardfdw - one PostgreSQL in front of many, by foreign partitions"

OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c src/*/*/*.c)))

# The install script of this version is built. In git are those of released versions, and the upgrade scripts.
EXTSCRIPT = sql/$(EXTENSION)--$(EXTVERSION).sql
EXTPARTS = $(sort $(wildcard sql/install/*.sql))
DATA_built = $(EXTSCRIPT)
# Programs for any machine that has psql and Python.
SCRIPTS = contrib/report/shardfdw-report
SCRIPTS_built = shardfdw-advise
DATA = $(filter-out $(EXTSCRIPT),$(sort $(wildcard sql/$(EXTENSION)--*.sql)))

# Tests. "setup" makes the loopback nodes that the others use, so it goes first.
REGRESS_ALL := $(basename $(notdir $(filter-out sql/$(EXTENSION)--%,$(wildcard sql/*.sql))))
REGRESS := $(filter setup,$(REGRESS_ALL)) $(sort $(filter-out setup,$(REGRESS_ALL)))
ISOLATION := $(sort $(basename $(notdir $(wildcard specs/*.spec))))
ifneq ($(wildcard t/*.pl),)
TAP_TESTS = 1
endif
PROVE_FLAGS += -I t/lib

PG_CPPFLAGS = -I$(libpq_srcdir) -Isrc
ifdef FAULT_POINTS
PG_CPPFLAGS += -DSHARDFDW_FAULT_POINTS
endif
# Core's own headers are not clean under these three.
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers -MMD -MP
SHLIB_LINK_INTERNAL = $(libpq)
EXTRA_CLEAN = $(OBJS:.o=.d)
# No other library replaces our functions, so calls between files need no symbol look-up by the
# dynamic linker.
PG_CFLAGS += -fno-semantic-interposition

# No LLVM bitcode: it would make the matching clang a build dependency.
override with_llvm = no

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(PGXS),)
$(error "$(PG_CONFIG)" does not work; install PostgreSQL's server headers, or name its pg_config with PG_CONFIG=)
endif
include $(PGXS)
ifeq ($(PORTNAME),linux)
SHLIB_LINK += -Wl,-Bsymbolic-functions
endif

ifeq ($(filter 15 16 17 18 19,$(MAJORVERSION)),)
$(error shardfdw needs PostgreSQL 15 to 19, but $(PG_CONFIG) belongs to version $(VERSION))
endif

# The object depends on each header it includes (written by -MMD) and on how it is built.
$(OBJS): Makefile
-include $(OBJS:.o=.d)
src/version.o: $(EXTENSION).control
src/version.o: override CPPFLAGS += -DSHARDFDW_VERSION='"$(EXTVERSION)"'

# "echo" must not take part in this: shells differ in what they make of the backslash.
$(EXTSCRIPT): $(EXTPARTS) Makefile
	printf '%s\n\n' '\echo Use "CREATE EXTENSION $(EXTENSION)" to load this file. \quit' > $@.tmp
	cat $(EXTPARTS) < /dev/null >> $@.tmp
	mv $@.tmp $@

shardfdw-advise: scripts/advise
	cp $< $@

.PHONY: layers
layers: all
	PG_CONFIG='$(PG_CONFIG)' scripts/check_layers
