/*
 * option.c
 *	  The options of wrapper, servers, user mappings, foreign tables and columns: the validator, and
 *	  look-ups.
 *
 * Every option of postgres_fdw (15 to 19) is accepted with its name, place and meaning in each
 * major.  So definitions can be moved between the two wrappers and between majors. conninfo.c
 * contains the options of libpq.
 *
 * The look-ups use the system caches and store nothing. shard_map.c stores what the planner needs
 * often.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "catalog/namespace.h"
#include "catalog/option.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "catalog/pg_user_mapping.h"
#include "catalog_scan.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "compat.h"
#include "conninfo.h"
#include "fmgr.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#define CLUSTER_SERVER "shardfdw_cluster"
#define ADOPTED_WRAPPER "postgres_fdw"
#define HANDLER_SYMBOL "shardfdw_handler"

/* Maximum distance at which a wrong name counts as misspelled; core uses 4. */
#define MAX_NAME_DISTANCE 4

typedef enum OptionType
{
	OPTION_BOOL,
	OPTION_COUNT,				/* integer above zero */
	OPTION_COST,				/* floating point, zero or more */
	OPTION_CAPACITY,			/* floating point above zero */
	OPTION_NAME,
	OPTION_EXTENSIONS,			/* comma-separated list of extensions */
	OPTION_LIST,				/* text[] in its text form, without NULLs */
	OPTION_STANDBYS,			/* comma-separated list of host[:port] */
	OPTION_SAMPLING,			/* how ANALYZE samples */
	OPTION_SUPERUSER_FALSE,		/* boolean that only a superuser may set to false */
	OPTION_SUPERUSER			/* any value, but only from a superuser */
} OptionType;

/* Where an option is allowed. */
#define ON_SERVER	0x01
#define ON_USER		0x02
#define ON_TABLE	0x04
#define ON_COLUMN	0x08

typedef struct OptionDef
{
	const char *name;
	int			places;
	OptionType	type;
} OptionDef;

static const OptionDef option_defs[] = {
	{"schema_name", ON_TABLE, OPTION_NAME},
	{"table_name", ON_TABLE, OPTION_NAME},
	{"column_name", ON_COLUMN, OPTION_NAME},
	{"cores", ON_SERVER, OPTION_COUNT},
	{"accepts_shards", ON_SERVER, OPTION_BOOL},
	{"capacity", ON_SERVER, OPTION_CAPACITY},
	{"coordinator", ON_SERVER, OPTION_COUNT},
	{"identity", ON_SERVER, OPTION_NAME},
	{"highest_coordinator", ON_SERVER, OPTION_COUNT},
	{"standbys", ON_SERVER, OPTION_STANDBYS},
	{"pinned", ON_TABLE, OPTION_BOOL},
	{"unlogged", ON_TABLE, OPTION_BOOL},
	{"replica_nodes", ON_TABLE, OPTION_LIST},
	{"stale_replica_nodes", ON_TABLE, OPTION_LIST},
	{"propagate_ddl", ON_SERVER, OPTION_BOOL},
	{"partial_aggregates", ON_SERVER, OPTION_BOOL},
	{"missing_partial_aggregates", ON_SERVER, OPTION_LIST},
	{"default_collation", ON_SERVER, OPTION_NAME},
	{"use_remote_estimate", ON_SERVER | ON_TABLE, OPTION_BOOL},
	{"updatable", ON_SERVER | ON_TABLE, OPTION_BOOL},
	{"truncatable", ON_SERVER | ON_TABLE, OPTION_BOOL},
	{"async_capable", ON_SERVER | ON_TABLE, OPTION_BOOL},
	{"import_stats", ON_SERVER | ON_TABLE, OPTION_BOOL},
	{"fetch_size", ON_SERVER | ON_TABLE, OPTION_COUNT},
	{"batch_size", ON_SERVER | ON_TABLE, OPTION_COUNT},
	{"analyze_sampling", ON_SERVER | ON_TABLE, OPTION_SAMPLING},
	{"fdw_startup_cost", ON_SERVER, OPTION_COST},
	{"fdw_tuple_cost", ON_SERVER, OPTION_COST},
	{"extensions", ON_SERVER, OPTION_EXTENSIONS},
	{"parallel_commit", ON_SERVER, OPTION_BOOL},
	{"parallel_abort", ON_SERVER, OPTION_BOOL},
	{"keep_connections", ON_SERVER, OPTION_BOOL},
	{"session_state", ON_SERVER, OPTION_BOOL},
	{"use_scram_passthrough", ON_SERVER | ON_USER, OPTION_BOOL},
	{"password_required", ON_USER, OPTION_SUPERUSER_FALSE},
	{"on_all_nodes", ON_USER, OPTION_BOOL},
	/* options of libpq, but on a mapping they read files of the server's account */
	{"sslcert", ON_USER, OPTION_SUPERUSER},
	{"sslkey", ON_USER, OPTION_SUPERUSER},
};

static int	place_of_catalog(Oid catalog);
static bool is_valid_option(const char *name, int place, const OptionDef **def);
static void report_unknown_option(const char *name, int place);
static void check_value(DefElem *elem, const OptionDef *def);
static void check_extension_list(DefElem *elem);
static List *parse_list(const char *value);
static const char *find_option(List *options, const char *name);

void
shard_option_validate(List *options, Oid catalog)
{
	int			place = place_of_catalog(catalog);

	foreach_node(DefElem, elem, options)
	{
		const OptionDef *def;

		if (!is_valid_option(elem->defname, place, &def))
			report_unknown_option(elem->defname, place);
		if (def != NULL)
			check_value(elem, def);
		else if (place == ON_SERVER && shard_conninfo_is_superuser_option(elem->defname) &&
				 !superuser())
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("option \"%s\" is superuser-only", elem->defname),
					 errhint("Servers with the %s option set may only be created or modified by the superuser.",
							 elem->defname)));
	}
}

/* Returns ON_... for a system catalog's OID; 0 if no option is allowed there (the wrapper itself). */
static int
place_of_catalog(Oid catalog)
{
	switch (catalog)
	{
		case ForeignServerRelationId:
			return ON_SERVER;
		case UserMappingRelationId:
			return ON_USER;
		case ForeignTableRelationId:
			return ON_TABLE;
		case AttributeRelationId:
			return ON_COLUMN;
		default:
			return 0;
	}
}

/* *def is set for an option in option_defs, NULL for one that only libpq has. */
static bool
is_valid_option(const char *name, int place, const OptionDef **def)
{
	*def = NULL;
	for (int i = 0; i < lengthof(option_defs); i++)
	{
		if ((option_defs[i].places & place) != 0 &&
			strcmp(option_defs[i].name, name) == 0)
		{
			*def = &option_defs[i];
			return true;
		}
	}

	if (place == ON_SERVER)
		return shard_conninfo_is_server_option(name);
	if (place == ON_USER)
		return shard_conninfo_is_user_option(name);
	return false;
}

/* If candidate is closer to name than *distance, stores it in *best. */
static void
consider_name(const char *name, const char *candidate, const char **best, int *distance)
{
	int			len = strlen(name);
	int			d;

	if (len > NAMEDATALEN)
		return;
	d = varstr_levenshtein_less_equal(name, len, candidate, strlen(candidate),
									  1, 1, 1, *distance, true);
	if (d < *distance && d <= len / 2)
	{
		*distance = d;
		*best = candidate;
	}
}

/* Raises the error for a name that is not an option at this place, with the most similar name as a hint. */
static void
report_unknown_option(const char *name, int place)
{
	PQconninfoOption *libpq_options = PQconndefaults();
	const char *best = NULL;
	int			distance = MAX_NAME_DISTANCE + 1;

	for (int i = 0; i < lengthof(option_defs); i++)
	{
		if (option_defs[i].places & place)
			consider_name(name, option_defs[i].name, &best, &distance);
	}
	for (PQconninfoOption *opt = libpq_options; opt && opt->keyword; opt++)
	{
		const OptionDef *def;

		if (is_valid_option(opt->keyword, place, &def))
			consider_name(name, opt->keyword, &best, &distance);
	}
	if (best)
		best = pstrdup(best);
	if (libpq_options)
		PQconninfoFree(libpq_options);

	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			 errmsg("invalid option \"%s\"", name),
			 place == 0 ? errhint("There are no valid options in this context.") :
			 best ? errhint("Perhaps you meant the option \"%s\".", best) : 0));
}

static void
check_count(const OptionDef *def, const char *value)
{
	int			number;

	if (!parse_int(value, &number, 0, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for integer option \"%s\": %s",
						def->name, value)));
	if (number <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be an integer value greater than zero",
						def->name)));
}

static void
check_number(const OptionDef *def, const char *value)
{
	double		number;

	if (!parse_real(value, &number, 0, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for floating point option \"%s\": %s",
						def->name, value)));
	if (number < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be a floating point value greater than or equal to zero",
						def->name)));
	if (def->type == OPTION_CAPACITY && (number == 0 || isinf(number)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be a finite value greater than zero", def->name)));
}

static void
check_value(DefElem *elem, const OptionDef *def)
{
	char	   *value = defGetString(elem);

	switch (def->type)
	{
		case OPTION_BOOL:
			(void) defGetBoolean(elem);
			break;

		case OPTION_COUNT:
			check_count(def, value);
			break;

		case OPTION_COST:
		case OPTION_CAPACITY:
			check_number(def, value);
			break;

		case OPTION_NAME:
			break;

		case OPTION_EXTENSIONS:
			check_extension_list(elem);
			break;

		case OPTION_LIST:
			(void) parse_list(value);
			break;

		case OPTION_STANDBYS:
			if (shard_conninfo_parse_standbys(value) == NIL)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("invalid value for option \"%s\": %s", def->name, value),
						 errhint("List servers as \"host:port, host:port\", IPv6 addresses in brackets.")));
			break;

		case OPTION_SAMPLING:
			if (strcmp(value, "off") != 0 && strcmp(value, "random") != 0 &&
				strcmp(value, "system") != 0 && strcmp(value, "bernoulli") != 0 &&
				strcmp(value, "auto") != 0)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("invalid value for string option \"%s\": %s",
								def->name, value)));
			break;

		case OPTION_SUPERUSER_FALSE:
			if (!defGetBoolean(elem) && !superuser())
				ereport(ERROR,
						(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						 errmsg("%s=false is superuser-only", def->name),
						 errhint("User mappings with the %s option set to false may only be created or modified by the superuser.",
								 def->name)));
			break;

		case OPTION_SUPERUSER:
			if (!superuser())
				ereport(ERROR,
						(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						 errmsg("sslcert and sslkey are superuser-only"),
						 errhint("User mappings with the sslcert or sslkey options set may only be created or modified by the superuser.")));
			break;
	}
}

/*
 * Raises a WARNING for names in the list that are not installed extensions.  It is no error, because they may be
 * installed later.
 */
static void
check_extension_list(DefElem *elem)
{
	List	   *names;

	/* the parser modifies its input */
	if (!SplitIdentifierString(pstrdup(defGetString(elem)), ',', &names))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("parameter \"%s\" must be a list of extension names",
						elem->defname)));
	foreach_ptr(const char, name, names)
	{
		if (!OidIsValid(get_extension_oid(name, true)))
			ereport(WARNING,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("extension \"%s\" is not installed", name)));
	}
}

/* Returns the value of an option in a List of DefElem; NULL: not there. */
static const char *
find_option(List *options, const char *name)
{
	foreach_node(DefElem, elem, options)
	{
		if (strcmp(elem->defname, name) == 0)
			return defGetString(elem);
	}
	return NULL;
}

const char *
shard_option_table(Oid relid, const char *name)
{
	ForeignTable *table = GetForeignTable(relid);
	const char *value = find_option(table->options, name);

	return value ? value : shard_option_server(table->serverid, name);
}

const char *
shard_option_server(Oid serverid, const char *name)
{
	return find_option(GetForeignServer(serverid)->options, name);
}

/* The validator has checked every value, so a wrong one cannot occur here. */
static int
option_to_int(const char *name, const char *value, int dflt)
{
	int			number;

	if (value == NULL)
		return dflt;
	if (!parse_int(value, &number, 0, NULL))
		elog(ERROR, "invalid value for integer option \"%s\": %s", name, value);
	return number;
}

static bool
option_to_bool(const char *name, const char *value, bool dflt)
{
	bool		result;

	if (value == NULL)
		return dflt;
	if (!parse_bool(value, &result))
		elog(ERROR, "invalid value for boolean option \"%s\": %s", name, value);
	return result;
}

/* Returns the elements of a text[] in its text form.  Raises for other text, and for NULL elements. */
static List *
parse_list(const char *value)
{
	Datum		array = OidInputFunctionCall(F_ARRAY_IN, pstrdup(value), TEXTOID, -1);
	List	   *result = NIL;
	Datum	   *elems;
	bool	   *nulls;
	int			nelems;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT,
					  &elems, &nulls, &nelems);
	for (int i = 0; i < nelems; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("a list among the options must not contain nulls")));
		result = lappend(result, TextDatumGetCString(elems[i]));
	}
	return result;
}

bool
shard_option_table_bool(Oid relid, const char *name, bool dflt)
{
	return option_to_bool(name, shard_option_table(relid, name), dflt);
}

bool
shard_option_server_bool(Oid serverid, const char *name, bool dflt)
{
	return option_to_bool(name, shard_option_server(serverid, name), dflt);
}

List *
shard_option_server_list(Oid serverid, const char *name)
{
	const char *value = shard_option_server(serverid, name);

	return value ? parse_list(value) : NIL;
}

List *
shard_option_list(const char *value)
{
	return parse_list(value);
}

List *
shard_option_server_extensions(Oid serverid)
{
	const char *value = shard_option_server(serverid, "extensions");
	List	   *names = NIL;

	/* the parser modifies its input, and the names point to it; the validator has checked it */
	if (value != NULL && !SplitIdentifierString(pstrdup(value), ',', &names))
		elog(ERROR, "invalid list of extensions: %s", value);
	return names;
}

int
shard_option_server_int(Oid serverid, const char *name, int dflt)
{
	return option_to_int(name, shard_option_server(serverid, name), dflt);
}

/* The handler of this wrapper, set by fdw.c, which contains all callbacks. */
static PGFunction our_handler = NULL;

void
shard_option_init(PGFunction handler)
{
	our_handler = handler;
}

/* Is it the handler of this wrapper, under any name and in any schema? */
static bool
is_our_handler(Oid handler)
{
	HeapTuple	tuple;
	bool		same_symbol = false;
	FmgrInfo	finfo;

	if (!OidIsValid(handler))
		return false;

	/* the cheap test first, so that the second one does not load another wrapper's library */
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(handler));
	if (!HeapTupleIsValid(tuple))
		return false;
	if (((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId)
	{
		bool		isnull;
		Datum		symbol = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);

		same_symbol = !isnull && strcmp(TextDatumGetCString(symbol), HANDLER_SYMBOL) == 0;
	}
	ReleaseSysCache(tuple);
	if (!same_symbol)
		return false;

	fmgr_info(handler, &finfo);
	return finfo.fn_addr == our_handler;
}

bool
shard_option_is_our_server(Oid serverid)
{
	Oid			fdwid = DatumGetObjectId(shard_catalog_value(FOREIGNSERVEROID, serverid, Anum_pg_foreign_server_srvfdw));
	Oid			handler = DatumGetObjectId(shard_catalog_value(FOREIGNDATAWRAPPEROID, fdwid, Anum_pg_foreign_data_wrapper_fdwhandler));

	return OidIsValid(handler) && is_our_handler(handler);
}

/* Does the server belong to the wrapper postgres_fdw, which shardfdw has adopted? */
static bool
is_adopted_server(Oid serverid)
{
	ForeignServer *server = GetForeignServer(serverid);

	return strcmp(GetForeignDataWrapper(server->fdwid)->fdwname, ADOPTED_WRAPPER) == 0 &&
		shard_option_is_our_server(serverid);
}

bool
shard_option_definition_follows(Oid serverid)
{
	return shard_option_server_bool(serverid, "propagate_ddl", !is_adopted_server(serverid));
}

bool
shard_option_is_ours(Oid foreigntable_relid)
{
	return shard_option_is_our_server(DatumGetObjectId(shard_catalog_value(FOREIGNTABLEREL, foreigntable_relid, Anum_pg_foreign_table_ftserver)));
}

const char *
shard_option_column_name(Oid relid, AttrNumber attno)
{
	const char *name = find_option(GetForeignColumnOptions(relid, attno), "column_name");

	return name ? name : get_attname(relid, attno, false);
}

/* Cached, since each statement needs it. */
/* Is this row of pg_foreign_table the table schema.name on the server? */
static bool
is_remote_table(HeapTuple tuple, TupleDesc desc, Oid serverid, const char *schema, const char *name)
{
	Form_pg_foreign_table form = (Form_pg_foreign_table) GETSTRUCT(tuple);
	const char *remote_schema = NULL;
	const char *remote_name = NULL;
	bool		isnull;
	Datum		options;

	if (form->ftserver != serverid)
		return false;
	options = heap_getattr(tuple, Anum_pg_foreign_table_ftoptions, desc, &isnull);
	if (!isnull)
	{
		foreach_ptr(DefElem, option, untransformRelOptions(options))
		{
			if (strcmp(option->defname, "schema_name") == 0)
				remote_schema = defGetString(option);
			else if (strcmp(option->defname, "table_name") == 0)
				remote_name = defGetString(option);
		}
	}
	if (remote_name == NULL)
		remote_name = get_rel_name(form->ftrelid);
	if (remote_name == NULL || strcmp(remote_name, name) != 0)
		return false;
	if (remote_schema == NULL)
		remote_schema = get_namespace_name(get_rel_namespace(form->ftrelid));
	return remote_schema != NULL && strcmp(remote_schema, schema) == 0;
}

Oid
shard_option_find_table(Oid serverid, const char *schema, const char *name)
{
	Oid			namespace = get_namespace_oid(schema, true);
	Oid			result = OidIsValid(namespace) ? get_relname_relid(name, namespace) : InvalidOid;
	ShardCatalogScan scan;
	HeapTuple	tuple;

	shard_catalog_scan_begin(&scan, ForeignTableRelationId);
	/* it usually has the same name */
	if (OidIsValid(result))
	{
		tuple = SearchSysCache1(FOREIGNTABLEREL, ObjectIdGetDatum(result));
		if (!HeapTupleIsValid(tuple))
			result = InvalidOid;
		else
		{
			if (!is_remote_table(tuple, RelationGetDescr(scan.rel), serverid, schema, name))
				result = InvalidOid;
			ReleaseSysCache(tuple);
		}
	}
	while (!OidIsValid(result) && HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		if (is_remote_table(tuple, RelationGetDescr(scan.rel), serverid, schema, name))
			result = ((Form_pg_foreign_table) GETSTRUCT(tuple))->ftrelid;
	}
	shard_catalog_scan_end(&scan);
	return result;
}

static Oid	cluster_server;
static bool cluster_server_known = false;
static uint64 cluster_server_changes = 0;

void
shard_option_invalidate(void)
{
	cluster_server_known = false;
	cluster_server_changes++;
}

Oid
shard_option_cluster_server(void)
{
	if (!cluster_server_known)
	{
		/* it may change during the look-up */
		uint64		before = cluster_server_changes;

		cluster_server = get_foreign_server_oid(CLUSTER_SERVER, true);
		if (OidIsValid(cluster_server) && !shard_option_is_our_server(cluster_server))
			cluster_server = InvalidOid;
		cluster_server_known = cluster_server_changes == before;
	}
	return cluster_server;
}
