/*
 * subscription_statement.c
 *	  CREATE, ALTER and DROP SUBSCRIPTION: decides whether PostgreSQL or this library applies the subscription.
 *
 * PostgreSQL's apply worker cannot write to foreign tables.  A subscription that has sharded tables remains
 * PostgreSQL's otherwise (slot, origin, tables, connection string, rights).  But the catalog has it disabled, so that
 * no apply worker starts.  A row of shardfdw_internal.subscription shows that it is enabled, and subscription.c
 * applies it.
 *
 * A session that changes a subscription waits until no transaction is being applied.  The process holds a lock on the
 * subscription while it applies one.  It ends if the lock is taken or the subscription has changed.  A session that
 * needs the lock terminates the process.
 */
#include "postgres.h"

#include <signal.h>

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/moving.h"
#include "catalog/option.h"
#include "catalog/pg_subscription.h"
#include "catalog_scan.h"
#include "commands/defrem.h"
#include "compat.h"
#include "conninfo.h"
#include "miscadmin.h"
#include "move/job/link.h"
#include "move/job/table.h"
#include "move/subscription.h"
#include "nodes/parsenodes.h"
#include "own_schema.h"
#include "own_sql.h"
#include "service/background_worker.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#define RESTART_S 2				/* after an error, or after a change of the subscription */

bool
shard_subscription_concerns(const Node *stmt)
{
	return (IsA(stmt, CreateSubscriptionStmt) || IsA(stmt, AlterSubscriptionStmt) || IsA(stmt, DropSubscriptionStmt)) &&
		!RecoveryInProgress() && OidIsValid(shard_option_cluster_server());
}

/* Registers the process.  Returns false if no worker is free. */
static bool
start(Oid subid)
{
	BackgroundWorker worker = shard_background_worker("shard_subscription_main", "shardfdw subscription worker");

	worker.bgw_restart_time = RESTART_S;
	worker.bgw_main_arg = ObjectIdGetDatum(subid);
	memcpy(worker.bgw_extra, &MyDatabaseId, sizeof(MyDatabaseId));
	return RegisterDynamicBackgroundWorker(&worker, NULL);
}

static void
warn_not_started(const char *name)
{
	ereport(WARNING,
			(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
			 errmsg("no background worker is free for subscription \"%s\"", name),
			 errhint("Increase max_worker_processes.")));
}

/* Does a function of the extension return true? */
static bool
says(const char *function, Oid subid)
{
	ShardSqlParam param = shard_sql_oid(subid);
	bool		result = shard_own_sql_run(psprintf("SELECT FROM " SHARD_INTERNAL_SCHEMA ".%s($1) t WHERE t", function), 1, &param) > 0;

	CommandCounterIncrement();
	return result;
}

/*
 * Locks a subscription as PostgreSQL does, until the end of the transaction.  Terminates the process that applies it,
 * since a copy may take hours.
 */
static void
lock_subscription(Oid subid)
{
	LOCKTAG		tag;
	int			pid;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, SubscriptionRelationId, subid, 0);
	if (LockAcquire(&tag, AccessExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL)
		return;
	pid = shard_moving_process(-(int64) subid);
	if (pid != 0)
		(void) kill(pid, SIGTERM);
	LockSharedObject(SubscriptionRelationId, subid, 0, AccessExclusiveLock);
}

void
shard_subscription_before(const Node *stmt)
{
	const AlterSubscriptionStmt *alter = IsA(stmt, AlterSubscriptionStmt) ? (const AlterSubscriptionStmt *) stmt : NULL;
	Oid			subid;

	if (IsA(stmt, CreateSubscriptionStmt))
		return;
	subid = get_subscription_oid(alter ? alter->subname : ((const DropSubscriptionStmt *) stmt)->subname, true);
	/* PostgreSQL raises the error */
	if (!OidIsValid(subid) || !shard_subscription_ownercheck(subid, GetUserId()))
		return;
	lock_subscription(subid);
	if (alter && alter->kind != ALTER_SUBSCRIPTION_ENABLED && says("release_subscription", subid) && alter->kind == ALTER_SUBSCRIPTION_SKIP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("transactions of subscription \"%s\" cannot be skipped", alter->subname),
				 errdetail("It writes to sharded tables, and several transactions are applied as one."),
				 errhint("Remove the cause of the error.")));
}

/* Has CREATE SUBSCRIPTION made the slot? */
static bool
has_made_slot(const CreateSubscriptionStmt *stmt)
{
	foreach_node(DefElem, option, stmt->options)
	{
		if ((strcmp(option->defname, "connect") == 0 || strcmp(option->defname, "create_slot") == 0) && !defGetBoolean(option))
			return false;
	}
	return true;
}

/*
 * Refuses a subscription whose slot sends transactions when they are prepared, and one that retains dead rows.
 * PostgreSQL would retain dead rows of all databases, since it sees the subscription as disabled.  A slot that CREATE
 * has made is not part of this transaction, and is dropped.
 */
static void
refuse_options(const char *name, Oid subid, const CreateSubscriptionStmt *created)
{
	HeapTuple	tuple = shard_catalog_row(SUBSCRIPTIONOID, subid);
	Form_pg_subscription form = (Form_pg_subscription) GETSTRUCT(tuple);
	const char *option = created && form->subtwophasestate == LOGICALREP_TWOPHASE_STATE_ENABLED ? "two_phase" :
		shard_subscription_retains(form) ? "retain_dead_tuples" : NULL;
	bool		is_null;
	char	   *conninfo;
	ShardConn  *link;

	if (option && created && has_made_slot(created))
	{
		conninfo = shard_subscription_conninfo(subid);
		link = shard_link_open_string(conninfo, shard_conninfo_place(conninfo), form->subowner, true);
		shard_link_exec(link, psprintf("DROP_REPLICATION_SLOT %s", quote_identifier(NameStr(*DatumGetName(SysCacheGetAttr(SUBSCRIPTIONOID, tuple, Anum_pg_subscription_subslotname, &is_null))))));
		shard_link_close(&link);
	}
	ReleaseSysCache(tuple);
	if (option)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscription \"%s\" cannot have %s because it writes to sharded tables", name, option)));
}

void
shard_subscription_after(const Node *stmt)
{
	const char *name;
	Oid			subid;

	if (IsA(stmt, DropSubscriptionStmt))
	{
		(void) shard_own_sql_run("SELECT " SHARD_INTERNAL_SCHEMA ".forget_subscriptions()", 0, NULL);
		return;
	}
	name = IsA(stmt, CreateSubscriptionStmt) ? ((const CreateSubscriptionStmt *) stmt)->subname : ((const AlterSubscriptionStmt *) stmt)->subname;
	CommandCounterIncrement();
	subid = get_subscription_oid(name, true);
	if (!OidIsValid(subid))
		return;
	/* the process starts when this transaction has ended */
	LockSharedObject(SubscriptionRelationId, subid, 0, AccessExclusiveLock);
	if (!says("take_subscription", subid))
		return;
	refuse_options(name, subid, IsA(stmt, CreateSubscriptionStmt) ? (const CreateSubscriptionStmt *) stmt : NULL);
	if (IsA(stmt, CreateSubscriptionStmt) || ((const AlterSubscriptionStmt *) stmt)->kind == ALTER_SUBSCRIPTION_ENABLED)
		ereport(NOTICE,
				(errmsg("subscription \"%s\" is applied by shardfdw", name),
				 errdetail("It writes to sharded tables. PostgreSQL's own apply worker cannot do that, and shows it as disabled; the view shardfdw.subscriptions shows how far it is.")));
	if (!start(subid))
		warn_not_started(name);
}

void
shard_subscription_start_missing(void)
{
	List	   *subids = shard_own_sql_oids("SELECT " SHARD_INTERNAL_SCHEMA ".missing_subscriptions()", InvalidSnapshot);

	foreach_oid(subid, subids)
	{
		if (!start(subid))
			warn_not_started(get_subscription_name(subid, false));
	}
}
