/*
 * invalidation_hook.c
 *	  Invalidates the caches of the library when a catalog has changed.
 *
 * PostgreSQL has room for ten callbacks of the relation cache, for all libraries together.  A callback may run at any
 * look-up of a catalog.  So it only marks caches and increments counters, and never raises an error.
 */
#include "postgres.h"

#include "catalog/collation.h"
#include "catalog/option.h"
#include "catalog/partial_aggregate.h"
#include "catalog/reference.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "deparse/remote_table.h"
#include "hook/copied_table.h"
#include "hook/hook.h"
#include "identity.h"
#include "planner/router/statement_cache.h"
#include "remote/pool/pool.h"
#include "remote/run/read_role.h"
#include "utils/inval.h"
#include "utils/syscache.h"
#include "version.h"

/* relid: the table that has changed, or 0 for all. */
static void
relation_changed(Datum arg, Oid relid)
{
	shard_copied_table_invalidate(relid);
	shard_identity_invalidate(relid);
	shard_map_invalidate(relid);
	shard_reference_invalidate(relid);
	shard_remote_table_invalidate(relid);
	shard_statement_cache_invalidate(relid);
}

/* hashvalue: of the row that has changed, or 0 for all. */
static void
catalog_changed(Datum arg, SysCacheIdentifier cacheid, uint32 hashvalue)
{
	switch (cacheid)
	{
		case FOREIGNTABLEREL:
			shard_read_role_placement_changed();
			return;
		case USERMAPPINGOID:
			shard_pool_invalidate(cacheid, hashvalue);
			return;
		case FOREIGNSERVEROID:
			shard_pool_invalidate(cacheid, hashvalue);
			shard_read_role_servers_changed();
			shard_collation_invalidate();
			shard_option_invalidate();
			shard_partial_aggregate_invalidate();
			shard_map_invalidate(InvalidOid);
			shard_remote_table_invalidate(InvalidOid);
			break;
		case FOREIGNDATAWRAPPEROID:
			shard_version_forget();
			shard_option_invalidate();
			shard_partial_aggregate_invalidate();
			shard_map_invalidate(InvalidOid);
			break;
		case NAMESPACEOID:
			shard_map_invalidate(InvalidOid);
			shard_remote_table_invalidate(InvalidOid);
			break;
		case PROCOID:
			shard_version_forget();
			break;
		default:
			break;
	}
	shard_statement_cache_invalidate(InvalidOid);
}

void
shard_invalidation_hook_init(void)
{
	static const SysCacheIdentifier caches[] = {
		COLLOID, FOREIGNDATAWRAPPEROID, FOREIGNSERVEROID, FOREIGNTABLEREL, NAMESPACEOID, OPEROID, PROCOID, TYPEOID,
		USERMAPPINGOID
	};

	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	for (int i = 0; i < lengthof(caches); i++)
		CacheRegisterSyscacheCallback(caches[i], catalog_changed, (Datum) 0);
}
