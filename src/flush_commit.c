/*
 * flush_commit.c
 *	  Commits that must be on disk before anything that depends on them is told to others.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "flush_commit.h"
#include "utils/guc.h"

/* Standbys are waited for, too: a promoted standby must have what others were told. */
static void
raise_setting(GucSource source, GucAction action)
{
	if (synchronous_commit <= SYNCHRONOUS_COMMIT_LOCAL_FLUSH)
		(void) set_config_option("synchronous_commit", "on", PGC_USERSET, source, action, true, 0, false);
}

void
shard_flush_commit_force(void)
{
	ForceSyncCommit();
	raise_setting(PGC_S_SESSION, GUC_ACTION_LOCAL);
}

void
shard_flush_commit_always(void)
{
	raise_setting(PGC_S_OVERRIDE, GUC_ACTION_SET);
}

void
shard_flush_commit_last(void)
{
	if (XactLastCommitEnd != InvalidXLogRecPtr)
		XLogFlush(XactLastCommitEnd);
}
