/*
 * conninfo.c
 *	  Builds connection parameters from the options of server and user mapping, and defines which options are libpq's.
 *	  Also has the names by which nodes identify this coordinator.
 *
 * The list of options is libpq's own (PQconndefaults), so options of a newer libpq are accepted, too.  The validator
 * decides who may set which option.  Dangerous options are checked again when they are used, because they may have been
 * set before the validator had this rule.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "client.h"
#include "commands/defrem.h"
#include "compat.h"
#include "conninfo.h"
#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "own_right.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/*
 * Defaults for options that neither server nor user mapping has.  If the network connection to a
 * node is interrupted, they notice it after about half a minute.  TCP sends a keepalive after 15
 * seconds of silence and gives up 15 seconds later.  It gives up after 30 seconds if sent data is
 * not acknowledged.
 */
static const char *const defaults[][2] = {
	{"connect_timeout", "10"},
	{"keepalives_idle", "15"},
	{"keepalives_interval", "5"},
	{"keepalives_count", "3"},
	{"tcp_user_timeout", "30000"}
};

typedef struct LibpqOption
{
	const char *keyword;
	bool		on_server;
	bool		on_user;
} LibpqOption;

static LibpqOption *libpq_options = NULL;	/* the last element has keyword NULL */

static bool
is_mapping_keyword(const PQconninfoOption *option)
{
	/* secrets have a dispchar with an asterisk; certificates also belong to a user */
	return strcmp(option->keyword, "user") == 0 ||
		strchr(option->dispchar, '*') != NULL ||
		strcmp(option->keyword, "sslcert") == 0 ||
		strcmp(option->keyword, "sslkey") == 0;
}

static bool
is_server_keyword(const PQconninfoOption *option)
{
	/* sslcert and sslkey are allowed on both, as in postgres_fdw */
	return strcmp(option->keyword, "user") != 0 && strchr(option->dispchar, '*') == NULL;
}

static void
load_options(void)
{
	PQconninfoOption *all;
	LibpqOption *options;
	int			n = 0;

	if (libpq_options)
		return;
	all = PQconndefaults();
	if (!all)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("Could not get libpq's default connection options.")));
	while (all[n].keyword)
		n++;
	options = MemoryContextAllocExtended(TopMemoryContext, (n + 1) * sizeof(LibpqOption),
										 MCXT_ALLOC_NO_OOM | MCXT_ALLOC_ZERO);
	n = 0;
	for (PQconninfoOption *o = all; options && o->keyword; o++)
	{
		if (strchr(o->dispchar, 'D') ||
			strcmp(o->keyword, "client_encoding") == 0 ||
			strcmp(o->keyword, "fallback_application_name") == 0)
			continue;
		options[n].keyword = MemoryContextAllocExtended(TopMemoryContext, strlen(o->keyword) + 1,
														MCXT_ALLOC_NO_OOM);
		if (!options[n].keyword)
		{
			options = NULL;
			break;
		}
		strcpy((char *) options[n].keyword, o->keyword);
		options[n].on_server = is_server_keyword(o);
		options[n].on_user = is_mapping_keyword(o);
		n++;
	}
	PQconninfoFree(all);
	if (!options)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	libpq_options = options;
}

static const LibpqOption *
find_option(const char *keyword)
{
	load_options();
	for (const LibpqOption *o = libpq_options; o->keyword; o++)
		if (strcmp(o->keyword, keyword) == 0)
			return o;
	return NULL;
}

bool
shard_conninfo_is_server_option(const char *keyword)
{
	const LibpqOption *option = find_option(keyword);

	return option && option->on_server;
}

bool
shard_conninfo_is_user_option(const char *keyword)
{
	const LibpqOption *option = find_option(keyword);

	return option && option->on_user;
}

bool
shard_conninfo_is_superuser_option(const char *keyword)
{
	return strcmp(keyword, "service") == 0 || strcmp(keyword, "servicefile") == 0 ||
		strcmp(keyword, "passfile") == 0;
}

/*
 * Appends the options that is_valid accepts; returns the new count.  The arrays are large enough
 * for all of them.
 */
static int
append_options(List *options, bool (*is_valid) (const char *),
			   const char **keywords, const char **values, int n)
{
	foreach_node(DefElem, def, options)
	{
		if (is_valid(def->defname))
		{
			keywords[n] = def->defname;
			values[n] = defGetString(def);
			n++;
		}
	}
	return n;
}

static const char *
find_value(const char *const *keywords, const char *const *values, const char *keyword)
{
	const char *found = NULL;

	/* if an option occurs several times, libpq uses the last one */
	for (int i = 0; keywords[i]; i++)
		if (strcmp(keywords[i], keyword) == 0)
			found = values[i];
	return found;
}

/* Returns a boolean option of the mapping, or, if it has none, of its server. */
static bool
find_flag(ForeignServer *server, UserMapping *user, const char *name)
{
	List	   *places[] = {user->options, server->options};

	for (int i = 0; i < lengthof(places); i++)
	{
		foreach_node(DefElem, def, places[i])
		{
			if (strcmp(def->defname, name) == 0)
				return defGetBoolean(def);
		}
	}
	return false;
}

/*
 * Does the session log in to nodes with the SCRAM keys of its client's login?  Functions and views
 * of another role must not use these keys, even if a mapping of that role names the client.
 */
static bool
passes_scram_keys(ForeignServer *server, UserMapping *user)
{
	return find_flag(server, user, "use_scram_passthrough") && shard_is_login_role(user->userid) &&
		shard_scram_key(false) != NULL;
}

/* Returns the value of an escape in an application name, such as 'a' for %a; empty for an unknown one. */
static const char *
expand_escape(char escape)
{
	const char *value;

	switch (escape)
	{
		case '%':
			return "%";
		case 'a':
			return application_name;
		case 'c':
			return psprintf("%llx.%x", (unsigned long long) MyStartTime, MyProcPid);
		case 'C':
			return cluster_name;
		case 'd':
		case 'u':
			if (MyProcPort == NULL)
				return "";
			value = escape == 'd' ? MyProcPort->database_name : MyProcPort->user_name;
			return value ? value : "[unknown]";
		case 'p':
			return psprintf("%d", MyProcPid);
		default:
			return "";
	}
}

static const char *
expand_escapes(const char *name)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (; *name; name++)
	{
		if (*name != '%')
			appendStringInfoChar(&buf, *name);
		else if (name[1] != '\0')
			appendStringInfoString(&buf, expand_escape(*++name));
	}
	return buf.data;
}

/*
 * Returns the application_name for the node: that of the setting, else that of the server's option,
 * with escapes expanded; NULL if there is none.  The setting may exist although the library of
 * postgres_fdw, which defines it, is not loaded.
 */
static const char *
choose_application_name(const char *const *keywords, const char *const *values)
{
	const char *candidates[2];

	candidates[0] = GetConfigOption("postgres_fdw.application_name", true, false);
	candidates[1] = find_value(keywords, values, "application_name");
	for (int i = 0; i < lengthof(candidates); i++)
	{
		if (candidates[i] != NULL)
		{
			const char *name = expand_escapes(candidates[i]);

			if (name[0] != '\0')
				return name;
		}
	}
	return NULL;
}

/*
 * Parses one item of option standbys; NULL: invalid.  With an IPv6 address in brackets, the colon
 * before the port is after the last bracket.
 */
static ShardStandby *
parse_standby(char *item)
{
	ShardStandby *standby = palloc0(sizeof(ShardStandby));
	char	   *bracket = item[0] == '[' ? strchr(item, ']') : NULL;
	char	   *colon = strrchr(bracket ? bracket : item, ':');

	if (colon)
	{
		*colon++ = '\0';
		if (colon[0] == '\0' || strspn(colon, "0123456789") != strlen(colon) || atoi(colon) < 1 || atoi(colon) > 65535)
			return NULL;
		standby->port = colon;
	}
	if (bracket)
	{
		*bracket = '\0';
		if (bracket[1] != '\0')
			return NULL;
		item++;
	}
	standby->host = item;
	/* without brackets, an IPv6 address cannot be distinguished from one with a port */
	return item[0] == '\0' || (!bracket && strchr(item, ':')) ? NULL : standby;
}

List *
shard_conninfo_parse_standbys(const char *value)
{
	char	   *rest = pstrdup(value);
	List	   *standbys = NIL;
	char	   *item;

	while ((item = strsep(&rest, ",")) != NULL)
	{
		ShardStandby *standby;
		int			len;

		while (isspace((unsigned char) *item))
			item++;
		for (len = strlen(item); len > 0 && isspace((unsigned char) item[len - 1]); len--)
			item[len - 1] = '\0';
		if ((standby = parse_standby(item)) == NULL)
			return NIL;
		standbys = lappend(standbys, standby);
	}
	return standbys;
}

static bool
is_place(const char *keyword)
{
	return strcmp(keyword, "host") == 0 || strcmp(keyword, "hostaddr") == 0 || strcmp(keyword, "port") == 0 ||
		strcmp(keyword, "target_session_attrs") == 0 || strcmp(keyword, "load_balance_hosts") == 0;
}

/* Changes n parameters so that they connect to standby instead of the node; returns the new n, at most 3 more. */
static int
lead_to_standby(const ShardStandby *standby, const char **keywords, const char **values, int n)
{
	const char *port = standby->port;
	int			nkept = 0;

	for (int i = 0; i < n; i++)
	{
		/* a list of ports belongs to other hosts */
		if (!port && strcmp(keywords[i], "port") == 0 && strchr(values[i], ',') == NULL)
			port = values[i];
		if (is_place(keywords[i]))
			continue;
		keywords[nkept] = keywords[i];
		values[nkept++] = values[i];
	}
	for (int i = nkept; i < n; i++)
		keywords[i] = values[i] = NULL;
	keywords[nkept] = "host";
	values[nkept++] = standby->host;
	keywords[nkept] = "port";
	values[nkept++] = port ? port : DEF_PGPORT_STR;
	keywords[nkept] = "target_session_attrs";
	values[nkept++] = "standby";
	return nkept;
}

/* Adds defaults for parameters that neither server nor user mapping sets; returns the new n. */
static int
add_defaults(const char **keywords, const char **values, int n)
{
	const char *application;

	for (int i = 0; i < lengthof(defaults); i++)
	{
		if (find_value(keywords, values, defaults[i][0]))
			continue;
		keywords[n] = defaults[i][0];
		values[n++] = defaults[i][1];
	}
	application = choose_application_name(keywords, values);
	if (application != NULL)
	{
		/* of several values, libpq uses the last one */
		keywords[n] = "application_name";
		values[n++] = application;
	}
	return n;
}

/* Adds parameters that users cannot set; returns the new n. */
static int
add_own(const char **keywords, const char **values, int n)
{
	keywords[n] = "fallback_application_name";
	values[n++] = shard_conninfo_session_name(MyProcPid);
	keywords[n] = "client_encoding";
	values[n++] = GetDatabaseEncodingName();
	return n;
}

void
shard_conninfo_build(ForeignServer *server, UserMapping *user, const ShardStandby *standby,
					 const char ***keywords_out, const char ***values_out)
{
	int			max = list_length(server->options) + list_length(user->options) + 10 + lengthof(defaults);
	const char **keywords = palloc0(max * sizeof(char *));
	const char **values = palloc0(max * sizeof(char *));
	int			n = 0;

	n = append_options(server->options, shard_conninfo_is_server_option, keywords, values, n);
	if (standby)
		n = lead_to_standby(standby, keywords, values, n);
	n = append_options(user->options, shard_conninfo_is_user_option, keywords, values, n);

	n = add_defaults(keywords, values, n);
	if (passes_scram_keys(server, user))
	{
		keywords[n] = "scram_client_key";
		values[n++] = shard_scram_key(false);
		keywords[n] = "scram_server_key";
		values[n++] = shard_scram_key(true);
		/*
		 * Refuses a node that asks for the password itself, or for no password.  With SCRAM keys the node must prove
		 * its identity.
		 */
		keywords[n] = "require_auth";
		values[n++] = "scram-sha-256";
	}
	n = add_own(keywords, values, n);
	Assert(n < max);

	*keywords_out = keywords;
	*values_out = values;
}

static PQconninfoOption *
parse_string(const char *conninfo)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);

	/* libpq's own message quotes the string */
	if (options == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("invalid connection string"),
				 errhint("A connection string of libpq is expected, such as 'host=db1 dbname=shop user=copy'.")));
	return options;
}

void
shard_conninfo_parse(const char *conninfo, Oid userid, const char ***keywords_out, const char ***values_out)
{
	PQconninfoOption *options = parse_string(conninfo);
	const char **keywords;
	const char **values;
	const char *denied = NULL;
	const char *password;
	int			max = 10 + lengthof(defaults);
	int			n = 0;

	for (PQconninfoOption *o = options; o->keyword; o++)
		max++;
	keywords = palloc0(max * sizeof(char *));
	values = palloc0(max * sizeof(char *));
	for (PQconninfoOption *o = options; o->keyword; o++)
	{
		if (o->val == NULL || o->val[0] == '\0' || find_option(o->keyword) == NULL || strcmp(o->keyword, "replication") == 0)
			continue;
		/* certificate files of the server do not belong to the user, as in user mappings */
		if (shard_conninfo_is_superuser_option(o->keyword) || strcmp(o->keyword, "sslcert") == 0 || strcmp(o->keyword, "sslkey") == 0)
			denied = pstrdup(o->keyword);
		keywords[n] = pstrdup(o->keyword);
		values[n++] = pstrdup(o->val);
	}
	PQconninfoFree(options);
	password = find_value(keywords, values, "password");
	if (!superuser_arg(userid) && denied)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("only superusers may use option \"%s\" in a connection string", denied)));
	if (!superuser_arg(userid) && password == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
				 errmsg("password is required"),
				 errdetail("Non-superusers must provide a password in the connection string.")));
	n = add_own(keywords, values, add_defaults(keywords, values, n));
	Assert(n < max);
	*keywords_out = keywords;
	*values_out = values;
}

char *
shard_conninfo_place(const char *conninfo)
{
	static const char *const parts[] = {"service", "host", "hostaddr", "port", "dbname"};
	PQconninfoOption *options = parse_string(conninfo);
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < lengthof(parts); i++)
	{
		for (PQconninfoOption *o = options; o->keyword; o++)
		{
			if (strcmp(o->keyword, parts[i]) == 0 && o->val && o->val[0] != '\0')
				appendStringInfo(&buf, "%s%s=%s", buf.len > 0 ? " " : "", o->keyword, o->val);
		}
	}
	PQconninfoFree(options);
	return buf.data;
}

const char *
shard_conninfo_session_name(int pid)
{
	return psprintf("shardfdw:" UINT64_FORMAT ":%d", GetSystemIdentifier(), pid);
}

char *
shard_conninfo_note_name(void)
{
	return psprintf("coordinator_" UINT64_FORMAT "_%u", GetSystemIdentifier(), MyDatabaseId);
}

bool
shard_conninfo_has_mapping(Oid userid, Oid serverid)
{
	return SearchSysCacheExists2(USERMAPPINGUSERSERVER,
								 ObjectIdGetDatum(userid), ObjectIdGetDatum(serverid)) ||
		SearchSysCacheExists2(USERMAPPINGUSERSERVER,
							  ObjectIdGetDatum(InvalidOid), ObjectIdGetDatum(serverid));
}

void
shard_conninfo_check_owner(const ForeignServer *server)
{
	if (!shard_own_right_has(server->owner, "add_node"))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("server \"%s\" cannot be used because its owner may not add nodes", server->servername),
				 errdetail("Role \"%s\" may not execute shardfdw.add_node().", GetUserNameFromId(server->owner, false)),
				 errhint("Check its options and user mappings. Then a superuser can run: ALTER SERVER %s OWNER TO %s",
						 quote_identifier(server->servername),
						 quote_identifier(GetUserNameFromId(BOOTSTRAP_SUPERUSERID, false)))));
}

bool
shard_conninfo_password_optional(ForeignServer *server, UserMapping *user)
{
	if (passes_scram_keys(server, user))
		return true;
	foreach_node(DefElem, def, user->options)
	{
		if (strcmp(def->defname, "password_required") == 0)
			return !defGetBoolean(def);
	}
	return false;
}

void
shard_conninfo_check_password(ForeignServer *server, UserMapping *user,
							  const char *const *keywords, const char *const *values)
{
	const char *password;

	/* Files that the server's operating system user can read may be used only if a superuser has set the option. */
	for (int i = 0; keywords[i]; i++)
	{
		if (shard_conninfo_is_superuser_option(keywords[i]) && !superuser_arg(server->owner))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("option \"%s\" of server \"%s\" is only allowed when its owner is a superuser",
							keywords[i], server->servername)));
	}

	if (superuser_arg(user->userid) || shard_conninfo_password_optional(server, user))
		return;
	password = find_value(keywords, values, "password");
	if (password && password[0] != '\0')
		return;
	ereport(ERROR,
			(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
			 errmsg("password is required"),
			 errdetail("Non-superusers must provide a password in the user mapping for server \"%s\".",
					   server->servername)));
}
