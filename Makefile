# Makefile of fleetlog, an extension built with PGXS.
#
# One tree builds for every supported server (15 to 18): choose another one with PG_CONFIG=...  Sources are found
# by wildcard, so that a new file in src/ or bgworker/ needs no edit here.  Targets beyond PGXS's own:
#   make headercheck   every public header compiles alone
#   make exportcheck   the library exports what src/fleetlog.map allows and nothing else
#   make unit          unit tests of the code that needs no server, under ASan and UBSan
#   make fuzz          a short run of every fuzz target (SECONDS=60 for a longer one)

EXTENSION = fleetlog
EXTVERSION = 0.1
MODULE_big = fleetlog

SRCS = $(sort $(wildcard src/*.c src/*/*.c src/*/*/*.c bgworker/*/*.c))
OBJS = $(SRCS:.c=.o)
DEPS = $(SRCS:.c=.d)

SQL_MODULES = $(sort $(wildcard sql/modules/*.sql))
SQL_UPGRADES = $(sort $(wildcard sql/fleetlog--*--*.sql))
SQL_INSTALL = sql/$(EXTENSION)--$(EXTVERSION).sql
DATA = $(SQL_UPGRADES)
DATA_built = $(SQL_INSTALL)

# Our own warnings are errors.  The three that are switched off fire inside the server's headers; declarations
# after statements are allowed here, unlike in the server.
FL_WARNINGS = -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers \
	-Wno-declaration-after-statement
# Relative: a copy of a built tree must not depend on the headers of the original.
PG_CPPFLAGS = -Iinclude -DFL_VERSION='"$(EXTVERSION)"'
PG_CFLAGS = -std=gnu99 $(FL_WARNINGS) $(if $(findstring clang,$(CC)),$(FL_CLANG_WARNINGS)) -MMD -MP

# PGXS hands clang the flags and headers that the server was built with by gcc, some of which clang does not know.
FL_CLANG_WARNINGS = -Wno-unknown-warning-option -Wno-ignored-optimization-argument -Wno-ignored-attributes

SHLIB_LINK = -Wl,--version-script=$(CURDIR)/src/fleetlog.map -llz4 -lzstd -lz -lsnappy -lcbor -lwslay -lhttp_parser -lssl -lcrypto

# Bitcode for the JIT is of no use to a library whose hot paths run in its own workers.
override with_llvm = no

REGRESS = $(patsubst test/sql/%.sql,%,$(sort $(wildcard test/sql/*.sql)))
REGRESS_OPTS = --inputdir=test --load-extension=$(EXTENSION)
ISOLATION = $(patsubst test/specs/%.spec,%,$(sort $(wildcard test/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test --load-extension=$(EXTENSION)
TAP_TESTS = 1
PROVE_TESTS = test/t/*.pl
PROVE_FLAGS = -I $(CURDIR)/test/t

# The watcher of state tables, a program of its own over libpq.
WATCH = bin/fleetlog-watch
WATCH_OBJS = $(patsubst %.c,%.o,$(sort $(wildcard bin/*.c)))

EXTRA_CLEAN = $(WATCH) $(WATCH_OBJS) $(WATCH_OBJS:.o=.d) $(DEPS) $(SQL_INSTALL) $(SQL_INSTALL).tmp

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

-include $(DEPS) $(WATCH_OBJS:.o=.d)

all: $(WATCH)

$(WATCH_OBJS): %.o: %.c Makefile
	$(CC) $(CFLAGS) -I$(shell $(PG_CONFIG) --includedir) -c -o $@ $<

$(WATCH): $(WATCH_OBJS)
	$(CC) $(CFLAGS) $(WATCH_OBJS) $(LDFLAGS) -L$(shell $(PG_CONFIG) --libdir) -lpq -o $@

install: install-watch
install-watch: $(WATCH)
	$(MKDIR_P) '$(DESTDIR)$(bindir)'
	$(INSTALL_PROGRAM) $(WATCH) '$(DESTDIR)$(bindir)/fleetlog-watch'

uninstall: uninstall-watch
uninstall-watch:
	rm -f '$(DESTDIR)$(bindir)/fleetlog-watch'

# Every object depends on the flags that made it, which live here.
$(OBJS): Makefile

# The linker's list is part of the library as much as its objects are.
$(shlib): src/fleetlog.map

$(SQL_INSTALL): $(SQL_MODULES) Makefile
	{ printf '%s\n' '\echo Use "CREATE EXTENSION $(EXTENSION)" to load this file. \quit'; \
	  for module in $(SQL_MODULES); do echo; echo "-- From $$module"; cat "$$module" || exit 1; done; } > $@.tmp
	mv $@.tmp $@

# Headers of this list know nothing of the server; the others may assume that postgres.h came first.
WIRE_HEADERS = $(wildcard $(addprefix include/fleetlog/,result.h cursor.h utf8.h murmur2.h crc32c.h record_batch.h batch_check.h \
	headers.h topic.h base64.h json.h mqtt_packet.h scram_message.h log_format.h log_pack.h producer_window.h kafka_*.h))
SERVER_HEADERS = $(filter-out $(WIRE_HEADERS),$(wildcard include/fleetlog/*.h))

headercheck:
	@status=0; \
	for h in $(WIRE_HEADERS); do \
	  echo "#include \"$$h\"" | $(CC) -std=gnu99 -Wall -Wextra -Werror -Iinclude -I. -fsyntax-only -x c - || { echo "not self-contained: $$h"; status=1; }; \
	  if grep -q 'postgres\.h\|include "c\.h"' $$h; then echo "knows the server: $$h"; status=1; fi; \
	done; \
	for h in $(SERVER_HEADERS); do \
	  echo "#include \"$$h\"" | $(CC) $(CPPFLAGS) -I. -std=gnu99 $(FL_WARNINGS) $(if $(findstring clang,$(CC)),$(FL_CLANG_WARNINGS)) \
	    -include postgres.h -fsyntax-only -x c - || { echo "not self-contained: $$h"; status=1; }; \
	  if grep -q '#include "postgres\.h"' $$h; then echo "includes postgres.h: $$h"; status=1; fi; \
	done; \
	for h in $(WIRE_HEADERS) $(SERVER_HEADERS); do \
	  guard=FLEETLOG_$$(basename $$h .h | tr 'a-z' 'A-Z')_H; \
	  grep -q "^#ifndef $$guard\$$" $$h || { echo "no include guard $$guard: $$h"; status=1; }; \
	done; \
	exit $$status

exportcheck: $(shlib)
	@nm -D --defined-only $(shlib) | awk '{ print $$3 }' | \
	  grep -vE '^(Pg_magic_func|_PG_init|_PG_output_plugin_init|pg_finfo_.+|fl_sql_.+|fl_main_.+)$$' > exported.tmp; \
	if [ -s exported.tmp ]; then echo "exported beyond the list:"; cat exported.tmp; rm -f exported.tmp; exit 1; fi; \
	rm -f exported.tmp
	@if nm -D --undefined-only $(shlib) | grep ' fl_'; then echo "called, but nowhere defined"; exit 1; fi

unit:
	$(MAKE) -C test/unit check

SECONDS = 10
fuzz:
	$(MAKE) -C test/fuzz run SECONDS=$(SECONDS)


.PHONY: install-watch uninstall-watch headercheck exportcheck unit fuzz
