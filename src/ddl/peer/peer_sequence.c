/*
 * peer_sequence.c
 *	  Gives each coordinator separate values of sequences, and refuses foreign keys that only one coordinator could check.
 */
#include "postgres.h"

#include "access/xact.h"
#include "ddl/now.h"
#include "ddl/peer/peer_sequence.h"
#include "own_schema.h"

static bool
may_make_sequences(Node *stmt)
{
	return IsA(stmt, CreateStmt) || IsA(stmt, CreateSeqStmt) || IsA(stmt, AlterSeqStmt) || IsA(stmt, AlterTableStmt) ||
		IsA(stmt, CreateSchemaStmt) || IsA(stmt, CreateExtensionStmt);
}

void
shard_peer_share_sequences(Node *stmt)
{
	static bool is_sharing = false;

	/* not for the ALTER SEQUENCE that this function runs */
	if (is_sharing || !may_make_sequences(stmt))
		return;
	CommandCounterIncrement();
	is_sharing = true;
	PG_TRY();
	{
		shard_now_run("SELECT " SHARD_INTERNAL_SCHEMA ".share_sequences(), " SHARD_INTERNAL_SCHEMA ".check_plain_keys()");
	}
	PG_FINALLY();
	{
		is_sharing = false;
	}
	PG_END_TRY();
}
