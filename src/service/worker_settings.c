/*
 * worker_settings.c
 *	  Settings of background workers.
 */
#include "postgres.h"

#include "flush_commit.h"
#include "own_sql.h"
#include "service/worker_settings.h"
#include "utils/guc.h"

void
shard_worker_settings_apply(void)
{
	shard_own_sql_fix_session();
	SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_read_only", "off", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_deferrable", "off", PGC_SUSET, PGC_S_OVERRIDE);
	/* other servers are told what workers have committed: positions of changes, marks, switches of tables */
	shard_flush_commit_always();
	/* JIT compilation of long queries on small catalogs would take seconds */
	SetConfigOption("jit", "off", PGC_SUSET, PGC_S_OVERRIDE);
}
