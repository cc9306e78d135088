/*
 * ddl_name.c
 *	  Names of objects that must differ from shard to shard.
 *
 * The shards of a table are in one schema of a node, where their indexes need different names.  "orders_pkey" is
 * "orders_pkey_03" on shard "orders_03".  A shard named by a user may have no number at its end, or the same number
 * as another shard.  Then the whole name of the shard is appended.  The name depends only on these two names, so it
 * can be found again after the parent was renamed.
 */
#include "postgres.h"

#include "array_loop.h"
#include "common/cryptohash.h"
#include "common/sha2.h"
#include "ddl/ddl_name.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(shardfdw_shard_object_name);

#define HASH_HEX 8				/* hash digits in a truncated name */

const char *
shard_ddl_name_suffix(const char *shard)
{
	const char *end = shard + strlen(shard);
	const char *digits = end;

	while (digits > shard && digits[-1] >= '0' && digits[-1] <= '9')
		digits--;
	if (digits == end || digits <= shard + 1 || digits[-1] != '_')
		return NULL;
	return digits - 1;
}

/* The first hexadecimal digits of the hash of text. */
static void
hash_text(const char *text, char *hex)
{
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	pg_cryptohash_ctx *cxt = pg_cryptohash_create(PG_SHA256);

	if (pg_cryptohash_init(cxt) < 0 ||
		pg_cryptohash_update(cxt, (const uint8 *) text, strlen(text)) < 0 ||
		pg_cryptohash_final(cxt, digest, sizeof(digest)) < 0)
		elog(ERROR, "could not compute the hash of a name");
	pg_cryptohash_free(cxt);
	for (int i = 0; i < HASH_HEX / 2; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

char *
shard_ddl_name(const char *object, const char *shard, bool whole)
{
	const char *suffix = shard_ddl_name_suffix(shard);
	char	   *name;
	char		hex[HASH_HEX + 1];
	int			kept;

	name = whole || suffix == NULL ? psprintf("%s_%s", object, shard) : psprintf("%s%s", object, suffix);
	if (strlen(name) < NAMEDATALEN)
		return name;

	/* two names may differ only in the part that is cut off, so a hash is added; a number at the end is kept */
	hash_text(name, hex);
	if (suffix == NULL || strlen(suffix) > NAMEDATALEN / 2)
		suffix = "";
	kept = pg_mbcliplen(name, strlen(name), NAMEDATALEN - 1 - (1 + HASH_HEX) - (int) strlen(suffix));
	return psprintf("%.*s_%s%s", kept, name, hex, suffix);
}

/*
 * shard_object_name(object name, shard name, siblings name[]) -> name
 */
Datum
shardfdw_shard_object_name(PG_FUNCTION_ARGS)
{
	const char *object = NameStr(*PG_GETARG_NAME(0));
	const char *shard = NameStr(*PG_GETARG_NAME(1));
	const char *suffix = shard_ddl_name_suffix(shard);
	ShardArrayLoop loop;
	Datum		value;
	bool		whole = false;
	Name		result = palloc0(NAMEDATALEN);

	shard_array_loop_begin(&loop, PG_GETARG_ARRAYTYPE_P(2));
	while (suffix != NULL && shard_array_loop_next(&loop, &value))
	{
		const char *sibling = NameStr(*DatumGetName(value));
		const char *other = shard_ddl_name_suffix(sibling);

		if (other != NULL && strcmp(other, suffix) == 0 && strcmp(sibling, shard) != 0)
			whole = true;
	}
	namestrcpy(result, shard_ddl_name(object, shard, whole));
	PG_RETURN_NAME(result);
}
