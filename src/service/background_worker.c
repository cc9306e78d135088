/*
 * background_worker.c
 *	  Describes and begins background workers of this library.
 */
#include "postgres.h"

#include "compat.h"
#include "flush_commit.h"
#include "miscadmin.h"
#include "own_sql.h"
#include "postmaster/interrupt.h"
#include "service/background_worker.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"

BackgroundWorker
shard_background_worker(const char *function, const char *name)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "shardfdw", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, function, sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, name, sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, name, sizeof(worker.bgw_type));
	return worker;
}

void
shard_background_worker_begin(Oid database)
{
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	/* the owner of the database may have set another one */
	SetConfigOption("role", "none", PGC_SUSET, PGC_S_OVERRIDE);
	shard_own_sql_fix_session();
	SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_read_only", "off", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_deferrable", "off", PGC_SUSET, PGC_S_OVERRIDE);
	/* Workers tell other servers what they have committed: positions of changes, marks, switches of tables. */
	shard_flush_commit_always();
	/* JIT compilation of long queries on small catalogs would take seconds */
	SetConfigOption("jit", "off", PGC_SUSET, PGC_S_OVERRIDE);
}
