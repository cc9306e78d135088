/*
 * copy_option.c
 *	  Parses and removes the options of COPY FROM that core does not have, or not in every major version.
 *
 * One row of rules[] describes an option: its values, where they are stored, and what follows from the option.
 *
 * ON_ERROR, REJECT_LIMIT and LOG_VERBOSITY are core options from 17 and 18 on.  This file parses them in all major
 * versions, with core's messages and SQLSTATEs, because they do more for a sharded table: they include rows that
 * nodes reject.  ON_ERROR 'set_null' (19) is left to core, which has to convert the values then.  FREEZE, which core
 * refuses for partitioned tables, is checked and ignored.
 *
 * As in core, each option is checked in its turn, and combinations of options afterwards.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "commands/defrem.h"
#include "compat.h"
#include "load/input/copy_option.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/formatting.h"

#define MAX_RECORD_BYTES (256 * 1024 * 1024)
#define MAX_NAME_BYTES 1000		/* name of a load, which is in an index */

typedef enum OptionKind
{
	OPTION_FLAG,				/* bool; two words stand for false and true */
	OPTION_WORD,				/* enum; words stand for 0, 1, ... */
	OPTION_NUMBER,				/* int64, which may be given as a string */
	OPTION_TEXT,				/* char *, not empty */
	OPTION_IGNORED				/* a boolean that has no effect */
} OptionKind;

/* What follows from an option. */
#define BY_LINES 0x01			/* no major version of core has the option, and it works by lines or rows */
#define MAKES_ROWS 0x02			/* determines how lines become rows, so each part of a load must have the same value */
#define CALLS_FUNCTIONS 0x04	/* functions that the load calls (FILTER, triggers of the reject table) may read its rows */

typedef struct OptionRule
{
	const char *name;			/* as in the grammar */
	OptionKind	kind;
	int			flags;
	size_t		offset;			/* of the value in ShardCopyOptions */
	const char *words[3];		/* OPTION_FLAG, OPTION_WORD */
	const char *core_word;		/* a further word, with which the option is left to core */
	int64		min;			/* OPTION_NUMBER */
	int64		max;			/* OPTION_NUMBER: largest value; OPTION_TEXT: largest number of bytes; 0: any */
	int64		dflt;			/* OPTION_NUMBER: value without the option */
	const char *requires;		/* another option that has to be given, too */
	void		(*check) (const char *value, DefElem *def, ParseState *pstate);
} OptionRule;

static void check_reject_file(const char *value, DefElem *def, ParseState *pstate);

static const OptionRule rules[] = {
	/* affects only how soon rows are frozen; some clients use it for each table that they have just truncated */
	{"freeze", OPTION_IGNORED},
	{"on_error", OPTION_FLAG, 0, offsetof(ShardCopyOptions, ignore_errors), .words = {"stop", "ignore"},
	.core_word = SHARD_CORE_COPY_SET_NULL ? "set_null" : NULL},
	{"reject_limit", OPTION_NUMBER, 0, offsetof(ShardCopyOptions, reject_limit), .min = 1},
	{"log_verbosity", OPTION_WORD, 0, offsetof(ShardCopyOptions, verbosity), .words = {"default", "verbose", "silent"}},
	{"reject_file", OPTION_TEXT, BY_LINES, offsetof(ShardCopyOptions, reject_file), .check = check_reject_file},
	{"reject_table", OPTION_TEXT, BY_LINES | CALLS_FUNCTIONS, offsetof(ShardCopyOptions, reject_table)},
	{"on_duplicate", OPTION_WORD, BY_LINES | MAKES_ROWS, offsetof(ShardCopyOptions, duplicate), .words = {"error", "keep_old", "keep_new"}},
	{"skip", OPTION_NUMBER, BY_LINES | MAKES_ROWS, offsetof(ShardCopyOptions, skip)},
	{"max_rows", OPTION_NUMBER, BY_LINES | MAKES_ROWS, offsetof(ShardCopyOptions, max_rows), .dflt = -1},
	{"filter", OPTION_TEXT, BY_LINES | MAKES_ROWS | CALLS_FUNCTIONS, offsetof(ShardCopyOptions, filter)},
	{"fixed_width", OPTION_TEXT, BY_LINES | MAKES_ROWS, offsetof(ShardCopyOptions, fixed_width)},
	{"record_length", OPTION_NUMBER, BY_LINES | MAKES_ROWS, offsetof(ShardCopyOptions, record_length),
	.min = 1, .max = MAX_RECORD_BYTES, .requires = "fixed_width"},
	{"resume", OPTION_TEXT, BY_LINES, offsetof(ShardCopyOptions, resume), .max = MAX_NAME_BYTES},
	{"commit_rows", OPTION_NUMBER, BY_LINES, offsetof(ShardCopyOptions, commit_rows), .min = 1, .requires = "resume"},
	{"indexes", OPTION_FLAG, 0, offsetof(ShardCopyOptions, defer_indexes), .words = {"immediate", "deferred"}}
};

static DefElem *
find_option(const List *options, const char *name)
{
	foreach_node(DefElem, def, options)
	{
		if (strcmp(def->defname, name) == 0)
			return def;
	}
	return NULL;
}

/* NULL for an option of core. */
static const OptionRule *
find_rule(const char *name)
{
	for (int i = 0; i < lengthof(rules); i++)
	{
		if (strcmp(rules[i].name, name) == 0)
			return &rules[i];
	}
	return NULL;
}

static char *
shown_name(const char *name)
{
	return asc_toupper(name, strlen(name));
}

static inline void *
value_of(const ShardCopyOptions *options, const OptionRule *rule)
{
	return (char *) options + rule->offset;
}

/* ---------- values ---------- */

/* The permission and the form of the path are those of COPY TO a file. */
static void
check_reject_file(const char *value, DefElem *def, ParseState *pstate)
{
	if (!has_privs_of_role(GetUserId(), ROLE_PG_WRITE_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to write REJECT_FILE"),
				 errdetail("Only roles with privileges of the \"%s\" role may write files of the server.",
						   "pg_write_server_files"),
				 errhint("REJECT_TABLE takes rejected rows without that.")));
	if (!is_absolute_path(value))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("relative path not allowed for REJECT_FILE"),
				 parser_errposition(pstate, def->location)));
}

/* Raises an error if the text is empty, as core's defGet functions do. */
static char *
read_text(const OptionRule *rule, DefElem *def, ParseState *pstate)
{
	char	   *value = defGetString(def);

	if (value[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("COPY %s cannot be empty", shown_name(rule->name)),
				 parser_errposition(pstate, def->location)));
	if (rule->max > 0 && strlen(value) > rule->max)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name of %s is longer than %d bytes", shown_name(rule->name), (int) rule->max),
				 parser_errposition(pstate, def->location)));
	return value;
}

static int64
read_number(const OptionRule *rule, DefElem *def)
{
	int64		value = def->arg != NULL && IsA(def->arg, String) ? pg_strtoint64(strVal(def->arg)) : defGetInt64(def);

	if (value >= rule->min && (rule->max == 0 || value <= rule->max))
		return value;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 rule->max > 0 ?
			 errmsg("%s (%lld) must be from %lld to %lld", shown_name(rule->name), (long long) value, (long long) rule->min, (long long) rule->max) :
			 rule->min > 0 ?
			 errmsg("%s (%lld) must be greater than zero", shown_name(rule->name), (long long) value) :
			 errmsg("%s (%lld) must not be negative", shown_name(rule->name), (long long) value)));
}

/* The number of the option's word, or -1 if the option is left to core. */
static int
read_word(const OptionRule *rule, DefElem *def, ParseState *pstate)
{
	char	   *value = defGetString(def);

	for (int i = 0; i < lengthof(rule->words) && rule->words[i] != NULL; i++)
	{
		if (pg_strcasecmp(value, rule->words[i]) == 0)
			return i;
	}
	if (rule->core_word == NULL || pg_strcasecmp(value, rule->core_word) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("COPY %s \"%s\" not recognized", shown_name(rule->name), value),
				 parser_errposition(pstate, def->location)));
	return -1;
}

static void
read_value(const OptionRule *rule, DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	void	   *value = value_of(result, rule);
	int			word;

	switch (rule->kind)
	{
		case OPTION_FLAG:
		case OPTION_WORD:
			word = read_word(rule, def, pstate);
			if (word < 0)
				result->core = lappend(result->core, def);
			else if (rule->kind == OPTION_FLAG)
				*(bool *) value = word == 1;
			else
				*(int *) value = word;
			break;
		case OPTION_NUMBER:
			*(int64 *) value = read_number(rule, def);
			break;
		case OPTION_TEXT:
			*(char **) value = read_text(rule, def, pstate);
			if (rule->check != NULL)
				rule->check(*(char **) value, def, pstate);
			break;
		case OPTION_IGNORED:
			(void) defGetBoolean(def);
			break;
	}
}

void
shard_copy_option_describe(const ShardCopyOptions *options, StringInfo out)
{
	for (int i = 0; i < lengthof(rules); i++)
	{
		const OptionRule *rule = &rules[i];
		const void *value = value_of(options, rule);

		if ((rule->flags & MAKES_ROWS) == 0)
			continue;
		if (rule->kind == OPTION_WORD && *(const int *) value != 0)
			appendStringInfo(out, ", %s %s", rule->name, rule->words[*(const int *) value]);
		else if (rule->kind == OPTION_NUMBER && *(const int64 *) value != rule->dflt)
			appendStringInfo(out, ", %s " INT64_FORMAT, rule->name, *(const int64 *) value);
		else if (rule->kind == OPTION_TEXT && *(char *const *) value != NULL)
			appendStringInfo(out, ", %s %s", rule->name, quote_literal_cstr(*(char *const *) value));
	}
}

/* ---------- combinations ---------- */

static void
raise_unfit(DefElem *def, ParseState *pstate, const char *with)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("COPY %s cannot be used with %s", with, shown_name(def->defname)),
			 parser_errposition(pstate, def->location)));
}

/*
 * With FILTER, the columns of the input are not those of the table, so core options about the columns of the table
 * are refused.
 */
static void
check_filter(const ShardCopyOptions *result, ParseState *pstate)
{
	foreach_node(DefElem, def, result->core)
	{
		if (strcmp(def->defname, "default") == 0 || strcmp(def->defname, "force_null") == 0 ||
			strcmp(def->defname, "force_not_null") == 0 || strcmp(def->defname, "on_error") == 0)
			raise_unfit(def, pstate, "FILTER");
	}
}

/*
 * With FIXED_WIDTH, the input has no lines that core could read.  Core's options NULL and HEADER are evaluated here,
 * and ENCODING stays.  All other options are about such lines, and are refused.
 */
static void
take_fixed_width(ShardCopyOptions *result, ParseState *pstate)
{
	List	   *kept = NIL;

	foreach_node(DefElem, def, result->core)
	{
		if (strcmp(def->defname, "null") == 0 && result->fixed_null == NULL)
			result->fixed_null = defGetString(def);
		else if (strcmp(def->defname, "header") == 0 && result->record_length == 0)
			result->fixed_header = defGetBoolean(def);
		else if (strcmp(def->defname, "header") == 0)
			raise_unfit(def, pstate, "RECORD_LENGTH");
		else if (strcmp(def->defname, "encoding") == 0 ||
				 (strcmp(def->defname, "format") == 0 && strcmp(defGetString(def), "text") == 0))
			kept = lappend(kept, def);
		else
			raise_unfit(def, pstate, "FIXED_WIDTH");
	}
	result->core = kept;
}

/* Raises an error if options cannot be combined. */
static void
check_combination(const ShardCopyOptions *result, const List *options, const OptionRule *by_lines, bool binary)
{
	bool		rejects = result->ignore_errors || result->duplicate != SHARD_DUPLICATE_ERROR;

	if (binary && result->ignore_errors)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("only ON_ERROR STOP is allowed in BINARY mode")));
	if (binary && by_lines != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("cannot specify %s in BINARY mode", shown_name(by_lines->name))));
	if (result->reject_limit > 0 && !result->ignore_errors)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("COPY %s requires %s to be set to %s", "REJECT_LIMIT", "ON_ERROR", "IGNORE")));
	if ((result->reject_file != NULL || result->reject_table != NULL) && !rejects)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("COPY %s requires %s to be set to %s, or %s to %s",
						result->reject_file ? "REJECT_FILE" : "REJECT_TABLE",
						"ON_ERROR", "IGNORE", "ON_DUPLICATE", "KEEP_OLD or KEEP_NEW")));
	for (int i = 0; i < lengthof(rules); i++)
	{
		if (rules[i].requires != NULL && find_option(options, rules[i].name) != NULL && find_option(options, rules[i].requires) == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("COPY %s requires %s", shown_name(rules[i].name), shown_name(rules[i].requires))));
	}
	if (result->resume != NULL && result->reject_file != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("COPY %s cannot be used with %s", "RESUME", "REJECT_FILE"),
				 errhint("REJECT_TABLE takes rejected rows in the transactions of the load.")));
	if (result->resume != NULL && result->defer_indexes)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("COPY %s cannot be used with %s", "RESUME", "INDEXES DEFERRED"),
				 errdetail("Each part of the load would build all indexes again.")));
}

void
shard_copy_option_parse(ParseState *pstate, List *options, ShardCopyOptions *result)
{
	const OptionRule *by_lines = NULL;	/* the first such option */
	DefElem    *verbosity = find_option(options, "log_verbosity");
	bool		binary = false;

	memset(result, 0, sizeof(*result));
	for (int i = 0; i < lengthof(rules); i++)
	{
		if (rules[i].kind == OPTION_NUMBER)
			*(int64 *) value_of(result, &rules[i]) = rules[i].dflt;
	}
	foreach_node(DefElem, def, options)
	{
		const OptionRule *rule = find_rule(def->defname);

		if (rule == NULL)
		{
			/* Core checks it after our options. */
			if (strcmp(def->defname, "format") == 0)
				binary = strcmp(defGetString(def), "binary") == 0;
			result->core = lappend(result->core, def);
			continue;
		}
		if (find_option(options, def->defname) != def)
			errorConflictingDefElem(def, pstate);
		if ((rule->flags & BY_LINES) && by_lines == NULL)
			by_lines = rule;
		if (rule->flags & CALLS_FUNCTIONS)
			result->calls_functions = true;
		read_value(rule, def, pstate, result);
	}
	check_combination(result, options, by_lines, binary);
	result->described = list_copy(result->core);
	if (result->fixed_width)
		take_fixed_width(result, pstate);
	if (result->filter)
		check_filter(result, pstate);

	/* Core implements ON_ERROR 'set_null', and needs LOG_VERBOSITY for it. */
	if (verbosity != NULL && SHARD_CORE_COPY_SET_NULL && !result->ignore_errors)
		result->core = lappend(result->core, verbosity);
	result->by_lines = by_lines != NULL || result->ignore_errors;
}

bool
shard_copy_option_defers_indexes(const List *options)
{
	DefElem    *def = find_option(options, "indexes");

	return def != NULL && def->arg != NULL && pg_strcasecmp(defGetString(def), "deferred") == 0;
}

bool
shard_copy_option_is_resume(const List *options)
{
	return find_option(options, "resume") != NULL;
}
