/*
 * fault.c
 *	  Makes the server fail at named points, for tests; see fault.h.
 *
 * Some points are within commits, where catalogs cannot be read and no error may be raised.  So the
 * code here allocates no memory and looks nothing up, except to raise the error of a rule.
 */
#include "postgres.h"

#include "fault.h"

#ifdef SHARDFDW_FAULT_POINTS

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/pg_prng.h"
#include "compat.h"
#include "nodes/memnodes.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#define DEFAULT_SLEEP_MS 100
#define WAIT_POLL_MS 10

typedef struct FaultRule
{
	const char *action;
	int			actionlen;
	int			ms;
	double		probability;
} FaultRule;

static char *fault_points = NULL;

/* Returns the length of the part of text before the first of the characters in stop. */
static int
part_length(const char *text, const char *stop)
{
	return (int) strcspn(text, stop);
}

/* Finds the rule for name. */
static bool
find_rule(const char *name, FaultRule *rule)
{
	const char *text = fault_points;

	while (text && *text)
	{
		int			len;
		bool		found;

		text += strspn(text, ", ");
		len = part_length(text, "=");
		found = len == strlen(name) && strncmp(text, name, len) == 0;
		text += len;
		if (*text == '=')
			text++;
		rule->action = text;
		rule->actionlen = part_length(text, ":@, ");
		rule->ms = DEFAULT_SLEEP_MS;
		rule->probability = 1.0;
		text += rule->actionlen;
		if (*text == ':')
		{
			rule->ms = atoi(++text);
			text += part_length(text, "@, ");
		}
		if (*text == '@')
		{
			rule->probability = atof(++text);
			text += part_length(text, ", ");
		}
		if (found)
			return true;
	}
	return false;
}

static bool
is_action(const FaultRule *rule, const char *name)
{
	return rule->actionlen == strlen(name) && strncmp(rule->action, name, rule->actionlen) == 0;
}

/* ---------- shortages ---------- */

static MemoryContextMethods methods_without_memory;
static const MemoryContextMethods *real_methods = NULL; /* set during a shortage */

#define MAX_TAKEN 256
static int	taken[MAX_TAKEN];	/* all file handles that were left */
static int	ntaken = 0;
static rlim_t real_files = 0;	/* the process's limit, set during a shortage */

SHARD_METHOD_ALLOC_FAILS(alloc_nothing)
SHARD_METHOD_REALLOC_FAILS(realloc_nothing)

/* Replaces the methods of cxt and of all contexts of the same kind below it. */
static void
replace_methods(MemoryContext cxt, const MemoryContextMethods *from, const MemoryContextMethods *to)
{
	if (cxt->methods == from && cxt != ErrorContext)
		cxt->methods = to;
	for (MemoryContext child = cxt->firstchild; child; child = child->nextchild)
		replace_methods(child, from, to);
}

static void
begin_memory_shortage(void)
{
	if (real_methods)
		return;
	real_methods = TopMemoryContext->methods;
	methods_without_memory = *real_methods;
	methods_without_memory.alloc = alloc_nothing;
	methods_without_memory.realloc = realloc_nothing;
	replace_methods(TopMemoryContext, real_methods, &methods_without_memory);
}

static void
begin_file_shortage(void)
{
	struct rlimit limit;

	if (real_files != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	real_files = limit.rlim_cur;
	limit.rlim_cur = MAX_TAKEN;
	(void) setrlimit(RLIMIT_NOFILE, &limit);
	for (ntaken = 0; ntaken < MAX_TAKEN && (taken[ntaken] = dup(STDERR_FILENO)) >= 0; ntaken++)
		;
}

void
shard_fault_end(void)
{
	struct rlimit limit;

	if (real_methods)
		replace_methods(TopMemoryContext, &methods_without_memory, real_methods);
	real_methods = NULL;
	while (ntaken > 0)
		close(taken[--ntaken]);
	if (real_files != 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0)
	{
		limit.rlim_cur = real_files;
		(void) setrlimit(RLIMIT_NOFILE, &limit);
	}
	real_files = 0;
}

void
shard_fault_point(const char *name)
{
	FaultRule	rule;

	if (!find_rule(name, &rule) || pg_prng_double(&pg_global_prng_state) >= rule.probability)
		return;

	if (is_action(&rule, "abort"))
		kill(getpid(), SIGKILL);
	else if (is_action(&rule, "nomemory"))
		begin_memory_shortage();
	else if (is_action(&rule, "nofiles"))
		begin_file_shortage();
	else if (is_action(&rule, "sleep"))
		pg_usleep(rule.ms * 1000L);
	else if (is_action(&rule, "wait"))
	{
		char		path[MAXPGPATH];
		struct stat st;

		/* the working directory of a server process is the data directory */
		snprintf(path, sizeof(path), "shardfdw_fault_%s", name);
		while (stat(path, &st) == 0)
			pg_usleep(WAIT_POLL_MS * 1000L);
	}
	else if (is_action(&rule, "error"))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("fault at \"%s\"", name)));
}

void
shard_fault_init(void)
{
	DefineCustomStringVariable("shardfdw.fault_points",
							   "Makes the server fail at named points, for tests.",
							   NULL,
							   &fault_points,
							   "", PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
}

#endif
