/*
 * copy_option.c
 *	  Parses and removes the options of COPY FROM that core does not have, or not in every major version.
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

typedef struct OptionName
{
	const char *name;			/* as in the grammar */
	const char *shown;
	void		(*read) (DefElem *def, ParseState *pstate, ShardCopyOptions *result);
	bool		ours;			/* no major version of core has the option, and it works by lines */
} OptionName;

/* The option's text.  Raises an error if it is empty, as core's defGet functions do. */
static char *
text_value(DefElem *def, ParseState *pstate, const char *shown)
{
	char	   *value = defGetString(def);

	if (value[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("COPY %s cannot be empty", shown),
				 parser_errposition(pstate, def->location)));
	return value;
}

/* The option's number, which may be given as a string. */
static int64
number_value(DefElem *def)
{
	if (def->arg != NULL && IsA(def->arg, String))
		return pg_strtoint64(strVal(def->arg));
	return defGetInt64(def);
}

static void
not_recognized(DefElem *def, ParseState *pstate, const char *shown, const char *value)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("COPY %s \"%s\" not recognized", shown, value),
			 parser_errposition(pstate, def->location)));
}

static void
read_on_error(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	char	   *value = defGetString(def);

	if (pg_strcasecmp(value, "ignore") == 0)
		result->ignore_errors = true;
	else if (SHARD_CORE_COPY_SET_NULL && pg_strcasecmp(value, "set_null") == 0)
		result->core = lappend(result->core, def);
	else if (pg_strcasecmp(value, "stop") != 0)
		not_recognized(def, pstate, "ON_ERROR", value);
}

static void
read_reject_limit(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	result->reject_limit = number_value(def);
	if (result->reject_limit <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("REJECT_LIMIT (%lld) must be greater than zero",
						(long long) result->reject_limit)));
}

static void
read_log_verbosity(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	char	   *value = defGetString(def);

	if (pg_strcasecmp(value, "silent") == 0)
		result->verbosity = SHARD_VERBOSITY_SILENT;
	else if (pg_strcasecmp(value, "default") == 0)
		result->verbosity = SHARD_VERBOSITY_DEFAULT;
	else if (pg_strcasecmp(value, "verbose") == 0)
		result->verbosity = SHARD_VERBOSITY_VERBOSE;
	else
		not_recognized(def, pstate, "LOG_VERBOSITY", value);
}

/* The permission and the form of the path are those of COPY TO a file. */
static void
read_reject_file(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	result->reject_file = text_value(def, pstate, "REJECT_FILE");
	if (!has_privs_of_role(GetUserId(), ROLE_PG_WRITE_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to write REJECT_FILE"),
				 errdetail("Only roles with privileges of the \"%s\" role may write files of the server.",
						   "pg_write_server_files"),
				 errhint("REJECT_TABLE takes rejected rows without that.")));
	if (!is_absolute_path(result->reject_file))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("relative path not allowed for REJECT_FILE"),
				 parser_errposition(pstate, def->location)));
}

static void
read_reject_table(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	result->reject_table = text_value(def, pstate, "REJECT_TABLE");
}

static void
read_on_duplicate(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	char	   *value = defGetString(def);

	if (pg_strcasecmp(value, "error") == 0)
		result->duplicate = SHARD_DUPLICATE_ERROR;
	else if (pg_strcasecmp(value, "keep_old") == 0)
		result->duplicate = SHARD_DUPLICATE_KEEP_OLD;
	else if (pg_strcasecmp(value, "keep_new") == 0)
		result->duplicate = SHARD_DUPLICATE_KEEP_NEW;
	else
		not_recognized(def, pstate, "ON_DUPLICATE", value);
}

static int64
read_row_count(DefElem *def, const char *shown)
{
	int64		value = number_value(def);

	if (value < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s (%lld) must not be negative", shown, (long long) value)));
	return value;
}

static void
read_skip(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	result->skip = read_row_count(def, "SKIP");
}

static void
read_max_rows(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	result->max_rows = read_row_count(def, "MAX_ROWS");
}

static void
read_filter(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	result->filter = text_value(def, pstate, "FILTER");
}

/* The layout is checked later, with the columns of the table. */
static void
read_fixed_width(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	result->fixed_width = text_value(def, pstate, "FIXED_WIDTH");
}

static void
read_record_length(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	result->record_length = number_value(def);
	if (result->record_length <= 0 || result->record_length > MAX_RECORD_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("RECORD_LENGTH (%lld) must be from 1 to %d", (long long) result->record_length, MAX_RECORD_BYTES)));
}

static void
read_resume(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	result->resume = text_value(def, pstate, "RESUME");
	if (strlen(result->resume) > MAX_NAME_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name of RESUME is longer than %d bytes", MAX_NAME_BYTES),
				 parser_errposition(pstate, def->location)));
}

static void
read_commit_rows(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	result->commit_rows = number_value(def);
	if (result->commit_rows <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("COMMIT_ROWS (%lld) must be greater than zero", (long long) result->commit_rows)));
}

static void
read_indexes(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	char	   *value = defGetString(def);

	if (pg_strcasecmp(value, "deferred") == 0)
		result->defer_indexes = true;
	else if (pg_strcasecmp(value, "immediate") != 0)
		not_recognized(def, pstate, "INDEXES", value);
}

/*
 * Core refuses FREEZE for partitioned tables.  But FREEZE only affects how soon rows are frozen, and some clients use
 * it for each table that they have just truncated (pgbench -i).  So it is checked, but not passed on.
 */
static void
read_freeze(DefElem *def, ParseState *pstate, ShardCopyOptions *result)
{
	(void) defGetBoolean(def);
}

static const OptionName option_names[] = {
	{"freeze", "FREEZE", read_freeze, false},
	{"on_error", "ON_ERROR", read_on_error, false},
	{"reject_limit", "REJECT_LIMIT", read_reject_limit, false},
	{"log_verbosity", "LOG_VERBOSITY", read_log_verbosity, false},
	{"reject_file", "REJECT_FILE", read_reject_file, true},
	{"reject_table", "REJECT_TABLE", read_reject_table, true},
	{"on_duplicate", "ON_DUPLICATE", read_on_duplicate, true},
	{"skip", "SKIP", read_skip, true},
	{"max_rows", "MAX_ROWS", read_max_rows, true},
	{"filter", "FILTER", read_filter, true},
	{"fixed_width", "FIXED_WIDTH", read_fixed_width, true},
	{"record_length", "RECORD_LENGTH", read_record_length, true},
	{"resume", "RESUME", read_resume, true},
	{"commit_rows", "COMMIT_ROWS", read_commit_rows, true},
	{"indexes", "INDEXES", read_indexes, false}
};

static void
raise_unfit(DefElem *def, ParseState *pstate, const char *with)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("COPY %s cannot be used with %s", with, asc_toupper(def->defname, strlen(def->defname))),
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
check_combination(const ShardCopyOptions *result, const OptionName *ours, bool binary)
{
	bool		rejects = result->ignore_errors || result->duplicate != SHARD_DUPLICATE_ERROR;

	if (binary && result->ignore_errors)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("only ON_ERROR STOP is allowed in BINARY mode")));
	if (binary && ours != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("cannot specify %s in BINARY mode", ours->shown)));
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
	if (result->commit_rows > 0 && result->resume == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("COPY %s requires %s", "COMMIT_ROWS", "RESUME")));
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
	bool		seen[lengthof(option_names)] = {false};
	const OptionName *ours = NULL;	/* the first option that core does not have */
	DefElem    *verbosity = NULL;
	bool		binary = false;

	memset(result, 0, sizeof(*result));
	result->max_rows = -1;

	foreach_node(DefElem, def, options)
	{
		int			i = 0;

		while (i < lengthof(option_names) && strcmp(def->defname, option_names[i].name) != 0)
			i++;
		if (i == lengthof(option_names))
		{
			/* Core checks it after our options. */
			if (strcmp(def->defname, "format") == 0)
				binary = strcmp(defGetString(def), "binary") == 0;
			result->core = lappend(result->core, def);
			continue;
		}
		if (seen[i])
			errorConflictingDefElem(def, pstate);
		seen[i] = true;
		if (option_names[i].ours && ours == NULL)
			ours = &option_names[i];
		if (option_names[i].read == read_log_verbosity)
			verbosity = def;
		option_names[i].read(def, pstate, result);
	}
	check_combination(result, ours, binary);
	if (result->record_length > 0 && result->fixed_width == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("COPY %s requires %s", "RECORD_LENGTH", "FIXED_WIDTH")));
	if (result->fixed_width)
		take_fixed_width(result, pstate);
	if (result->filter)
		check_filter(result, pstate);

	/* Core implements ON_ERROR 'set_null', and needs LOG_VERBOSITY for it. */
	if (verbosity != NULL && SHARD_CORE_COPY_SET_NULL && !result->ignore_errors)
		result->core = lappend(result->core, verbosity);
	result->any = ours != NULL || result->ignore_errors;
}

bool
shard_copy_option_defers_indexes(const List *options)
{
	foreach_node(DefElem, def, options)
	{
		if (strcmp(def->defname, "indexes") == 0 && def->arg != NULL && pg_strcasecmp(defGetString(def), "deferred") == 0)
			return true;
	}
	return false;
}

bool
shard_copy_option_is_resume(const List *options)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		if (strcmp(lfirst_node(DefElem, lc)->defname, "resume") == 0)
			return true;
	}
	return false;
}
