/*
 * ddl_here.c
 *	  Runs commands of our own that change only the coordinator's side.
 */
#include "postgres.h"

#include "ddl/ddl_here.h"
#include "executor/spi.h"
#include "utils/guc.h"

void
shard_ddl_run_here(List *commands)
{
	int			nestlevel;
	ListCell   *lc;

	if (commands == NIL)
		return;
	nestlevel = NewGUCNestLevel();
	(void) set_config_option("shardfdw.enable_ddl_propagation", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	SPI_connect();
	foreach(lc, commands)
		if (SPI_execute(lfirst(lc), false, 0) != SPI_OK_UTILITY)
			elog(ERROR, "could not run: %s", (char *) lfirst(lc));
	SPI_finish();
	AtEOXact_GUC(true, nestlevel);
}
