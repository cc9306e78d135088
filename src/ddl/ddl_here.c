/*
 * ddl_here.c
 *	  Runs commands of the extension that change only the coordinator.
 */
#include "postgres.h"

#include "compat.h"
#include "ddl/ddl_here.h"
#include "executor/spi.h"
#include "own_sql.h"
#include "utils/guc.h"

void
shard_ddl_run_here(List *commands)
{
	ShardOwnSql own;
	int			nestlevel;

	if (commands == NIL)
		return;
	nestlevel = NewGUCNestLevel();
	(void) set_config_option("shardfdw.enable_ddl_propagation", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	shard_own_sql_begin(&own, SHARD_OWN_SQL_CALLER, InvalidSnapshot);
	foreach_ptr(char, command, commands)
		(void) shard_own_sql_execute(command, SPI_OK_UTILITY, 0, NULL);
	shard_own_sql_end(&own);
	AtEOXact_GUC(true, nestlevel);
}
