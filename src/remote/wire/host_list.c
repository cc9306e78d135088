/*
 * host_list.c
 *	  The addresses of a node whose server lists several hosts, and the order in which they are
 *	  tried.
 *
 * libpq tries the hosts of a list one after the other.  If a host refuses, libpq goes on to the
 * next one.  If a host does not answer at all (its machine is gone or hangs), the caller of
 * PQconnectPoll() has to act: it can only begin again with the list in another order.  This file
 * rotates the list: a,b,c becomes b,c,a.
 *
 * Lists are split at commas, as in libpq.  A name that resolves to several addresses is one address
 * here.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "remote/wire/host_list.h"

/* The parameters that are lists. */
enum
{
	PART_HOST,
	PART_HOSTADDR,
	PART_PORT,
	NPARTS
};

static const char *const part_names[NPARTS] = {"host", "hostaddr", "port"};

/* One parameter. */
typedef struct ShardHostParts
{
	int			slot;			/* position in values; -1: not given */
	int			n;
	char	  **items;			/* in the server's order */
} ShardHostParts;

static int
count_items(const char *text)
{
	int			n = 1;

	for (; *text; text++)
		if (*text == ',')
			n++;
	return n;
}

static void
split(const char *text, ShardHostParts *part)
{
	part->items = palloc(part->n * sizeof(char *));
	for (int i = 0; i < part->n; i++)
	{
		size_t		len = strcspn(text, ",");

		part->items[i] = pnstrdup(text, len);
		text += len + 1;
	}
}

/*
 * With target_session_attrs "any" or "prefer-standby" the first host that answers is used, so their
 * order expresses a preference.
 */
static bool
is_order_meant(const char *const *keywords, const char *const *values)
{
	const char *wanted = "any";

	for (int i = 0; keywords[i]; i++)
		if (strcmp(keywords[i], "target_session_attrs") == 0)
			wanted = values[i];
	return strcmp(wanted, "any") == 0 || strcmp(wanted, "prefer-standby") == 0;
}

ShardHostList *
shard_host_list_make(const char *const *keywords, const char *const *values)
{
	ShardHostParts parts[NPARTS];
	ShardHostList *list;
	int			nhosts;
	int			n = 0;

	for (int p = 0; p < NPARTS; p++)
		parts[p] = (ShardHostParts) {.slot = -1};
	for (; keywords[n]; n++)
		for (int p = 0; p < NPARTS; p++)
			if (strcmp(keywords[n], part_names[p]) == 0 && values[n][0] != '\0')
			{
				parts[p].slot = n;
				parts[p].n = count_items(values[n]);
			}
	nhosts = Max(parts[PART_HOST].n, parts[PART_HOSTADDR].n);
	if (nhosts < 2 ||
		(parts[PART_HOST].n > 0 && parts[PART_HOSTADDR].n > 0 && parts[PART_HOST].n != parts[PART_HOSTADDR].n) ||
		(parts[PART_PORT].n > 1 && parts[PART_PORT].n != nhosts))
		return NULL;

	list = palloc0(sizeof(ShardHostList));
	list->nhosts = nhosts;
	list->is_ordered = is_order_meant(keywords, values);
	list->keywords = palloc0((n + 1) * sizeof(char *));
	list->values = palloc0((n + 1) * sizeof(char *));
	for (int i = 0; i < n; i++)
	{
		list->keywords[i] = pstrdup(keywords[i]);
		list->values[i] = pstrdup(values[i]);
	}
	for (int p = 0; p < NPARTS; p++)
		if (parts[p].n > 0)
			split(values[parts[p].slot], &parts[p]);
	list->parts = palloc(sizeof(parts));
	memcpy(list->parts, parts, sizeof(parts));
	return list;
}

void
shard_host_list_free(ShardHostList *list)
{
	for (int p = 0; p < NPARTS; p++)
	{
		for (int i = 0; i < list->parts[p].n; i++)
			pfree(list->parts[p].items[i]);
		if (list->parts[p].items)
			pfree(list->parts[p].items);
	}
	for (int i = 0; list->keywords[i]; i++)
	{
		pfree(unconstify(char *, list->keywords[i]));
		pfree(unconstify(char *, list->values[i]));
	}
	pfree(list->keywords);
	pfree(list->values);
	pfree(list->parts);
	pfree(list);
}

int
shard_host_list_find(const ShardHostList *list, const PGconn *pg)
{
	const ShardHostParts *hosts = &list->parts[list->parts[PART_HOST].n > 0 ? PART_HOST : PART_HOSTADDR];
	const ShardHostParts *ports = &list->parts[PART_PORT];
	const char *host = PQhost(pg);
	const char *port = PQport(pg);

	for (int i = 0; i < list->nhosts; i++)
		if (host && strcmp(hosts->items[i], host) == 0 &&
			(ports->n < 2 || (port && strcmp(ports->items[i], port) == 0)))
			return i;
	return -1;
}

void
shard_host_list_begin_with(ShardHostList *list, int number)
{
	list->first = number;
	for (int p = 0; p < NPARTS; p++)
	{
		ShardHostParts *part = &list->parts[p];
		StringInfoData buf;

		if (part->n < 2)
			continue;
		initStringInfo(&buf);
		for (int i = 0; i < part->n; i++)
			appendStringInfo(&buf, "%s%s", i > 0 ? "," : "", part->items[(number + i) % part->n]);
		pfree(unconstify(char *, list->values[part->slot]));
		list->values[part->slot] = buf.data;
	}
}
